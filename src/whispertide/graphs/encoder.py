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

import numpy as np
from onnx import TensorProto

from whispertide.checkpoint import Checkpoint, TensorStore
from whispertide.graphs.builder import CONTRIB, GraphBuilder, LinearKind
from whispertide.types import FloatArray

WIDE_BLOCK = 32  # block of weight-only int8 where the activations are many rows: accuracy matters more than bandwidth


class EncoderGraph:
    """Builds the encoder of one checkpoint with a given arithmetic of its linear layers."""

    def __init__(self, checkpoint: Checkpoint, builder: GraphBuilder, kind: LinearKind, *, masked: bool) -> None:
        self.dims = checkpoint.dims
        self.tensors = checkpoint.tensors
        self.graph = builder
        self.kind: LinearKind = kind
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
        hidden = self._norm(hidden, "encoder.layer_norm")

        graph.float_output(hidden, "hidden", ["batch", "frames", dims.n_audio_state])
        self._cross_attention(hidden)
        return graph

    def _stem(self, mel: str, positions: str) -> str:
        graph = self.graph
        value = graph.gelu(self._conv(mel, "encoder.conv1", stride=1))
        value = graph.gelu(self._conv(value, "encoder.conv2", stride=2))
        value = graph.transpose(value, 0, 2, 1)
        table = graph.weight("encoder.embed_positions", self.tensors.get("encoder.embed_positions.weight"))
        return graph.node("Add", value, graph.node("Gather", table, positions, axis=0))

    def _conv(self, value: str, name: str, stride: int) -> str:
        weight = self.graph.weight(f"{name}.weight", self.tensors.get(f"{name}.weight"))
        bias = self.graph.weight(f"{name}.bias", self.tensors.get(f"{name}.bias"))
        return self.graph.node("Conv", value, weight, bias, kernel_shape=[3], pads=[1, 1], strides=[stride])

    def _block(self, hidden: str, name: str, bias: str) -> str:
        graph = self.graph
        attended = self._self_attention(self._norm(hidden, f"{name}.self_attn_layer_norm"), f"{name}.self_attn", bias)
        hidden = graph.node("Add", hidden, attended)
        inner = graph.gelu(self._linear(self._norm(hidden, f"{name}.final_layer_norm"), f"{name}.fc1"))
        return graph.node("Add", hidden, self._linear(inner, f"{name}.fc2"))

    def _self_attention(self, value: str, name: str, bias: str) -> str:
        graph = self.graph
        qkv = self._stacked(value, name, ("q_proj", "k_proj", "v_proj"))
        query, key, content = graph.nodes("Split", qkv, outputs=3, axis=-1, num_outputs=3)
        optional = ["", "", bias] if bias else []
        mixed = graph.node(
            "MultiHeadAttention", query, key, content, *optional, domain=CONTRIB, num_heads=self.dims.n_audio_head
        )
        return self._linear(mixed, f"{name}.out_proj")

    def _cross_attention(self, hidden: str) -> None:
        """Keys and values for the decoder, once per window; 1/sqrt(64) goes into the keys."""
        graph, heads = self.graph, self.dims.n_text_head
        size = self.dims.n_text_state // heads
        for layer in range(self.dims.n_text_layer):
            name = f"decoder.layers.{layer}.encoder_attn"
            keys = self._linear(hidden, f"{name}.k_proj", scale=size**-0.5)
            values = self._linear(hidden, f"{name}.v_proj")
            keys = graph.transpose(graph.reshape(keys, 0, 0, heads, size), 0, 2, 3, 1)
            values = graph.transpose(graph.reshape(values, 0, 0, heads, size), 0, 2, 1, 3)
            graph.float_output(keys, f"cross_k.{layer}", ["batch", heads, size, "frames"])
            graph.float_output(values, f"cross_v.{layer}", ["batch", heads, "frames", size])

    def _norm(self, value: str, name: str) -> str:
        tensors = self.tensors
        return self.graph.layer_norm(value, name, tensors.get(f"{name}.weight"), tensors.get(f"{name}.bias"))

    def _linear(self, value: str, name: str, scale: float = 1.0) -> str:
        weight = self.tensors.get(f"{name}.weight") * np.float32(scale)
        bias = self.tensors.get(f"{name}.bias") * np.float32(scale) if f"{name}.bias" in self.tensors.names() else None
        return self.graph.linear(value, name, weight, bias, self.kind, block=WIDE_BLOCK)

    def _stacked(self, value: str, name: str, parts: Sequence[str]) -> str:
        weight = np.concatenate([self.tensors.get(f"{name}.{part}.weight") for part in parts])
        bias = stacked_bias(self.tensors, name, parts, self.dims.n_audio_state)
        return self.graph.linear(value, f"{name}.{'_'.join(parts)}", weight, bias, self.kind, block=WIDE_BLOCK)


def stacked_bias(tensors: TensorStore, name: str, parts: Sequence[str], width: int) -> FloatArray:
    """The biases of several projections in a row; Whisper's key projections have none, which is zero."""
    names = tensors.names()
    zero = np.zeros(width, np.float32)
    return np.concatenate(
        [tensors.get(f"{name}.{part}.bias") if f"{name}.{part}.bias" in names else zero for part in parts]
    )
