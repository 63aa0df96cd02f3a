"""The decoder graph in use: tokens in, distributions and attention out, for the rows of one search over one window.

Its self-attention keys and values are a value (`KVCache`): the arrays are never written to, so copying it is free.

`Decoder` names the graph's inputs and outputs; a `DecoderState` feeds it the rows of one search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from whispertide.checkpoint import ModelDims
from whispertide.checkpoint.generation import Head
from whispertide.graphs.contract import masked_value
from whispertide.model.engine import DecodeOutput, DecodeRequest, Encoded, check_context
from whispertide.model.runtime import GraphSession, in_runtime
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
        tensors = tuple(onnxruntime.OrtValue.ortvalue_from_numpy(nothing) for _ in range(dims.n_text_layer))
        # Keys and values may share the arrays, since nothing is ever written to them.
        return cls(tensors, tensors, 0)

    @property
    def rows(self) -> int:
        """Rows in the cache."""
        return int(self.keys[0].shape()[0])

    def of(self, rows: Sequence[int]) -> Self:
        """Of these rows, in this order; itself where they are its own. Only a beam whose rows move copies anything."""
        import onnxruntime

        if [*rows] == [*range(self.rows)]:
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


@dataclass(frozen=True, slots=True)
class Rows:
    """The inputs of one run of the graph: the rows of one search (`graphs.decoder`).

    tokens     [rows, length]
    first      [rows, 1] the position of each row's first token
    self_bias, cross_bias, suppress   as the graph has them
    cross_keys, cross_values   of the windows, per layer
    """

    tokens: IntArray
    first: IntArray
    self_bias: FloatArray
    cross_bias: FloatArray
    suppress: FloatArray
    cache: KVCache
    cross_keys: Sequence[Any]
    cross_values: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one run: the cache with the new tokens in it, the outcome after each token (its distribution, and
    the hidden state it is made from), and, by layer, attention.
    """

    cache: KVCache
    after: dict[str, Any]
    attention: dict[int, FloatArray]

    def output(self, request: DecodeRequest, heads: Sequence[Head], encoded: Encoded) -> DecodeOutput:
        """The outcome for the search that asked for it."""
        rows, length = request.tokens.shape
        wanted = dict(self.after)
        if "time_mass" in wanted:
            # The graph keeps the axis that it has summed over.
            wanted["time_mass"] = wanted["time_mass"][..., 0]
        if not heads:
            return DecodeOutput(**wanted)
        # In the graph the queries of a window's rows are one axis, row after row.
        chosen = np.stack([self.attention[layer][0, head] for layer, head in heads])
        attention = chosen.reshape(len(heads), rows, length, -1)[..., : encoded.valid_frames]
        return DecodeOutput(**wanted, attention=attention)


class Decoder:
    """The decoder graph of one model, open."""

    def __init__(self, graph: GraphSession, dims: ModelDims, precision: str) -> None:
        self.graph = graph
        self.dims = dims
        self.masked_value = masked_value(precision)
        # The graph always adds something to the logits; zeros change nothing.
        self._no_suppression = np.zeros((1, 1, dims.n_vocab), np.float32)

    def run(self, rows: Rows, request: DecodeRequest, heads: Sequence[Head]) -> Found:
        """Feed `rows`, which all want what `request` wants, and watch `heads`. Raises `GraphError`."""
        layers = range(self.dims.n_text_layer)
        watched = sorted({layer for layer, _ in heads})
        # What is not named is not copied out of the runtime.
        names = [
            *_DISTRIBUTION[request.need],
            *(f"present_{which}.{i}" for which in "kv" for i in layers),
            *(f"cross_attention.{i}" for i in watched),
            *(["hidden"] if request.hidden else []),
        ]
        found = dict(zip(names, self.graph.run(names, self._inputs(rows, request)), strict=True))
        keys, values = (tuple(found[f"present_{which}.{i}"] for i in layers) for which in "kv")
        return Found(
            cache=KVCache(keys, values, rows.cache.length + rows.tokens.shape[1]),
            after={name: found[name].numpy() for name in (*_DISTRIBUTION[request.need], "hidden") if name in found},
            attention={i: found[f"cross_attention.{i}"].numpy() for i in watched},
        )

    def _inputs(self, rows: Rows, request: DecodeRequest) -> dict[str, Any]:
        count = len(rows.tokens)
        inputs: dict[str, Any] = {
            "ids": np.ascontiguousarray(rows.tokens, np.int64),
            "positions": (rows.first + np.arange(rows.tokens.shape[1])).astype(np.int64),
            "self_bias": rows.self_bias,
            "cross_bias": rows.cross_bias,
            # The graph gathers by row, so every row is told the places, although they are the same for all.
            "logits_at": np.tile(np.array(request.logits_at, np.int64)[None, :, None], (count, 1, 1)),
            "suppress": rows.suppress,
        }
        for i in range(self.dims.n_text_layer):
            inputs[f"past_k.{i}"], inputs[f"past_v.{i}"] = rows.cache.keys[i], rows.cache.values[i]
            inputs[f"cross_k.{i}"], inputs[f"cross_v.{i}"] = rows.cross_keys[i], rows.cross_values[i]
        return inputs

    def causal_bias(self, past: int, request: DecodeRequest) -> FloatArray:
        """[1, 1, length, past + length]: a token attends to what is cached, to those it comes after, and to itself."""
        length = request.tokens.shape[1]
        bias = np.zeros((1, 1, length, past + length), np.float32)
        # A single token comes after everything in the cache: nothing is hidden from it.
        if length > 1:
            bias[0, 0, :, past:][~np.tri(length, dtype=np.bool_)] = self.masked_value
        return bias

    def padding_bias(self, encoded: Encoded) -> FloatArray:
        """[1, 1, 1, frames], or one number for all of them: nothing attends to a window's padding."""
        if encoded.valid_frames == encoded.frames:
            return np.zeros((1, 1, 1, 1), np.float32)
        bias = np.zeros((1, 1, 1, encoded.frames), np.float32)
        bias[..., encoded.valid_frames :] = self.masked_value
        return bias

    def suppression(self, request: DecodeRequest) -> FloatArray:
        """[rows or 1, 1, vocab] of a request, to be added to the logits."""
        return self._no_suppression if request.suppress is None else suppressed_rows(request.suppress)


class DecoderState:
    """A decoder over one window with its cache. Implements `engine.DecoderRun`."""

    def __init__(self, decoder: Decoder, encoded: Encoded, heads: tuple[Head, ...], cache: KVCache) -> None:
        self.cache = cache
        self._decoder = decoder
        self._encoded = encoded
        self._heads = heads

    @property
    def length(self) -> int:
        """Positions in the cache."""
        return self.cache.length

    def hear(self, encoded: Encoded) -> None:
        """Attend to `encoded` from now on; the cache stays."""
        self._encoded = in_runtime(encoded)

    def rewind(self, drop: int) -> None:
        """Forget the newest `drop` positions of every row."""
        self.cache = self.cache.rewound(self.cache.length - drop)

    def run(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens of `request` after the cache.

        Raises `GraphError` when the text context (448 positions) would overflow.
        """
        decoder, cache, encoded = self._decoder, self.cache, self._encoded
        count = len(request.tokens)
        check_context(cache.length, request.tokens.shape[1], decoder.dims)
        rows = Rows(
            tokens=request.tokens,
            first=np.full((count, 1), cache.length),
            self_bias=decoder.causal_bias(cache.length, request),
            cross_bias=decoder.padding_bias(encoded),
            suppress=decoder.suppression(request),
            cache=cache.of(range(count) if request.parents is None else request.parents),
            cross_keys=encoded.cross_k,
            cross_values=encoded.cross_v,
        )
        found = decoder.run(rows, request, self._heads)
        self.cache = found.cache
        return found.output(request, self._heads, encoded)
