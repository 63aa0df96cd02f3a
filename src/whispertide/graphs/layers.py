"""The layers that Whisper's encoder and decoder have in common, over a checkpoint's tensors."""

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.graphs.builder import GraphBuilder, LinearKind


class Layers:
    """Adds named layers of one checkpoint to a graph, the linear ones in the arithmetic of `kind`.

    `block` is the block of weight-only int8. Names are those of the tensors, without ".weight".
    """

    def __init__(self, checkpoint: Checkpoint, graph: GraphBuilder, kind: LinearKind, *, block: int) -> None:
        self.dims = checkpoint.dims
        self.tensors = checkpoint.tensors
        self.graph = graph
        self.kind: LinearKind = kind
        self.block = block

    def norm(self, value: str, name: str) -> str:
        """A layer norm."""
        return self.graph.layer_norm(value, name, self.tensors.get(f"{name}.weight"), self.tensors.get(f"{name}.bias"))

    def conv(self, value: str, name: str, *, stride: int, padding: int = 1) -> str:
        """A convolution over three columns, padded with zeros on either side."""
        weight = self.graph.weight(f"{name}.weight", self.tensors.get(f"{name}.weight"))
        bias = self.graph.weight(f"{name}.bias", self.tensors.get(f"{name}.bias"))
        return self.graph.node("Conv", value, weight, bias, kernel_shape=[3], pads=[padding, padding], strides=[stride])

    def linear(self, value: str, name: str, scale: float = 1.0) -> str:
        """A linear layer, its result times `scale`."""
        # Multiplied into the weights, it costs nothing when the graph runs.
        factor = np.float32(scale)
        weight = self.tensors.get(f"{name}.weight") * factor
        bias = self.tensors.get(f"{name}.bias") * factor if f"{name}.bias" in self.tensors.names() else None
        return self.graph.linear(value, name, weight, bias, self.kind, block=self.block)

    def queries_keys_values(self, value: str, name: str) -> tuple[str, str, str]:
        """The three projections of a self-attention as one product; the keys have no bias, which is zero."""
        parts = [f"{name}.{part}_proj" for part in "qkv"]
        weights = [self.tensors.get(f"{part}.weight") for part in parts]
        names = self.tensors.names()
        biases = [
            self.tensors.get(f"{part}.bias") if f"{part}.bias" in names else np.zeros(len(weight), np.float32)
            for part, weight in zip(parts, weights, strict=True)
        ]
        stacked, bias = np.concatenate(weights), np.concatenate(biases)
        product = self.graph.linear(value, f"{name}.qkv", stacked, bias, self.kind, block=self.block)
        query, key, content = self.graph.nodes("Split", product, outputs=3, axis=-1, num_outputs=3)
        return query, key, content

    def cross_keys_values(self, hidden: str, layer: int) -> tuple[str, str]:
        """The keys and values that decoder layer `layer` attends to: once per window, 1/sqrt(size) in the keys.

        Keys [batch, heads, size, frames] and values [batch, heads, frames, size].
        """
        graph, heads = self.graph, self.dims.n_text_head
        size = self.dims.n_text_state // heads
        name = f"decoder.layers.{layer}.encoder_attn"
        # Scaled once for a window, and not in every step of its decode.
        keys = self.linear(hidden, f"{name}.k_proj", scale=size**-0.5)
        values = self.linear(hidden, f"{name}.v_proj")
        return graph.split_heads(keys, heads, size, 0, 2, 3, 1), graph.split_heads(values, heads, size, 0, 2, 1, 3)

    def residual(self, hidden: str, update: str) -> str:
        """`hidden + update`."""
        return self.graph.node("Add", hidden, update)

    def mlp(self, hidden: str, name: str) -> str:
        """The feed-forward part of block `name`, residual included."""
        inner = self.graph.gelu(self.linear(self.norm(hidden, f"{name}.final_layer_norm"), f"{name}.fc1"))
        return self.residual(hidden, self.linear(inner, f"{name}.fc2"))
