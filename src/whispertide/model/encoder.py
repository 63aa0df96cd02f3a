"""The encoder session: log-mel windows of any length up to 30 s -> what the decoder attends to."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from whispertide.checkpoint import ModelDims
from whispertide.errors import GraphError
from whispertide.graphs.contract import masked_value
from whispertide.graphs.store import GraphFiles
from whispertide.model.runtime import GraphSession, open_session
from whispertide.options import EngineOptions
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class Encoded:
    """One encoded window. The keys and values stay where they were computed; they are never copied here.

    cross_k       per decoder layer [1, heads, 64, frames], scaled and transposed
    cross_v       per decoder layer [1, heads, frames, 64]
    frames        encoder frames of 20 ms, padding included
    valid_frames  those that the decoder may attend to; the rest is masked and cropped from attention
    hidden        [frames, width] the encoder's output, if it was asked for
    """

    cross_k: tuple[Any, ...]
    cross_v: tuple[Any, ...]
    frames: int
    valid_frames: int
    hidden: FloatArray | None = None


def in_runtime(encoded: Encoded) -> Encoded:
    """The same window for a decoder of ONNX Runtime, whichever backend encoded it; copied only where it must be."""
    import onnxruntime

    def tensor(values: Any) -> Any:
        if isinstance(values, onnxruntime.OrtValue):
            return values
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(values, np.float32))

    keys, contents = tuple(map(tensor, encoded.cross_k)), tuple(map(tensor, encoded.cross_v))
    return replace(encoded, cross_k=keys, cross_v=contents)


class Encoder:
    """Runs the encoder graphs of one model."""

    def __init__(self, files: GraphFiles, dims: ModelDims, options: EngineOptions) -> None:
        self._files = files
        self._dims = dims
        self._options = options

    @cached_property
    def _open(self) -> GraphSession:
        return open_session(self._files.encoder, self._options)

    @cached_property
    def _masked(self) -> GraphSession:
        return open_session(self._files.encoder_masked, self._options)

    def encode(
        self,
        mel: FloatArray,
        *,
        valid_frames: int | None = None,
        mask_padding: bool = True,
        attention: FloatArray | None = None,
        hidden: bool = False,
    ) -> Encoded:
        """Encode one window.

        mel           [n_mels, 2 * frames] normalised log-mel, at most 3,000 columns, an even number
        valid_frames  frames behind this one are padding: nothing attends to them, in the encoder or the decoder
        mask_padding  False: only the decoder does not; within the encoder padding is attended to (faster)
        attention     [frames, frames] bias of the encoder's self-attention in place of that mask (block-diagonal and
                      the like); the decoder still masks by `valid_frames`
        Raises `GraphError` for any other shape.
        """
        frames, valid = check_mel(mel, self._dims, valid_frames)
        inputs: dict[str, Any] = {"mel": np.ascontiguousarray(mel[None]), "positions": np.arange(frames)}
        graph = self._open
        if attention is None and mask_padding:
            attention = padding_bias(frames, valid, self._options.precision)
        if attention is not None:
            inputs["attention_bias"] = np.ascontiguousarray(attention[None, None])
            graph = self._masked
        return run_encoder(graph, inputs, self._dims, frames=frames, valid_frames=valid, hidden=hidden)


def padding_bias(frames: int, valid: int, precision: str) -> FloatArray | None:
    """The bias [frames, frames] of self-attention that hides the frames from `valid` on; None where there are none."""
    if valid == frames:
        return None
    bias = np.zeros((frames, frames), np.float32)
    bias[:, valid:] = masked_value(precision)
    return bias


def check_mel(mel: FloatArray, dims: ModelDims, valid_frames: int | None) -> tuple[int, int]:
    """How many encoder frames a window has, and how many of them are valid. Raises `GraphError` for other shapes."""
    limit = 2 * dims.n_audio_ctx
    columns = mel.shape[-1] if mel.ndim == 2 else -1
    if mel.ndim != 2 or mel.shape[0] != dims.n_mels or columns % 2 or not 2 <= columns <= limit:
        raise GraphError(
            f"expected log-mel of shape [{dims.n_mels}, an even number from 2 to {limit}]; got {mel.shape}"
        )
    frames = columns // 2
    valid = frames if valid_frames is None else valid_frames
    if not 0 < valid <= frames:
        raise GraphError(f"expected 1 to {frames} valid frames; got {valid}")
    return frames, valid


def run_encoder(
    graph: GraphSession, inputs: dict[str, Any], dims: ModelDims, *, frames: int, valid_frames: int, hidden: bool
) -> Encoded:
    """Run an encoder graph, dynamic or static, over one window; `hidden` is copied out only where it is asked for."""
    layers = range(dims.n_text_layer)
    names = [f"cross_k.{i}" for i in layers] + [f"cross_v.{i}" for i in layers] + ["hidden"] * hidden
    values = graph.run(names, inputs)
    count = len(layers)
    return Encoded(
        cross_k=tuple(values[:count]),
        cross_v=tuple(values[count : 2 * count]),
        frames=frames,
        valid_frames=valid_frames,
        hidden=values[-1].numpy()[0].astype(np.float32, copy=False) if hidden else None,
    )
