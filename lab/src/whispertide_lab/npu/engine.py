"""A folder of static graphs, opened: the encoder pads to buckets, the decoder runs in chunks (`chunk_runs`).

What the folder holds is `export`'s business.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.generation import Head
from whispertide.errors import GraphError
from whispertide.model.engine import DecoderRun, Encoded, EncoderState, Engine, check_stateless
from whispertide.model.providers import choose_provider
from whispertide.model.runtime import GraphSession, open_session, run_encoder
from whispertide.options import EngineOptions
from whispertide.types import FloatArray, IntArray
from whispertide_lab.npu.chunks import MASKED, encoder_name, frames_of, read_manifest
from whispertide_lab.npu.qnn import QnnOptions

# Packing copies a matrix once for every node that uses it, and in an unrolled graph every step uses every matrix.
_UNPACKED = {"session.disable_prepacking": "1"}


class StaticEngine:
    """The graphs of one model in one folder, each opened when it is first used. Satisfies `engine.Engine`.

    Provider and threads are those of `options`; the precision is the folder's.
    """

    def __init__(
        self, folder: Path, checkpoint: Checkpoint, options: EngineOptions, qnn: QnnOptions | None = None
    ) -> None:
        """Raises `GraphError` for a folder that is damaged or was made from another checkpoint."""
        manifest = read_manifest(folder)
        if manifest.content_hash != checkpoint.content_hash:
            raise GraphError(
                f"expected static graphs of {checkpoint.name} as it is now; {folder} was made from "
                f"{manifest.model} with other weights: export the model again"
            )
        self.path = folder
        self.dims = checkpoint.dims
        self.layout = manifest.layout
        half = manifest.precision == "fp16"
        self.dtype = np.float16 if half else np.float32  # of all floats that go in and out
        self.options = replace(options, precision="fp16" if half else "fp32")
        self._qnn = qnn or QnnOptions()
        self._sessions: dict[str, GraphSession] = {}

    def check_bucket(self, frames: int) -> None:
        """Raise `GraphError` unless windows of so many encoder frames are among the buckets."""
        lengths = [frames_of(bucket) for bucket in self.layout.buckets]
        if frames not in lengths:
            raise GraphError(
                f"expected a window of {', '.join(map(str, lengths))} encoder frames with its padding; got {frames}: "
                "pad it to one of the buckets"
            )

    def session(self, name: str) -> GraphSession:
        """A graph by its name; opened once. Raises `GraphError` where it is missing or cannot be loaded."""
        if name not in self._sessions:
            path = self.path / f"{name}.onnx"
            if not path.is_file():
                raise GraphError(
                    f"expected the graph {path.name} in {self.path}; it is missing: export the model again"
                )
            self._sessions[name] = self._open(path)
        return self._sessions[name]

    def _open(self, path: Path) -> GraphSession:
        if choose_provider(self.options.provider) != "qnn":
            return open_session(path, self.options, entries=_UNPACKED)
        provider_options, entries = self._qnn.provider_options(), self._qnn.entries(path)
        if self._qnn.contexts is not None and (compiled := self._qnn.compiled(path)).is_file():
            path = compiled
            entries.pop("ep.context_enable")  # it is compiled already
        return open_session(path, self.options, provider_options=provider_options, entries=entries)

    def encode(
        self,
        mel: FloatArray,
        *,
        state: EncoderState | None = None,
        taps: Sequence[int] = (),
        valid_frames: int | None = None,
        mask_padding: bool = True,
        attention: FloatArray | None = None,
        positions: IntArray | None = None,
    ) -> Encoded:
        """Encode log-mel [n_mels, columns] of any length; it is padded with zeros to the shortest bucket.

        Raises `OptionError` for more audio than the longest bucket holds, `GraphError` for another shape, and for an
        attention or positions of one's own.
        """
        check_stateless(state)
        if attention is not None or positions is not None:
            raise GraphError(
                "expected no attention mask and no positions for static graphs, which mask the padding alone; got some"
            )
        if mel.ndim != 2 or mel.shape[0] != self.dims.n_mels or not mel.shape[1]:
            raise GraphError(f"expected log-mel of shape [{self.dims.n_mels}, 1 or more]; got {mel.shape}")
        given = -(-mel.shape[1] // 2)
        valid, frames = valid_frames or given, self.layout.bucket(given)
        padded = np.zeros((1, self.dims.n_mels, 2 * frames), self.dtype)
        padded[0, :, : mel.shape[1]] = mel
        bias = np.zeros((1, 1, 1, frames), self.dtype)
        # Zeros that are added here are always hidden; those that came with the audio where padding is to be masked.
        bias[..., valid if mask_padding else given :] = MASKED
        graph, inputs = self.session(encoder_name(frames)), {"mel": padded, "attention_bias": bias}
        return run_encoder(graph, inputs, self.dims, frames=frames, valid_frames=valid, taps=taps)

    def start(self, encoded: Encoded, heads: Sequence[Head] = ()) -> DecoderRun:
        """Raises `GraphError`: static graphs have no decoder that is fed token by token."""
        raise GraphError("expected a decoder of single steps; static graphs run in chunks: use `unrolled.start_chunks`")

    def hearing(self, checkpoint: Checkpoint) -> Engine:
        """Raises `GraphError`: a folder has one encoder."""
        raise GraphError(f"expected one encoder in {self.path}; got another, of {checkpoint.name}: export it, too")
