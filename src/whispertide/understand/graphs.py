"""A late-contextualisation network as three graphs: what runs while somebody speaks, what waits for the end, the text.

    ingest    mel [1, mels, 4 t] and what was kept of the audio before -> frames [1, t, width], and what to keep:
              mel_before [1, mels, 1], half_before [1, width, 1], gate_before.<l> [1, inner / 2, kernel - 1]
    context   frames [1, t, width], positions [t, width] -> ctc [1, t, n_vocab + 1] log probabilities,
              cross_k.<l>, cross_v.<l> [1, heads, t, size]
    text      tokens [rows, new], positions [new, width], mask [new, past + new] that is added to attention over the
              text, past_k.<l>, past_v.<l> [rows, heads, past, size] and the cross keys and values
              -> scores [rows, new, n_vocab] log probabilities, present_k.<l>, present_v.<l>

Of rivals whose every layer attends (`branchformer`, `conformer`) all layers wait for the end: ingest subsamples. One
without attention (`rnnt`) has no graphs. fp32: these networks are small.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from whispertide.errors import CheckpointError
from whispertide.graphs.builder import GraphBuilder, WeightFile
from whispertide.graphs.onnx_file import ElementType
from whispertide.understand.checkpoint import LateCheckpoint

INGEST, CONTEXT, TEXT = "ingest", "context", "text"
GRAPHS = (INGEST, CONTEXT, TEXT)
VERSION = 2  # of what is above; graphs of another one are not used


def build(checkpoint: LateCheckpoint, folder: Path) -> None:
    """Write the graphs and their weights into `folder`. Raises `CheckpointError` where a weight is missing."""
    if checkpoint.dims.kind == "rnnt":
        raise CheckpointError(
            "expected a network with attention; got one of the kind rnnt, which is there to be compared in training "
            "and has no graphs"
        )
    try:
        for name, make in ((INGEST, _ingest), (CONTEXT, _context), (TEXT, _text)):
            with (folder / f"{name}.bin").open("wb") as file:
                graph = GraphBuilder(name, WeightFile(f"{name}.bin", file))
                make(_Layers(checkpoint, graph))
                graph.save(folder)
    except KeyError as error:
        raise CheckpointError(f"the network has no weight {error}; train it again, or copy it again") from error


class _Layers:
    """Adds named layers of the network to a graph."""

    def __init__(self, checkpoint: LateCheckpoint, graph: GraphBuilder) -> None:
        self.dims, self.tensors, self.graph = checkpoint.dims, checkpoint.tensors, graph
        self.size = self.dims.width // self.dims.heads

    def norm(self, value: str, name: str) -> str:
        """A layer norm."""
        return self.graph.layer_norm(value, name, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def linear(self, value: str, name: str) -> str:
        """A linear layer."""
        return self.graph.linear(value, name, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"), "float")

    def conv(self, value: str, name: str, *, stride: int = 1, group: int = 1) -> str:
        """A convolution without padding."""
        weight = self.tensors[f"{name}.weight"]
        names = (self.graph.weight(f"{name}.{part}", self.tensors[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.graph.node("Conv", value, *names, kernel_shape=[weight.shape[2]], strides=[stride], group=group)

    def heads(self, value: str) -> str:
        """[rows, n, width] -> [rows, heads, n, size]."""
        return self.graph.split_heads(value, self.dims.heads, self.size, 0, 2, 1, 3)

    def attend(self, query: str, key: str, value: str, name: str, mask: str | None = None) -> str:
        """Attention of projected queries over keys and values, all [rows, heads, n, size], and its last projection."""
        graph = self.graph
        query = graph.node("Mul", query, graph.scalar(self.size**-0.5))
        close = graph.node("MatMul", query, graph.transpose(key, 0, 1, 3, 2))
        weights = graph.node("Softmax", graph.node("Add", close, mask) if mask else close, axis=-1)
        mixed = graph.transpose(graph.node("MatMul", weights, value), 0, 2, 1, 3)
        return self.linear(graph.reshape(mixed, 0, 0, self.dims.width), f"{name}.out")

    def attend_to_all(self, frames: str, name: str) -> str:
        """Attention of all frames over each other, with the norm before it."""
        normed = self.norm(frames, f"{name}.norm")
        query, key, value = (self.heads(self.linear(normed, f"{name}.{part}")) for part in ("query", "key", "value"))
        return self.attend(query, key, value, name)

    def feed_forward(self, value: str, name: str) -> str:
        """With the norm before it."""
        inner = self.graph.gelu(self.linear(self.norm(value, f"{name}.norm"), f"{name}.up"))
        return self.linear(inner, f"{name}.down")

    def gated(self, frames: str, name: str, before: Callable[[str], str]) -> str:
        """A gated convolution, with the norm before it; `before` puts what came earlier before [1, channels, n]."""
        graph = self.graph
        inner = graph.gelu(self.linear(self.norm(frames, f"{name}.norm"), f"{name}.up"))
        content, gate = graph.nodes("Split", inner, outputs=2, axis=-1, num_outputs=2)
        gate = graph.transpose(self.norm(gate, f"{name}.gate_norm"), 0, 2, 1)
        convolved = self.conv(before(gate), f"{name}.gate", group=self.dims.inner // 2)
        return self.linear(graph.node("Mul", content, graph.transpose(convolved, 0, 2, 1)), f"{name}.down")

    def after_nothing(self, value: str) -> str:
        """`value` [1, channels, n] after zeros, as many as a kernel looks back."""
        return self.graph.node("Pad", value, self.graph.ints([0, 0, self.dims.kernel - 1, 0, 0, 0]))

    def carried(self, value: str, name: str, channels: int, count: int) -> str:
        """`value` [1, channels, n] after the `count` columns before it, an input; its own last ones are an output."""
        graph = self.graph
        before = graph.float_input(f"{name}_before", [1, channels, count])
        joined = graph.node("Concat", before, value, axis=-1)
        # A slice has no open end in ONNX: a number beyond every length stands for it.
        last = graph.node("Slice", joined, graph.ints([-count]), graph.ints([2**31 - 1]), graph.ints([2]))
        graph.float_output(last, f"{name}_after", [1, channels, count])
        return joined


def _ingest(layers: _Layers) -> None:
    graph, dims = layers.graph, layers.dims
    mel = graph.float_input("mel", [1, dims.n_mels, "columns"])
    half = graph.gelu(layers.conv(layers.carried(mel, "mel", dims.n_mels, 1), "encoder.subsampling.first", stride=2))
    joined = layers.carried(half, "half", dims.width, 1)
    frames = graph.transpose(graph.gelu(layers.conv(joined, "encoder.subsampling.second", stride=2)), 0, 2, 1)
    for number in range(dims.streaming_layers):
        before = partial(layers.carried, name=f"gate.{number}", channels=dims.inner // 2, count=dims.kernel - 1)
        frames = graph.node("Add", frames, layers.gated(frames, f"encoder.convolving.{number}", before))
    graph.float_output(frames, "frames", [1, "frames", dims.width])


def _context(layers: _Layers) -> None:
    graph, dims = layers.graph, layers.dims
    frames = graph.float_input("frames", [1, "frames", dims.width])
    frames = graph.node("Add", frames, graph.float_input("positions", ["frames", dims.width]))
    layer = {"late": _attention, "branchformer": _branchformer, "conformer": _conformer}[dims.kind]
    for number in range(dims.layers - dims.streaming_layers):
        frames = layer(layers, frames, f"encoder.attending.{number}")
    frames = layers.norm(frames, "encoder.norm")
    scores = graph.node("LogSoftmax", layers.linear(frames, "ctc"), axis=-1)
    graph.float_output(scores, "ctc", [1, "frames", dims.n_vocab + 1])
    for number in range(dims.decoding):
        for which, part in (("k", "key"), ("v", "value")):
            cross = layers.heads(layers.linear(frames, f"decoder.layers.{number}.frames.{part}"))
            graph.float_output(cross, f"cross_{which}.{number}", [1, dims.heads, "frames", layers.size])


def _attention(layers: _Layers, frames: str, name: str) -> str:
    graph = layers.graph
    frames = graph.node("Add", frames, layers.attend_to_all(frames, f"{name}.attention"))
    if not layers.dims.after_attention:
        return frames
    return graph.node("Add", frames, layers.feed_forward(frames, f"{name}.feed_forward"))


def _branchformer(layers: _Layers, frames: str, name: str) -> str:
    """Attention and gated convolution side by side; each is pooled to say how much it counts."""
    graph = layers.graph
    branches = (
        layers.attend_to_all(frames, f"{name}.attention"),
        layers.gated(frames, f"{name}.convolution", layers.after_nothing),
    )
    scores = []
    for number, branch in enumerate(branches):
        looks = graph.node("Softmax", layers.linear(branch, f"{name}.pools.{number}"), axis=1)
        pooled = graph.node("ReduceSum", graph.node("Mul", looks, branch), graph.ints([1]), keepdims=1)
        scores.append(layers.linear(pooled, f"{name}.scores.{number}"))
    shares = graph.node("Softmax", graph.node("Concat", *scores, axis=-1), axis=-1)
    parts = graph.nodes("Split", shares, outputs=2, axis=-1, num_outputs=2)
    mixed = graph.node("Add", *(graph.node("Mul", *pair) for pair in zip(parts, branches, strict=True)))
    return graph.node("Add", frames, layers.linear(mixed, f"{name}.out"))


def _conformer(layers: _Layers, frames: str, name: str) -> str:
    """Half a feed-forward part, attention, convolution, the other half."""
    graph, half = layers.graph, layers.graph.scalar(0.5)
    frames = graph.node("Add", frames, graph.node("Mul", half, layers.feed_forward(frames, f"{name}.before")))
    frames = graph.node("Add", frames, layers.attend_to_all(frames, f"{name}.attention"))
    both = layers.linear(layers.norm(frames, f"{name}.norm"), f"{name}.up")
    content, gate = graph.nodes("Split", both, outputs=2, axis=-1, num_outputs=2)
    gated = graph.transpose(graph.node("Mul", content, graph.node("Sigmoid", gate)), 0, 2, 1)
    convolved = layers.conv(layers.after_nothing(gated), f"{name}.convolution", group=layers.dims.width)
    inner = layers.norm(graph.transpose(convolved, 0, 2, 1), f"{name}.inner_norm")
    inner = graph.node("Mul", inner, graph.node("Sigmoid", inner))
    frames = graph.node("Add", frames, layers.linear(inner, f"{name}.down"))
    frames = graph.node("Add", frames, graph.node("Mul", half, layers.feed_forward(frames, f"{name}.after")))
    return layers.norm(frames, f"{name}.last_norm")


def _text(layers: _Layers) -> None:
    graph, dims = layers.graph, layers.dims
    tokens = graph.input("tokens", ElementType.INT64, ["rows", "new"])
    embedding = graph.weight("decoder.embedding.weight", layers.tensors["decoder.embedding.weight"])
    # Scaled as in Vaswani et al. 2017, section 3.4.
    hidden = graph.node("Mul", graph.node("Gather", embedding, tokens), graph.scalar(dims.width**0.5))
    hidden = graph.node("Add", hidden, graph.float_input("positions", ["new", dims.width]))
    mask = graph.float_input("mask", ["new", "present"])
    for number in range(dims.decoding):
        hidden = _decoder_layer(layers, hidden, mask, number)
    hidden = layers.norm(hidden, "decoder.norm")
    logits = graph.node("MatMul", hidden, graph.transpose(embedding, 1, 0))
    graph.float_output(graph.node("LogSoftmax", logits, axis=-1), "scores", ["rows", "new", dims.n_vocab])


def _decoder_layer(layers: _Layers, hidden: str, mask: str, number: int) -> str:
    graph, dims, name = layers.graph, layers.dims, f"decoder.layers.{number}"
    normed = layers.norm(hidden, f"{name}.text.norm")
    query, key, value = (
        layers.heads(layers.linear(normed, f"{name}.text.{part}")) for part in ("query", "key", "value")
    )
    cached = []
    for which, new in (("k", key), ("v", value)):
        past = graph.float_input(f"past_{which}.{number}", ["rows", dims.heads, "past", layers.size])
        present = graph.node("Concat", past, new, axis=2)
        graph.float_output(present, f"present_{which}.{number}", ["rows", dims.heads, "present", layers.size])
        cached.append(present)
    hidden = graph.node("Add", hidden, layers.attend(query, cached[0], cached[1], f"{name}.text", mask))
    query = layers.heads(layers.linear(layers.norm(hidden, f"{name}.frames.norm"), f"{name}.frames.query"))
    cross = [graph.float_input(f"cross_{which}.{number}", [1, dims.heads, "frames", layers.size]) for which in "kv"]
    hidden = graph.node("Add", hidden, layers.attend(query, cross[0], cross[1], f"{name}.frames"))
    return graph.node("Add", hidden, layers.feed_forward(hidden, f"{name}.feed_forward"))
