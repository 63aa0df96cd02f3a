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

from collections.abc import Sequence
from pathlib import Path

from whispertide.checkpoint import Checkpoint
from whispertide.graphs.arithmetic import linear_kind
from whispertide.graphs.builder import CONTRIB, GraphBuilder, LinearKind, WeightFile
from whispertide.graphs.layers import Layers
from whispertide.graphs.onnx_file import ElementType
from whispertide.options import Precision

_WIDE_BLOCK = 32  # block of weight-only int8 where the activations are many rows: accuracy matters more than bandwidth


def build(checkpoint: Checkpoint, precision: Precision, folder: Path) -> None:
    """Write both graphs and their weights into `folder` (`store`)."""
    with (folder / "encoder.bin").open("wb") as file:
        weights = WeightFile("encoder.bin", file)
        for name, masked in (("encoder", False), ("encoder-masked", True)):
            builder = GraphBuilder(name, weights, half=precision == "fp16")
            EncoderGraph(checkpoint, builder, linear_kind(precision), masked=masked).build().save(folder)


class EncoderGraph:
    """Builds the encoder of one checkpoint with a given arithmetic of its linear layers.

    `frames` are those of a window in encoder frames, a number or the name of a dynamic dimension, as is `batch`.
    """

    batch: int | str = "batch"
    frames: int | str = "frames"
    mel_frames: int | str = "mel_frames"
    bias_shape: Sequence[int | str] = ("bias_batch", "bias_heads", "frames", "frames")

    def __init__(self, checkpoint: Checkpoint, builder: GraphBuilder, kind: LinearKind, *, masked: bool) -> None:
        self.dims = checkpoint.dims
        self.tensors = checkpoint.tensors
        self.graph = builder
        self.layers = Layers(checkpoint, builder, kind, block=_WIDE_BLOCK)
        self.masked = masked

    def build(self) -> GraphBuilder:
        """Add the whole encoder to the builder."""
        graph, dims = self.graph, self.dims
        mel = graph.float_input("mel", [self.batch, dims.n_mels, self.mel_frames])
        positions = self._positions()
        bias = graph.float_input("attention_bias", self.bias_shape) if self.masked else ""
        hidden = graph.node("Add", graph.transpose(self._stem(mel), 0, 2, 1), positions)
        for layer in range(dims.n_audio_layer):
            name = f"encoder.layers.{layer}"
            normed = self.layers.norm(hidden, f"{name}.self_attn_layer_norm")
            mixed = self._attention(layer, *self.layers.queries_keys_values(normed, f"{name}.self_attn"), bias)
            attended = self.layers.linear(mixed, f"{name}.self_attn.out_proj")
            hidden = self.layers.mlp(self.layers.residual(hidden, attended), name)
        hidden = self.layers.norm(hidden, "encoder.layer_norm")
        graph.float_output(hidden, "hidden", [self.batch, self.frames, dims.n_audio_state])
        heads, size = dims.n_text_head, dims.n_text_state // dims.n_text_head
        for layer in range(dims.n_text_layer):
            keys, values = self.layers.cross_keys_values(hidden, layer)
            graph.float_output(keys, f"cross_k.{layer}", [self.batch, heads, size, self.frames])
            graph.float_output(values, f"cross_v.{layer}", [self.batch, heads, self.frames, size])
        return graph

    def _stem(self, mel: str) -> str:
        """The two convolutions."""
        value = self.graph.gelu(self.layers.conv(mel, "encoder.conv1", stride=1))
        return self.graph.gelu(self.layers.conv(value, "encoder.conv2", stride=2))

    def _positions(self) -> str:
        """The rows of the position table that are added to the frames."""
        positions = self.graph.input("positions", ElementType.INT64, [self.frames])
        table = self.graph.weight("encoder.embed_positions", self.tensors.get("encoder.embed_positions.weight"))
        return self.graph.node("Gather", table, positions, axis=0)

    def _attention(self, layer: int, query: str, key: str, content: str, bias: str) -> str:
        # `layer` is for the incremental encoder, each of whose layers has keys and values of its own to go on from.
        # Empty names leave out optional inputs: here the bias of the projections, and the mask of padded keys.
        optional = ["", "", bias] if bias else []
        heads = self.dims.n_audio_head
        return self.graph.node("MultiHeadAttention", query, key, content, *optional, domain=CONTRIB, num_heads=heads)
