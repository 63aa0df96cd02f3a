"""The text decoder as one graph for every use: prefill, block verification, greedy, beams, rows of several sessions.

Rows are hypotheses; `groups` are windows of audio. Rows of one window lie side by side, the same number for each
(rows = groups * rows per group), so that its keys and values are read once for all of them.

    ids             [rows, length]                tokens to feed
    positions       [rows, length]                rows of the position table
    self_bias       [rows or 1, 1, length, past + length]   0 or a large negative number
    cross_bias      [groups or 1, 1, queries or 1, frames or 1]   likewise; queries = rows per group * length
    logits_at       [rows, wanted, 1]             positions within `length` whose distribution is wanted
    suppress        [rows or 1, 1, vocab]         added to the logits
    past_k/v.<l>    [rows, heads, past, 64]
    cross_k.<l>     [groups, heads, 64, frames]   from the encoder graph
    cross_v.<l>     [groups, heads, frames, 64]
    ->
    logits          [rows, wanted, vocab]
    top_logprobs    [rows, wanted, 10] with top_ids: the best candidates
    time_logprobs   [rows, wanted, 10] with time_ids: the best timestamps, likewise log-probabilities among all tokens
    time_mass       [rows, wanted, 1] log of the probability that the next token is any timestamp
    hidden          [rows, length, width]         after the final norm
    present_k/v.<l> [rows, heads, past + length, 64]
    cross_attention.<l>  [groups, heads, queries, frames]   softmaxed

Outputs that a run does not ask for are not copied out, so a caller chooses layers of attention by name.
"""

from pathlib import Path

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.graphs.arithmetic import linear_kind
from whispertide.graphs.builder import CONTRIB, UNSIGNED_ZERO, GraphBuilder, LinearKind, WeightFile
from whispertide.graphs.contract import MASKED, TOP
from whispertide.graphs.layers import Layers
from whispertide.graphs.onnx_file import ElementType
from whispertide.options import Precision

BLOCK = 128


def build(checkpoint: Checkpoint, precision: Precision, folder: Path) -> None:
    """Write the graph and its weights into `folder` (`store`)."""
    with (folder / "decoder.bin").open("wb") as file:
        builder = GraphBuilder("decoder", WeightFile("decoder.bin", file), half=precision == "fp16")
        DecoderGraph(checkpoint, builder, linear_kind(precision)).build().save(folder)


class DecoderGraph:
    """Builds the decoder of one checkpoint with a given arithmetic of its linear layers."""

    def __init__(self, checkpoint: Checkpoint, builder: GraphBuilder, kind: LinearKind) -> None:
        self.dims = checkpoint.dims
        self.tensors = checkpoint.tensors
        self.graph = builder
        self.kind: LinearKind = kind
        self.layers = Layers(checkpoint, builder, kind, block=BLOCK)
        self.heads = self.dims.n_text_head
        self.size = self.dims.n_text_state // self.heads
        self.timestamp_begin = checkpoint.tokenizer.timestamp_begin

    def build(self) -> GraphBuilder:
        """Add the whole decoder to the builder."""
        graph = self.graph
        ids = graph.input("ids", ElementType.INT64, ["rows", "length"])
        positions = graph.input("positions", ElementType.INT64, ["rows", "length"])
        self.self_bias = graph.float_input("self_bias", ["bias_rows", 1, "length", "total"])
        self.cross_bias = graph.float_input("cross_bias", ["bias_groups", 1, "bias_queries", "bias_frames"])
        logits_at = graph.input("logits_at", ElementType.INT64, ["rows", "wanted", 1])
        suppress = graph.float_input("suppress", ["suppress_rows", 1, self.dims.n_vocab])

        hidden = self._embed(ids, positions)
        for layer in range(self.dims.n_text_layer):
            hidden = self._block(hidden, layer)
        hidden = self.layers.norm(hidden, "decoder.layer_norm")
        graph.float_output(hidden, "hidden", ["rows", "length", self.dims.n_text_state])
        # The wanted places are picked before the product with the vocabulary, which is the dearest of all.
        self._distribution(graph.node("GatherND", hidden, logits_at, batch_dims=1), suppress)
        return graph

    # -- ends ------------------------------------------------------------------------------------------------------

    def _embed(self, ids: str, positions: str) -> str:
        graph, name = self.graph, "decoder.embed_tokens"
        table = graph.weight("decoder.embed_positions", self.tensors.get("decoder.embed_positions.weight"))
        where = graph.node("Gather", table, positions, axis=0)
        weight = self.tensors.get(f"{name}.weight")
        if self.kind == "float":
            # stored [width, vocab] for the logits; a gathered column is a token's embedding
            self.vocabulary = graph.weight(f"{name}.t", np.ascontiguousarray(weight.T))
            flat = graph.node("Gather", self.vocabulary, ids, axis=1)
            return graph.node("Add", graph.transpose(flat, 1, 2, 0), where)
        width = self.dims.n_text_state
        if self.kind in ("dynamic-int8", "dynamic-uint8"):
            signed = self.kind == "dynamic-int8"
            data, scales = graph.column_int8(name, weight, signed=signed)
            values = graph.transpose(graph.node("Gather", data, ids, axis=1), 1, 2, 0)
            values = graph.cast(values, ElementType.FLOAT)
            if not signed:
                values = graph.node("Sub", values, graph.scalar(float(UNSIGNED_ZERO)))
            scale = graph.node("Unsqueeze", graph.node("Gather", scales, ids, axis=0), graph.ints([-1]))
            return graph.node("Add", graph.node("Mul", values, scale), where)
        data, scales = graph.block_int8(name, weight, BLOCK)
        rows = graph.cast(graph.node("Gather", data, ids, axis=0), ElementType.FLOAT)
        scale = graph.node("Unsqueeze", graph.node("Gather", scales, ids, axis=0), graph.ints([-1]))
        values = graph.reshape(
            graph.node("Mul", graph.node("Sub", rows, graph.scalar(float(UNSIGNED_ZERO))), scale), 0, 0, -1
        )
        if width % BLOCK:  # the last block is padded
            values = graph.node("Slice", values, graph.ints([0]), graph.ints([width]), graph.ints([-1]))
        return graph.node("Add", values, where)

    def _distribution(self, hidden: str, suppress: str) -> None:
        graph, vocab = self.graph, self.dims.n_vocab
        if self.kind == "float":
            raw = graph.node("MatMul", hidden, self.vocabulary)
        else:
            name = "decoder.embed_tokens"
            raw = graph.linear(hidden, name, self.tensors.get(f"{name}.weight"), None, self.kind, block=BLOCK)
        if graph.float_type != ElementType.FLOAT:
            # Probabilities are float32 in any case, so the input itself is added, not its cast to half precision.
            raw, suppress = graph.cast(raw, ElementType.FLOAT), "suppress"
        logits = graph.node("Add", raw, suppress)
        graph.output(logits, "logits", ElementType.FLOAT, ["rows", "wanted", vocab])
        best, ids, normaliser = self._top(logits)
        graph.output(graph.node("Sub", best, normaliser), "top_logprobs", ElementType.FLOAT, ["rows", "wanted", TOP])
        graph.output(ids, "top_ids", ElementType.INT64, ["rows", "wanted", TOP])

        begin = self.timestamp_begin
        times = graph.node("Slice", logits, graph.ints([begin]), graph.ints([vocab]), graph.ints([-1]))
        best, ids, mass = self._top(times)
        graph.output(graph.node("Sub", best, normaliser), "time_logprobs", ElementType.FLOAT, ["rows", "wanted", TOP])
        ids = graph.node("Add", ids, graph.ints([begin]))
        graph.output(ids, "time_ids", ElementType.INT64, ["rows", "wanted", TOP])
        # Their own sum less that of all tokens: the share of the timestamps, as a logarithm.
        graph.output(graph.node("Sub", mass, normaliser), "time_mass", ElementType.FLOAT, ["rows", "wanted", 1])

    def _top(self, logits: str) -> tuple[str, str, str]:
        """The best values and their indices along the last axis, and its log-sum-exp [.., 1]."""
        graph = self.graph
        best, ids = graph.nodes("TopK", logits, graph.ints([TOP]), outputs=2, axis=-1)
        # written out: ONNX Runtime's own ReduceLogSumExp is six times slower
        peak = graph.node("Slice", best, graph.ints([0]), graph.ints([1]), graph.ints([-1]))
        # where all are suppressed the peak is -inf, and -inf - -inf is nan
        peak = graph.node("Max", peak, graph.scalar(MASKED, ElementType.FLOAT))
        total = graph.node("ReduceSum", graph.node("Exp", graph.node("Sub", logits, peak)), graph.ints([-1]))
        return best, ids, graph.node("Add", graph.node("Log", total), peak)

    # -- layers ------------------------------------------------------------------------------------------------------

    def _block(self, hidden: str, layer: int) -> str:
        layers, name = self.layers, f"decoder.layers.{layer}"
        attended = self._self_attention(layers.norm(hidden, f"{name}.self_attn_layer_norm"), layer)
        hidden = layers.residual(hidden, attended)
        attended = self._cross_attention(layers.norm(hidden, f"{name}.encoder_attn_layer_norm"), layer)
        return layers.mlp(layers.residual(hidden, attended), name)

    def _self_attention(self, value: str, layer: int) -> str:
        graph, name = self.graph, f"decoder.layers.{layer}.self_attn"
        query, key, content = self.layers.queries_keys_values(value, name)
        past = [self._past(f"past_{which}.{layer}") for which in "kv"]
        mixed, *present = graph.nodes(
            "MultiHeadAttention",
            # Empty names leave out optional inputs: here the bias, and the mask of padded keys.
            *(query, key, content, "", "", self.self_bias, *past),
            outputs=3,
            domain=CONTRIB,
            num_heads=self.heads,
        )
        for which, tensor in zip("kv", present, strict=True):
            graph.float_output(tensor, f"present_{which}.{layer}", ["rows", self.heads, "total", self.size])
        return self.layers.linear(mixed, f"{name}.out_proj")

    def _past(self, name: str) -> str:
        return self.graph.float_input(name, ["rows", self.heads, "past", self.size])

    def _cross_attention(self, value: str, layer: int) -> str:
        """Written out, because the softmaxed weights are an output."""
        graph, name = self.graph, f"decoder.layers.{layer}.encoder_attn"
        keys = graph.float_input(f"cross_k.{layer}", ["groups", self.heads, self.size, "frames"])
        values = graph.float_input(f"cross_v.{layer}", ["groups", self.heads, "frames", self.size])
        groups = graph.node("Shape", f"cross_k.{layer}", start=0, end=1)
        folded = graph.node("Concat", groups, graph.ints([-1, self.heads, self.size]), axis=0)
        # The rows of one window become queries of one attention: its keys and values are read once for all.
        query = graph.node("Reshape", self.layers.linear(value, f"{name}.q_proj"), folded)
        # The keys are scaled already (`Layers.cross_keys_values`).
        scores = graph.node("MatMul", graph.transpose(query, 0, 2, 1, 3), keys)
        weights = graph.node("Softmax", graph.node("Add", scores, self.cross_bias), axis=-1)
        graph.float_output(weights, f"cross_attention.{layer}", ["groups", self.heads, "queries", "frames"])
        mixed = graph.transpose(graph.node("MatMul", weights, values), 0, 2, 1, 3)
        shape = graph.node("Shape", value)
        return self.layers.linear(graph.node("Reshape", mixed, shape), f"{name}.out_proj")
