"""The audio encoder for a stream that is encoded piece by piece, each frame once (WhisperRT): what it heard before goes
in as keys and values, what it adds comes out.

    mel             [1, n_mels, 2 * frames + 3]  columns 2 first - 2 .. 2 (first + frames), `first` being the first new
                    frame: two of the piece before, one that the next piece begins with
    kept            [1, 1, 2 * frames + 1]       1, but 0 for what lies before the stream: there the convolutions are
                    padded with zeros, as at the edge of a window
    positions       [frames]                     rows of the position table
    attention_bias  [1, 1, frames, past + frames]   0 or a large negative number
    past_k.<l>      [1, heads, 64, past]         of the frames before, transposed, so that no piece transposes them
    past_v.<l>      [1, heads, past, 64]         what the bias hides may hold anything finite
    ->
    hidden          [1, frames, width]
    new_k.<l>       [1, heads, 64, frames]
    new_v.<l>       [1, heads, frames, 64]
    cross_k.<l>     [1, heads, 64, frames]       scaled and transposed, as from the graph for whole windows
    cross_v.<l>     [1, heads, frames, 64]

The keys of the past and of the piece are not joined in the graph: whoever holds them appends to room that is there
already, so a piece costs the same however long the stream is.
"""

from pathlib import Path

from whispertide.checkpoint import Checkpoint
from whispertide.graphs.arithmetic import linear_kind
from whispertide.graphs.builder import GraphBuilder, WeightFile
from whispertide.graphs.encoder import EncoderGraph
from whispertide.options import Precision


def build(checkpoint: Checkpoint, precision: Precision, folder: Path) -> None:
    """Write the graph and its weights into `folder` (`store`)."""
    with (folder / "incremental.bin").open("wb") as file:
        builder = GraphBuilder("encoder-incremental", WeightFile("incremental.bin", file), half=precision == "fp16")
        _IncrementalGraph(checkpoint, builder, linear_kind(precision), masked=True).build().save(folder)


class _IncrementalGraph(EncoderGraph):
    """The encoder with its past as an input."""

    batch, mel_frames = 1, "columns"
    bias_shape = (1, 1, "frames", "total")

    def _stem(self, mel: str) -> str:
        graph = self.graph
        kept = graph.float_input("kept", [1, 1, "inner_columns"])
        # Without padding of its own: the columns around a piece come with it.
        value = graph.node("Mul", graph.gelu(self.layers.conv(mel, "encoder.conv1", stride=1, padding=0)), kept)
        return graph.gelu(self.layers.conv(value, "encoder.conv2", stride=2, padding=0))

    def _attention(self, layer: int, query: str, key: str, content: str, bias: str) -> str:
        """Written out, in two parts: what was heard before, and the piece itself."""
        graph, heads = self.graph, self.dims.n_audio_head
        size = self.dims.n_audio_state // heads
        query, content = (graph.split_heads(part, heads, size, 0, 2, 1, 3) for part in (query, content))
        key = graph.split_heads(key, heads, size, 0, 2, 3, 1)
        query = graph.node("Mul", query, graph.scalar(size**-0.5))
        past_key = graph.float_input(f"past_k.{layer}", [1, heads, size, "past"])
        past_content = graph.float_input(f"past_v.{layer}", [1, heads, "past", size])
        # Scores are joined and not keys: joining keys would copy the whole past for every piece.
        scores = [graph.node("MatMul", query, keys) for keys in (past_key, key)]
        weights = graph.node("Softmax", graph.node("Add", graph.node("Concat", *scores, axis=-1), bias), axis=-1)
        lengths = [graph.node("Shape", keys, start=3, end=4) for keys in (past_key, key)]
        parts = graph.nodes("Split", weights, graph.node("Concat", *lengths, axis=0), outputs=2, axis=-1)
        mixed = [graph.node("MatMul", part, of) for part, of in zip(parts, (past_content, content), strict=True)]
        graph.float_output(key, f"new_k.{layer}", [1, heads, size, "frames"])
        graph.float_output(content, f"new_v.{layer}", [1, heads, "frames", size])
        return graph.reshape(graph.transpose(graph.node("Add", *mixed), 0, 2, 1, 3), 0, 0, -1)
