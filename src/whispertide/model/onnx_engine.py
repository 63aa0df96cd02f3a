"""ONNX Runtime over the graphs of one checkpoint: the engine, and its decoder in use.

A `DecoderState` feeds the decoder graph the rows of one search over one window. Its self-attention keys and values are
a value (`KVCache`): the arrays are never written to, so copying it is free.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, Self

import numpy as np

from whispertide.checkpoint import Checkpoint, ModelDims
from whispertide.checkpoint.generation import Head
from whispertide.checkpoint.mask import Mask
from whispertide.graphs.contract import DECODER, ENCODER, ENCODER_INCREMENTAL, ENCODER_MASKED, GraphKind, masked_value
from whispertide.graphs.store import GraphFiles
from whispertide.model.engine import (
    DecodeOutput,
    DecodeRequest,
    Encoded,
    EncoderState,
    check_context,
    check_heads,
    check_mel,
)
from whispertide.model.incremental import encode_piece
from whispertide.model.masked import Silence, encode_window, is_masked
from whispertide.model.runtime import GraphSession, in_runtime, open_session, padding_bias, run_encoder
from whispertide.options import EngineOptions
from whispertide.types import FloatArray, IntArray

_TOP = ("top_ids", "top_logprobs")
_DISTRIBUTION = {"top": _TOP, "times": (*_TOP, "time_ids", "time_logprobs", "time_mass"), "logits": ("logits",)}


@dataclass(frozen=True, slots=True)
class KVCache:
    """Per layer one runtime tensor [rows, heads, length, 64] of keys and one of values."""

    keys: tuple[Any, ...]
    values: tuple[Any, ...]
    length: int

    @classmethod
    def empty(cls, dims: ModelDims) -> Self:
        """One row of length 0."""
        import onnxruntime

        heads = dims.n_text_head
        nothing = np.empty((1, heads, 0, dims.n_text_state // heads), np.float32)
        # All may share one array, since nothing is ever written to them.
        tensors = (onnxruntime.OrtValue.ortvalue_from_numpy(nothing),) * dims.n_text_layer
        return cls(tensors, tensors, 0)

    def of(self, rows: Sequence[int]) -> Self:
        """Of these rows, in this order; itself where they are its own. Only a beam whose rows move copies anything."""
        import onnxruntime

        if [*rows] == [*range(self.keys[0].shape()[0])]:
            return self

        def taken(tensor: Any) -> Any:
            return onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy()[list(rows)])

        return type(self)(tuple(map(taken, self.keys)), tuple(map(taken, self.values)), self.length)

    def rewound(self, length: int) -> Self:
        """This cache cut back to its first `length` positions."""
        import onnxruntime

        if not 0 <= length <= self.length:
            raise ValueError(f"expected to keep 0 to {self.length} cached positions; got {length}")
        if length == self.length:
            return self

        def cut(tensor: Any) -> Any:
            whole = tensor.numpy()
            # The runtime's tensors are dense, so a cut is a copy.
            return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(whole[:, :, :length]))

        return type(self)(tuple(map(cut, self.keys)), tuple(map(cut, self.values)), length)


def suppressed_rows(suppress: FloatArray) -> FloatArray:
    """[rows or 1, 1, vocab] of a request's `suppress`, to be added to the logits."""
    rows = suppress[None] if suppress.ndim == 1 else suppress
    return np.ascontiguousarray(rows[:, None], np.float32)


class Decoder:
    """The decoder graph of one model, open (`graphs.decoder`): tokens in, distributions and attention out."""

    def __init__(self, graph: GraphSession, dims: ModelDims, precision: str) -> None:
        self.graph = graph
        self.dims = dims
        self.masked_value = masked_value(precision)
        self._present = [f"present_{which}.{i}" for which in "kv" for i in range(dims.n_text_layer)]
        # The graph always adds something to the logits; zeros change nothing.
        self._no_suppression = np.zeros((1, 1, dims.n_vocab), np.float32)

    def run(
        self, request: DecodeRequest, cache: KVCache, encoded: Encoded, heads: Sequence[Head]
    ) -> tuple[DecodeOutput, KVCache]:
        """Feed the tokens of `request` after `cache`, whose rows they continue, and watch `heads`; returns the cache
        with them in it, too. Raises `GraphError`.
        """
        rows, length = request.tokens.shape
        asked = [*_DISTRIBUTION[request.need], *(["hidden"] if request.hidden else [])]
        watched = sorted({layer for layer, _ in heads})
        # What is not named is not copied out of the runtime.
        names = [*self._present, *asked, *[f"cross_attention.{layer}" for layer in watched]]
        values = self.graph.run(names, self._inputs(request, cache, encoded))
        present, arrays = values[: len(self._present)], [value.numpy() for value in values[len(self._present) :]]
        after = dict(zip(asked, arrays, strict=False))
        if "time_mass" in after:
            # The graph keeps the axis that it has summed over.
            after["time_mass"] = after["time_mass"][..., 0]
        if heads:
            seen = dict(zip(watched, arrays[len(asked) :], strict=True))
            # In the graph the queries of a window's rows are one axis, row after row.
            chosen = np.stack([seen[layer][0, head] for layer, head in heads])
            after["attention"] = chosen.reshape(len(heads), rows, length, -1)[..., : encoded.valid_frames]
        layers = self.dims.n_text_layer
        grown = KVCache(tuple(present[:layers]), tuple(present[layers:]), cache.length + length)
        return DecodeOutput(**after), grown

    def _inputs(self, request: DecodeRequest, cache: KVCache, encoded: Encoded) -> dict[str, Any]:
        rows, length = request.tokens.shape
        positions = np.arange(cache.length, cache.length + length, dtype=np.int64)
        # One number for all frames where none is padding, to which nothing attends.
        cross_bias = np.zeros((1, 1, 1, encoded.frames if encoded.valid_frames < encoded.frames else 1), np.float32)
        cross_bias[..., encoded.valid_frames :] = self.masked_value
        inputs: dict[str, Any] = {
            "ids": np.ascontiguousarray(request.tokens, np.int64),
            "positions": np.tile(positions, (rows, 1)),
            "self_bias": self.causal_bias(cache.length, request),
            "cross_bias": cross_bias,
            # The graph gathers by row, so every row is told the places, although they are the same for all.
            "logits_at": np.tile(np.array(request.logits_at, np.int64)[None, :, None], (rows, 1, 1)),
            "suppress": self._no_suppression if request.suppress is None else suppressed_rows(request.suppress),
        }
        for i in range(self.dims.n_text_layer):
            inputs[f"past_k.{i}"], inputs[f"past_v.{i}"] = cache.keys[i], cache.values[i]
            inputs[f"cross_k.{i}"], inputs[f"cross_v.{i}"] = encoded.cross_k[i], encoded.cross_v[i]
        return inputs

    def causal_bias(self, past: int, request: DecodeRequest) -> FloatArray:
        """[1, 1, length, past + length]: a token attends to what is cached, to those it comes after, and to itself."""
        length = request.tokens.shape[1]
        bias = np.zeros((1, 1, length, past + length), np.float32)
        # A single token comes after everything in the cache: nothing is hidden from it.
        if length > 1:
            bias[0, 0, :, past:][~np.tri(length, dtype=np.bool_)] = self.masked_value
        return bias


class DecoderState:
    """A decoder over one window with its cache. Implements `engine.DecoderRun`."""

    def __init__(self, decoder: Decoder, encoded: Encoded, heads: tuple[Head, ...], cache: KVCache) -> None:
        self.cache = cache
        self._decoder = decoder
        self._encoded = encoded
        self._heads = heads

    def rewind(self, drop: int) -> None:
        """Forget the newest `drop` positions of every row."""
        self.cache = self.cache.rewound(self.cache.length - drop)

    def run(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens of `request` after the cache.

        Raises `GraphError` when the text context (448 positions) would overflow.
        """
        rows, length = request.tokens.shape
        check_context(self.cache.length, length, self._decoder.dims)
        cache = self.cache.of(range(rows) if request.parents is None else request.parents)
        output, self.cache = self._decoder.run(request, cache, self._encoded, self._heads)
        return output


class OnnxEngine:
    """Satisfies `engine.Engine`. Each graph is opened when it is first used. One object may serve many streams.

    `speaker`: the engine whose decoder it has, in place of one of its own.
    """

    def __init__(self, graphs: GraphFiles, options: EngineOptions, speaker: "OnnxEngine | None" = None) -> None:
        self.options = options
        self._speaker = speaker
        self._graphs = graphs
        self._dims = graphs.checkpoint.dims
        self._silence: Silence = {}
        self._sessions: dict[GraphKind, GraphSession] = {}
        self._opening = Lock()

    def _session(self, kind: GraphKind) -> GraphSession:
        """The graph, open, once for all threads."""
        with self._opening:
            if kind not in self._sessions:
                self._sessions[kind] = open_session(self._graphs[kind], self.options)
            return self._sessions[kind]

    def _blockwise(self, mask: Mask) -> GraphSession:
        return self._session(ENCODER_INCREMENTAL if mask.causal else ENCODER)

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder graph, open."""
        if self._speaker is not None:
            return self._speaker.decoder
        return Decoder(self._session(DECODER), self._dims, self.options.precision)

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
        """Encode one window, or what comes after a state (`incremental`, `masked`); the last layer alone can be
        tapped.
        """
        precision = self.options.precision
        if state is not None and is_masked(state):
            return encode_window(self._blockwise, mel, state, self._dims, precision, self._silence, taps)
        if state is not None:
            graph = self._session(ENCODER_INCREMENTAL)
            return encode_piece(graph, mel, state, self._dims, precision, taps=taps, attention=attention)
        frames, valid = check_mel(mel, self._dims, valid_frames)
        at = np.arange(frames) if positions is None else positions
        inputs: dict[str, Any] = {"mel": np.ascontiguousarray(mel[None]), "positions": at}
        if attention is None and mask_padding:
            attention = padding_bias(frames, valid, precision)
        # Without a bias ONNX Runtime takes its flash attention (`graphs.encoder`).
        graph = self._session(ENCODER if attention is None else ENCODER_MASKED)
        if attention is not None:
            inputs["attention_bias"] = np.ascontiguousarray(attention[None, None])
        return run_encoder(graph, inputs, self._dims, frames=frames, valid_frames=valid, taps=taps)

    def start(self, encoded: Encoded, heads: Sequence[Head] = ()) -> DecoderState:
        """A fresh decoder over `encoded`, whichever engine made it."""
        check_heads(heads, self._dims)
        return DecoderState(self.decoder, in_runtime(encoded), tuple(heads), KVCache.empty(self._dims))

    def hearing(self, checkpoint: Checkpoint) -> "OnnxEngine":
        """The same decoder after the encoder of `checkpoint`; its graph is built now, and opened when it is used.

        What the decoder attends to, the encoder's graph makes (`graphs.encoder`): so its changes are heard, too.
        """
        graphs = replace(self._graphs, checkpoint=checkpoint)
        graphs.build(ENCODER)
        return OnnxEngine(graphs, self.options, self)
