"""K steps of greedy decoding as one graph in which every shape is fixed: for accelerators that compile their graphs.

Each step feeds the token that the step before found likeliest, so nothing leaves the graph in between. The cache grows
with the steps instead of being kept at its full length: of 2M/(T+1) times the work of T steps over a cache of length M
nothing remains. One cache position in front is a dummy that is masked away, so that the first graph's cache is not
empty (NPUsper, arXiv 2607.01108, "controlled unrolling"; the masks and the forced tokens are our own form).

With S steps, L tokens fed, P fed before, F encoder frames:

    forced          [1, L] int32             tokens that are known; -1 feeds what the step before found
    rule            [S] int32                which row of `suppress` each step's prediction is made with
    suppress        [2, vocab]               added to the logits
    cross_bias      [1, 1, 1, F]             0, or a large negative number after the audio
    past_k/v.<l>    [1, heads, 1 + P, 64]    position 0 is the dummy: any finite number
    cross_k.<l>     [1, heads, 64, F]        from the encoder, scaled
    cross_v.<l>     [1, heads, F, 64]
    ->
    tokens          [1, S] int32             the likeliest token after the block, and after each token after it
    logprobs        [1, S]                   their log-probabilities
    end_margin      [1, S]                   logit of "end of text" before suppression, less that of the likeliest token
    no_speech       [1, 1]                   log-probability of "no speech" after the first token (first chunk only)
    present_k/v.<l> [1, heads, 1 + P + L, 64]
    cross_attention.<l>  [1, heads, L, F]    softmaxed; row k belongs to the query that predicts after fed token k
"""

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.graphs.layers import Layers
from whispertide.graphs.onnx_file import ElementType
from whispertide_lab.npu.chunks import DUMMY, MASKED, Chunk
from whispertide_lab.npu.portable import PortableBuilder


class UnrolledGraph:
    """Builds one chunk of one checkpoint over a fixed number of encoder frames."""

    def __init__(self, checkpoint: Checkpoint, builder: PortableBuilder, chunk: Chunk, frames: int) -> None:
        self.dims = checkpoint.dims
        self.tensors = checkpoint.tensors
        self.graph = builder
        self.chunk = chunk
        self.frames = frames
        # Always floats: 8 bits need calibration, which is the compiler's business.
        self.layers = Layers(checkpoint, builder, "float", block=0)
        self.heads = self.dims.n_text_head
        self.size = self.dims.n_text_state // self.heads
        self.end, self.no_speech = checkpoint.tokenizer.eot, checkpoint.tokenizer.no_speech
        self.masked = MASKED
        self.positions = np.asarray(self.tensors.get("decoder.embed_positions.weight"), np.float32)
        self.cache: dict[str, str] = {}
        self.attention: dict[int, list[str]] = {layer: [] for layer in range(self.dims.n_text_layer)}

    def build(self) -> PortableBuilder:
        """Add the whole chunk to the builder."""
        graph, chunk, dims = self.graph, self.chunk, self.dims
        self.forced = graph.input("forced", ElementType.INT32, [1, chunk.length])
        self.rule = graph.input("rule", ElementType.INT32, [chunk.steps])
        self.suppress = graph.float_input("suppress", [2, dims.n_vocab])
        self.cross_bias = graph.float_input("cross_bias", [1, 1, 1, self.frames])
        embedding = self.tensors.get("decoder.embed_tokens.weight")
        # Transposed for the logits; `_run` gathers the columns, so that the table is stored once.
        self.vocabulary = graph.weight("decoder.embed_tokens.t", embedding.T)
        self._caches()

        found: dict[str, list[str]] = {"tokens": [], "logprobs": [], "end_margin": []}
        fed = graph.part(self.forced, 0, chunk.block, 1)
        for step in range(chunk.steps):
            hidden = self._run(fed, first=chunk.block - 1 + step if step else 0)
            logits = self._logits(hidden, opening=step == 0 and chunk.start == 0)
            for values, value in zip(found.values(), self._choose(logits, step), strict=True):
                values.append(value)
            if step + 1 < chunk.steps:
                fed = self._next(found["tokens"][-1], at=chunk.block + step)
        for name, values in found.items():
            kind = ElementType.INT32 if name == "tokens" else graph.float_type
            graph.output(graph.joined(values, 1), name, kind, [1, chunk.steps])
        self._declare_cache()
        for layer, weights in self.attention.items():
            shape = [1, self.heads, chunk.length, self.frames]
            graph.output(graph.joined(weights, 2), f"cross_attention.{layer}", graph.float_type, shape)
        return graph

    # -- the cache and the places: what benchmarks do otherwise -------------------------------------------------------

    def _caches(self) -> None:
        """Declare the inputs that the steps attend to."""
        graph, past = self.graph, DUMMY + self.chunk.start
        for layer in range(self.dims.n_text_layer):
            for which in "kv":
                name = f"past_{which}.{layer}"
                graph.float_input(name, [1, self.heads, past, self.size])
                self.cache[f"{which}.{layer}"] = name
            graph.float_input(f"cross_k.{layer}", [1, self.heads, self.size, self.frames])
            graph.float_input(f"cross_v.{layer}", [1, self.heads, self.frames, self.size])

    def _grow(self, name: str, new: str) -> str:
        """The keys or values `name` with those of new tokens."""
        self.cache[name] = self.graph.node("Concat", self.cache[name], new, axis=2)
        return self.cache[name]

    def _places(self, first: int, length: int) -> str:
        """What is added for the places of tokens that follow `first` others of the chunk: [1, length, width]."""
        at = self.chunk.start + first
        return self.graph.weight(f"positions.{at}.{length}", self.positions[at : at + length][None])

    def _bias(self, first: int, length: int) -> str:
        """The mask of tokens that follow `first` others of the chunk: the dummy, and what comes later in a block."""
        past = self.chunk.start + first
        mask = np.zeros((1, 1, length, DUMMY + past + length), np.float32)
        mask[..., :DUMMY] = self.masked
        # A block of known tokens is fed at once: each may see itself and those before it.
        mask[..., DUMMY + past :] += np.triu(np.full((length, length), self.masked, np.float32), 1)
        return self.graph.weight(f"mask.{past}.{length}", mask)

    def _declare_cache(self) -> None:
        graph, total = self.graph, DUMMY + self.chunk.end
        for name, value in self.cache.items():
            graph.output(value, f"present_{name}", graph.float_type, [1, self.heads, total, self.size])

    # -- one step ----------------------------------------------------------------------------------------------------

    def _next(self, token: str, at: int) -> str:
        """What is fed at place `at`: the forced token, or the one just found. [1, 1]"""
        graph = self.graph
        forced = graph.part(self.forced, at, at + 1, 1)
        known = graph.node("GreaterOrEqual", forced, graph.weight("int32.0", np.zeros(1, np.int32)))
        return graph.node("Where", known, forced, token)

    def _run(self, ids: str, first: int) -> str:
        """Tokens [1, length] that follow `first` others of the chunk -> hidden states [1, length, width]."""
        graph = self.graph
        length = 1 if first else self.chunk.block
        embedded = graph.transpose(graph.node("Gather", self.vocabulary, ids, axis=1), 1, 2, 0)
        hidden = graph.node("Add", embedded, self._places(first, length))
        for layer in range(self.dims.n_text_layer):
            hidden = self._block(hidden, layer, first, length)
        return self.layers.norm(hidden, "decoder.layer_norm")

    def _block(self, hidden: str, layer: int, first: int, length: int) -> str:
        layers, name = self.layers, f"decoder.layers.{layer}"
        value = layers.norm(hidden, f"{name}.self_attn_layer_norm")
        hidden = layers.residual(hidden, self._self_attention(value, layer, first, length))
        value = layers.norm(hidden, f"{name}.encoder_attn_layer_norm")
        hidden = layers.residual(hidden, self._cross_attention(value, layer))
        return layers.mlp(hidden, name)

    def _self_attention(self, value: str, layer: int, first: int, length: int) -> str:
        graph, name = self.graph, f"decoder.layers.{layer}.self_attn"
        parts = self.layers.queries_keys_values(value, name)
        query, key, content = (graph.split_heads(part, self.heads, self.size, 0, 2, 1, 3) for part in parts)
        query = graph.node("Mul", query, graph.scalar(self.size**-0.5))
        keys, values = self._grow(f"k.{layer}", key), self._grow(f"v.{layer}", content)
        mixed, _ = graph.attend(query, graph.transpose(keys, 0, 1, 3, 2), values, self._bias(first, length))
        return self.layers.linear(mixed, f"{name}.out_proj")

    def _cross_attention(self, value: str, layer: int) -> str:
        graph, name = self.graph, f"decoder.layers.{layer}.encoder_attn"
        query = graph.split_heads(self.layers.linear(value, f"{name}.q_proj"), self.heads, self.size, 0, 2, 1, 3)
        # The keys come from the encoder scaled, so the queries are not.
        mixed, weights = graph.attend(query, f"cross_k.{layer}", f"cross_v.{layer}", self.cross_bias)
        self.attention[layer].append(weights)
        return self.layers.linear(mixed, f"{name}.out_proj")

    # -- the choice --------------------------------------------------------------------------------------------------

    def _logits(self, hidden: str, *, opening: bool) -> str:
        """Raw logits [1, 1, vocab] after the newest token; the opening also says how likely there is no speech."""
        graph, length = self.graph, self.chunk.block
        if not opening:
            return graph.node("MatMul", hidden, self.vocabulary)
        # one product for both rows, so that the vocabulary is read once
        rows = [graph.part(hidden, 0, 1, 1), graph.part(hidden, length - 1, length, 1)]
        both = graph.node("MatMul", graph.joined(rows, 1), self.vocabulary)
        all_tokens = graph.node("LogSoftmax", graph.part(both, 0, 1, 1), axis=-1)
        no_speech = graph.reshape(graph.part(all_tokens, self.no_speech, self.no_speech + 1, 2), 1, 1)
        graph.output(no_speech, "no_speech", graph.float_type, [1, 1])
        return graph.part(both, 1, 2, 1)

    def _choose(self, raw: str, step: int) -> tuple[str, str, str]:
        """The likeliest token after suppression, its log-probability, and how far "end of text" is ahead; [1, 1] each.

        The last needs no second product, and lets a search that suppresses "end of text" know where it was due.
        """
        graph = self.graph
        row = graph.node("Gather", self.suppress, graph.part(self.rule, step, step + 1, 0), axis=0)
        logits = graph.node("Add", raw, row)
        token = graph.cast(graph.node("ArgMax", logits, axis=-1, keepdims=0), ElementType.INT32)
        # The largest log-probability is that of the likeliest token, so nothing has to be gathered by its id.
        likeliest = graph.node("ReduceMax", graph.node("LogSoftmax", logits, axis=-1), graph.ints([-1]), keepdims=0)
        # After suppression, while the end is read before it: the margin says where end of text was due though it was
        # forbidden.
        peak = graph.node("ReduceMax", logits, graph.ints([-1]), keepdims=0)
        end = graph.reshape(graph.part(raw, self.end, self.end + 1, 2), 1, 1)
        return token, likeliest, graph.node("Sub", end, peak)
