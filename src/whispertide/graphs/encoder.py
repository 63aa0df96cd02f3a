"""The audio encoder as a graph: log-mel frames -> hidden states and every decoder layer's cross-attention keys and
values.

Two graphs share one weight file. `encoder` attends everywhere, which lets ONNX Runtime use its flash attention.
`encoder-masked` adds `attention_bias` to the self-attention scores: padded buckets, batches of unequal length,
block-diagonal and block-causal encoders are all a matter of that input.

    mel             [batch, n_mels, 2 * frames]
    positions       [frames]                 rows of the position table, 0..frames-1 unless encoding is incremental
    attention_bias  [batch or 1, 1 or heads, frames, frames]   0 or a large negative number (masked graph only)
    ->
    hidden          [batch, frames, width]
    cross_k.<l>     [batch, heads, 64, frames]   scaled and transposed, ready to be multiplied by queries
    cross_v.<l>     [batch, heads, frames, 64]
"""

from pathlib import Path

from onnx import TensorProto

from whispertide.checkpoint import Checkpoint
from whispertide.graphs.arithmetic import linear_kind
from whispertide.graphs.builder import CONTRIB, GraphBuilder, LinearKind, WeightFile
from whispertide.graphs.layers import Layers
from whispertide.options import Precision

WIDE_BLOCK = 32  # block of weight-only int8 where the activations are many rows: accuracy matters more than bandwidth


def build(checkpoint: Checkpoint, precision: Precision, folder: Path) -> None:
    """Write both graphs and their weights into `folder` (`store`)."""
    with (folder / "encoder.bin").open("wb") as file:
        weights = WeightFile("encoder.bin", file)
        for name, masked in (("encoder", False), ("encoder-masked", True)):
            builder = GraphBuilder(name, weights, half=precision == "fp16")
            EncoderGraph(checkpoint, builder, linear_kind(precision), masked=masked).build().save(folder)


class EncoderGraph:
    """Builds the encoder of one checkpoint with a given arithmetic of its linear layers."""

    def __init__(self, checkpoint: Checkpoint, builder: GraphBuilder, kind: LinearKind, *, masked: bool) -> None:
        self.dims = checkpoint.dims
        self.tensors = checkpoint.tensors
        self.graph = builder
        self.layers = Layers(checkpoint, builder, kind, block=WIDE_BLOCK)
        self.masked = masked

    def build(self) -> GraphBuilder:
        """Add the whole encoder to the builder."""
        graph, dims = self.graph, self.dims
        mel = graph.float_input("mel", ["batch", dims.n_mels, "mel_frames"])
        positions = graph.input("positions", TensorProto.INT64, ["frames"])
        shape = ["bias_batch", "bias_heads", "frames", "frames"]
        bias = graph.float_input("attention_bias", shape) if self.masked else ""

        hidden = self._stem(mel, positions)
        for layer in range(dims.n_audio_layer):
            hidden = self._block(hidden, f"encoder.layers.{layer}", bias)
        self._outputs(self.layers.norm(hidden, "encoder.layer_norm"))
        return graph

    def _outputs(self, hidden: str) -> None:
        self.graph.float_output(hidden, "hidden", ["batch", "frames", self.dims.n_audio_state])
        self._cross_attention(hidden)

    def _stem(self, mel: str, positions: str) -> str:
        graph = self.graph
        value = graph.gelu(self.layers.conv(mel, "encoder.conv1", stride=1))
        return self._placed(graph.gelu(self.layers.conv(value, "encoder.conv2", stride=2)), positions)

    def _placed(self, value: str, positions: str) -> str:
        """Columns as rows, with the positions of these frames."""
        graph = self.graph
        value = graph.transpose(value, 0, 2, 1)
        table = graph.weight("encoder.embed_positions", self.tensors.get("encoder.embed_positions.weight"))
        return graph.node("Add", value, graph.node("Gather", table, positions, axis=0))

    def _block(self, hidden: str, name: str, bias: str) -> str:
        layers = self.layers
        attended = self._self_attention(layers.norm(hidden, f"{name}.self_attn_layer_norm"), f"{name}.self_attn", bias)
        return layers.mlp(layers.residual(hidden, attended), name)

    def _self_attention(self, value: str, name: str, bias: str) -> str:
        query, key, content = self.layers.queries_keys_values(value, name)
        optional = ["", "", bias] if bias else []
        mixed = self.graph.node(
            "MultiHeadAttention", query, key, content, *optional, domain=CONTRIB, num_heads=self.dims.n_audio_head
        )
        return self.layers.linear(mixed, f"{name}.out_proj")

    def _cross_attention(self, hidden: str) -> None:
        graph, heads = self.graph, self.dims.n_text_head
        size = self.dims.n_text_state // heads
        for layer in range(self.dims.n_text_layer):
            keys, values = self.layers.cross_keys_values(hidden, layer)
            graph.float_output(keys, f"cross_k.{layer}", ["batch", heads, size, "frames"])
            graph.float_output(values, f"cross_v.{layer}", ["batch", heads, "frames", size])
