"""The unrolled decoder's session: known tokens in, K greedily found ones with their attention out, chunk by chunk.

The graphs are opened when a search first reaches them. What a chunk computes is in `decoder`; this module knows
no rules of decoding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from whispertide.checkpoint.generation import Head
from whispertide.errors import GraphError
from whispertide.model.engine import Encoded, check_heads
from whispertide.types import FloatArray
from whispertide_lab.npu.chunks import DUMMY, MASKED, Chunk, decoder_name
from whispertide_lab.npu.engine import StaticEngine


@dataclass(frozen=True, slots=True)
class ChunkRequest:
    """One run of one chunk.

    forced    the tokens that are known, at most `chunk.length`, at least `chunk.block`; after them the graph feeds
              what it finds
    suppress  [2, vocab] added to the logits (0 or -inf): row 0 for the first token that is sampled, row 1 for others
    first     which step samples the first token (None = none in this chunk)
    """

    chunk: Chunk
    forced: tuple[int, ...]
    suppress: FloatArray
    first: int | None


@dataclass(frozen=True, slots=True)
class ChunkOutput:
    """What a chunk found. With S = chunk.steps and L = chunk.length:

    tokens     the likeliest token after the block and after each token after it, [S]
    logprobs   their log-probabilities after suppression, [S]
    end_margins  by how much the logit of end of text, before suppression, exceeds that of the token, [S]
    attention  [heads, L, frames] softmaxed cross-attention of the chosen heads, None if none were chosen. Row k belongs
               to the query that predicts after fed token k, so that of `tokens[s]` is row `block - 1 + s`.
    no_speech_prob   at the start of the transcript, before suppression; nan but for the first chunk
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    end_margins: tuple[float, ...]
    attention: FloatArray | None = None
    no_speech_prob: float = float("nan")


class ChunkRun(Protocol):
    """Whatever runs the chunks of one search in turn: `UnrolledState`, or an ordinary decoder step by step."""

    def run(self, request: ChunkRequest) -> ChunkOutput:
        """Run the chunk that follows those run so far."""


def start_chunks(engine: StaticEngine, encoded: Encoded, heads: Sequence[Head] = ()) -> "UnrolledState":
    """A fresh decoder over `encoded`, whose frames (padding included) must be one of the buckets.

    Returns the cross-attention of `heads` with every chunk. Raises `GraphError` for other lengths or heads.
    """
    engine.check_bucket(encoded.frames)
    check_heads(heads, engine.dims)
    return UnrolledState(engine, encoded, tuple(heads))


class UnrolledState:
    """Unrolled decoding of one window, with its cache. Implements `ChunkRun`."""

    def __init__(self, engine: StaticEngine, encoded: Encoded, heads: tuple[Head, ...]) -> None:
        self._engine = engine
        self._encoded = encoded
        self._heads = heads
        self._fed = 0
        dims = engine.dims
        # The first chunk has no cache, but a static graph cannot have an empty tensor: a masked place stands for it.
        dummy = np.zeros((1, dims.n_text_head, DUMMY, dims.n_text_state // dims.n_text_head), engine.dtype)
        self._cache: dict[str, Any] = {
            f"past_{which}.{layer}": dummy for layer in range(dims.n_text_layer) for which in "kv"
        }
        self._audio = self._audio_inputs()

    def run(self, request: ChunkRequest) -> ChunkOutput:
        """Run a chunk. Raises `GraphError` for one that does not follow those run so far, or has too few known tokens.

        A chunk cannot be undone: start again to go back.
        """
        chunk = request.chunk
        if chunk.start != self._fed or not chunk.block <= len(request.forced) <= chunk.length:
            raise GraphError(
                f"expected a chunk after {self._fed} tokens with {chunk.block} to {chunk.length} known ones; got one "
                f"after {chunk.start} with {len(request.forced)}"
            )
        graph = self._engine.session(decoder_name(self._encoded.frames, chunk))
        names = self._output_names(chunk)
        inputs = {**self._chunk_inputs(request), **self._cache, **self._audio}
        values = dict(zip(names, graph.run(names, inputs), strict=True))
        self._fed = chunk.end
        self._cache = {name: values[name.replace("past", "present", 1)] for name in self._cache}
        no_speech = float(np.exp(values["no_speech"].numpy()[0, 0])) if "no_speech" in values else float("nan")
        return ChunkOutput(
            tokens=tuple(int(token) for token in values["tokens"].numpy()[0]),
            logprobs=tuple(float(value) for value in values["logprobs"].numpy()[0]),
            end_margins=tuple(float(value) for value in values["end_margin"].numpy()[0]),
            attention=self._attention(values) if self._heads else None,
            no_speech_prob=no_speech,
        )

    def _output_names(self, chunk: Chunk) -> list[str]:
        return [
            *("tokens", "logprobs", "end_margin"),
            *(["no_speech"] if chunk.start == 0 else []),
            *(name.replace("past", "present", 1) for name in self._cache),
            *(f"cross_attention.{layer}" for layer in sorted({layer for layer, _ in self._heads})),
        ]

    def _chunk_inputs(self, request: ChunkRequest) -> dict[str, Any]:
        chunk = request.chunk
        # -1: the graph feeds what it has just found.
        forced = np.full((1, chunk.length), -1, np.int32)
        forced[0, : len(request.forced)] = request.forced
        rule = np.ones(chunk.steps, np.int32)
        if request.first is not None:
            rule[request.first] = 0
        # Not minus infinity, next to which 16-bit activations resolve no score (lab/docs/npu.md).
        suppress = np.maximum(request.suppress, MASKED).astype(self._engine.dtype)
        return {"forced": forced, "rule": rule, "suppress": np.ascontiguousarray(suppress)}

    def _audio_inputs(self) -> dict[str, Any]:
        """Cross-attention keys and values, and the mask after the audio; the same for every chunk."""
        encoded, dtype = self._encoded, self._engine.dtype
        bias = np.zeros((1, 1, 1, encoded.frames), dtype)
        bias[..., encoded.valid_frames :] = MASKED
        inputs: dict[str, Any] = {"cross_bias": bias}
        for layer in range(self._engine.dims.n_text_layer):
            for name, value in (("cross_k", encoded.cross_k[layer]), ("cross_v", encoded.cross_v[layer])):
                inputs[f"{name}.{layer}"] = value if dtype is np.float32 else value.numpy().astype(dtype)
        return inputs

    def _attention(self, values: dict[str, Any]) -> FloatArray:
        layers = {layer: values[f"cross_attention.{layer}"].numpy()[0] for layer, _ in self._heads}
        chosen = np.stack([layers[layer][head] for layer, head in self._heads])
        return chosen[..., : self._encoded.valid_frames].astype(np.float32, copy=False)
