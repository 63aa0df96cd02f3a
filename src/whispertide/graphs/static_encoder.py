"""The audio encoder with every shape fixed, of standard operators only: for accelerators that compile their graphs.

    mel             [1, n_mels, 2 * frames]
    attention_bias  [1, 1, 1, frames]        0, or a large negative number after the audio
    ->
    hidden          [1, frames, width]
    cross_k.<l>     [1, heads, 64, frames]   scaled and transposed, for the decoder
    cross_v.<l>     [1, heads, frames, 64]

It computes what `encoder` computes over a padded window; only shapes and operators differ.
"""

from typing import Any

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.graphs.layers import Layers
from whispertide.graphs.portable import PortableBuilder


class StaticEncoderGraph:
    """Builds the encoder of one checkpoint for windows of so many encoder frames."""

    def __init__(self, checkpoint: Checkpoint, builder: PortableBuilder, frames: int) -> None:
        self.dims = checkpoint.dims
        self.tensors = checkpoint.tensors
        self.graph = builder
        self.frames = frames
        self.layers = Layers(checkpoint, builder, "float", block=0)

    def build(self) -> PortableBuilder:
        """Add the whole encoder to the builder."""
        graph, dims, frames = self.graph, self.dims, self.frames
        mel = graph.input("mel", graph.float_type, [1, dims.n_mels, 2 * frames])
        bias = graph.input("attention_bias", graph.float_type, [1, 1, 1, frames])
        value = graph.gelu(self.layers.conv(mel, "encoder.conv1", stride=1))
        value = graph.gelu(self.layers.conv(value, "encoder.conv2", stride=2))
        hidden = graph.node("Add", graph.transpose(value, 0, 2, 1), self._positions())
        for layer in range(dims.n_audio_layer):
            name = f"encoder.layers.{layer}"
            attended = self._attention(self.layers.norm(hidden, f"{name}.self_attn_layer_norm"), name, bias)
            hidden = self.layers.mlp(self.layers.residual(hidden, attended), name)
        hidden = self.layers.norm(hidden, "encoder.layer_norm")
        self._cross_attention(hidden)
        graph.output(hidden, "hidden", graph.float_type, [1, frames, dims.n_audio_state])
        return graph

    def _positions(self) -> str:
        rows: np.ndarray[Any, Any] = self.tensors.get("encoder.embed_positions.weight")[None, : self.frames]
        return self.graph.weight(f"encoder.positions.{self.frames}", rows)

    def _attention(self, value: str, name: str, bias: str) -> str:
        graph, heads = self.graph, self.dims.n_audio_head
        size = self.dims.n_audio_state // heads
        query, key, content = self.layers.queries_keys_values(value, f"{name}.self_attn")
        query = graph.node("Mul", graph.split_heads(query, heads, size, 0, 2, 1, 3), graph.scalar(size**-0.5))
        keys = graph.split_heads(key, heads, size, 0, 2, 3, 1)
        mixed, _ = graph.attend(query, keys, graph.split_heads(content, heads, size, 0, 2, 1, 3), bias)
        return self.layers.linear(mixed, f"{name}.self_attn.out_proj")

    def _cross_attention(self, hidden: str) -> None:
        graph, heads = self.graph, self.dims.n_text_head
        size = self.dims.n_text_state // heads
        for layer in range(self.dims.n_text_layer):
            keys, values = self.layers.cross_keys_values(hidden, layer)
            graph.output(keys, f"cross_k.{layer}", graph.float_type, [1, heads, size, self.frames])
            graph.output(values, f"cross_v.{layer}", graph.float_type, [1, heads, self.frames, size])
