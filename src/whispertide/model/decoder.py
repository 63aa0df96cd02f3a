"""The decoder session: tokens in, distributions and attention out, for the rows of one search over one window."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from whispertide.checkpoint import ModelDims
from whispertide.errors import GraphError
from whispertide.graphs.contract import masked_value
from whispertide.graphs.store import GraphFiles
from whispertide.model.cache import KVCache
from whispertide.model.encoder import Encoded, in_runtime
from whispertide.model.request import DecodeOutput, DecodeRequest, Head
from whispertide.model.runtime import GraphSession, open_session
from whispertide.options import EngineOptions
from whispertide.types import FloatArray

_TOP = ("top_ids", "top_logprobs")
_DISTRIBUTION = {"top": _TOP, "times": (*_TOP, "time_ids", "time_logprobs", "time_mass"), "logits": ("logits",)}


def check_heads(heads: Sequence[Head], dims: ModelDims) -> None:
    """Raise `GraphError` for a head that the decoder has not."""
    for layer, head in heads:
        if not (0 <= layer < dims.n_text_layer and 0 <= head < dims.n_text_head):
            raise GraphError(
                f"expected attention heads within {dims.n_text_layer} layers of {dims.n_text_head}; "
                f"got layer {layer}, head {head}"
            )


def check_context(past: int, length: int, dims: ModelDims) -> None:
    """Raise `GraphError` where so many tokens behind so many do not fit into the text context."""
    if past + length > dims.n_text_ctx:
        raise GraphError(f"expected at most {dims.n_text_ctx} tokens of text context; got {past} + {length}")


def suppressed_rows(suppress: FloatArray) -> FloatArray:
    """[rows or 1, 1, vocab] of a request's `suppress`, to be added to the logits."""
    rows = suppress[None] if suppress.ndim == 1 else suppress
    return np.ascontiguousarray(rows[:, None], np.float32)


class Decoder:
    """Runs the decoder graph of one model; `start` gives the state of one search."""

    def __init__(self, files: GraphFiles, dims: ModelDims, options: EngineOptions) -> None:
        self.dims = dims
        self.graph: GraphSession = open_session(files.decoder, options)
        self.masked_value = masked_value(options.precision)
        self.no_suppression = np.zeros((1, 1, dims.n_vocab), np.float32)

    def start(self, encoded: Encoded, heads: Sequence[Head] = ()) -> "DecoderState":
        """A fresh decoder over `encoded` that returns the cross-attention of `heads` with every run."""
        check_heads(heads, self.dims)
        return DecoderState(self, in_runtime(encoded), tuple(heads), KVCache.empty(self.dims))


class DecoderState:
    """A decoder over one window with its cache. Implements `decoding.search.DecoderRun`."""

    def __init__(self, decoder: Decoder, encoded: Encoded, heads: tuple[Head, ...], cache: KVCache) -> None:
        self._decoder = decoder
        self._encoded = encoded
        self._heads = heads
        self._cache = cache

    @property
    def length(self) -> int:
        """Positions in the cache."""
        return self._cache.length

    @property
    def cache(self) -> KVCache:
        """The cache as it is now, for whoever continues it elsewhere."""
        return self._cache

    def fork(self) -> Self:
        """A state that goes its own way from here; nothing is copied."""
        return type(self)(self._decoder, self._encoded, self._heads, self._cache)

    def moved(self, decoder: Decoder) -> Self:
        """The state as another session of the same model goes on with it; nothing is copied."""
        return type(self)(decoder, self._encoded, self._heads, self._cache)

    def rewind(self, drop: int) -> None:
        """Forget the newest `drop` positions of every row."""
        self._cache = self._cache.rewound(self._cache.length - drop)

    def run(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens of `request` behind the cache.

        Raises `GraphError` when the text context (448 positions) would overflow.
        """
        names = self._output_names(request)
        values = dict(zip(names, self._decoder.graph.run(names, self._inputs(request)), strict=True))
        layers = range(self._decoder.dims.n_text_layer)
        self._cache = KVCache(
            tuple(values[f"present_k.{i}"] for i in layers),
            tuple(values[f"present_v.{i}"] for i in layers),
            self._cache.length + request.tokens.shape[1],
        )
        attention = self._attention(values, request) if self._heads else None
        wanted = {name: values[name].numpy() for name in _DISTRIBUTION[request.need]}
        if "time_mass" in wanted:
            wanted["time_mass"] = wanted["time_mass"][..., 0]
        return DecodeOutput(**wanted, attention=attention)

    def _output_names(self, request: DecodeRequest) -> list[str]:
        layers = range(self._decoder.dims.n_text_layer)
        return [
            *_DISTRIBUTION[request.need],
            *(f"present_k.{i}" for i in layers),
            *(f"present_v.{i}" for i in layers),
            *(f"cross_attention.{i}" for i in sorted({layer for layer, _ in self._heads})),
        ]

    def _inputs(self, request: DecodeRequest) -> dict[str, Any]:
        rows, length = request.tokens.shape
        past = self._cache.length
        check_context(past, length, self._decoder.dims)
        parents = np.arange(rows) if request.parents is None else np.array(request.parents)
        inputs: dict[str, Any] = {
            "ids": np.ascontiguousarray(request.tokens, np.int64),
            "positions": np.broadcast_to(np.arange(past, past + length), (rows, length)).copy(),
            "parents": parents.astype(np.int64),
            "self_bias": self._causal(past, length),
            "cross_bias": self._cross_bias(),
            "logits_at": np.tile(np.array(request.logits_at, np.int64)[None, :, None], (rows, 1, 1)),
            "suppress": self._suppress(request.suppress),
        }
        for i in range(self._decoder.dims.n_text_layer):
            inputs[f"past_k.{i}"], inputs[f"past_v.{i}"] = self._cache.keys[i], self._cache.values[i]
            inputs[f"cross_k.{i}"], inputs[f"cross_v.{i}"] = self._encoded.cross_k[i], self._encoded.cross_v[i]
        return inputs

    def _causal(self, past: int, length: int) -> FloatArray:
        bias = np.zeros((1, 1, length, past + length), np.float32)
        if length > 1:
            bias[0, 0, :, past:] = np.triu(np.full((length, length), self._decoder.masked_value, np.float32), 1)
        return bias

    def _cross_bias(self) -> FloatArray:
        encoded = self._encoded
        if encoded.valid_frames == encoded.frames:
            return np.zeros((1, 1, 1, 1), np.float32)
        bias = np.zeros((1, 1, 1, encoded.frames), np.float32)
        bias[..., encoded.valid_frames :] = self._decoder.masked_value
        return bias

    def _suppress(self, suppress: FloatArray | None) -> FloatArray:
        if suppress is None:
            return self._decoder.no_suppression
        return suppressed_rows(suppress)

    def _attention(self, values: dict[str, Any], request: DecodeRequest) -> FloatArray:
        """[heads, rows, length, valid frames] from the graph's [1, heads, rows * length, frames] per layer."""
        rows, length = request.tokens.shape
        layers = {layer: values[f"cross_attention.{layer}"].numpy()[0] for layer, _ in self._heads}
        chosen = np.stack([layers[layer][head] for layer, head in self._heads])
        return chosen.reshape(len(self._heads), rows, length, -1)[..., : self._encoded.valid_frames]
