"""The audio encoder with every shape fixed, of standard operators only: for accelerators that compile their graphs.

    mel             [1, n_mels, 2 * frames]
    attention_bias  [1, 1, 1, frames]        0, or a large negative number after the audio
    ->
    hidden          [1, frames, width]
    cross_k.<l>     [1, heads, 64, frames]   scaled and transposed, for the decoder
    cross_v.<l>     [1, heads, frames, 64]

It computes what `encoder` computes over a padded window; only shapes and operators differ.
"""

from whispertide.checkpoint import Checkpoint
from whispertide.graphs.encoder import EncoderGraph
from whispertide_lab.npu.portable import PortableBuilder


class StaticEncoderGraph(EncoderGraph):
    """Builds the encoder of one checkpoint for windows of so many encoder frames."""

    batch = 1
    graph: PortableBuilder

    def __init__(self, checkpoint: Checkpoint, builder: PortableBuilder, frames: int) -> None:
        super().__init__(checkpoint, builder, "float", masked=True)
        self.frames, self.mel_frames, self.bias_shape = frames, 2 * frames, (1, 1, 1, frames)

    def _positions(self) -> str:
        rows = self.tensors.get("encoder.embed_positions.weight")[None, : self.frames]
        return self.graph.weight(f"encoder.positions.{self.frames}", rows)

    def _attention(self, layer: int, query: str, key: str, content: str, bias: str) -> str:
        # `layer` is for the incremental encoder, as in the base class.
        graph, heads = self.graph, self.dims.n_audio_head
        size = self.dims.n_audio_state // heads
        query = graph.node("Mul", graph.split_heads(query, heads, size, 0, 2, 1, 3), graph.scalar(size**-0.5))
        keys = graph.split_heads(key, heads, size, 0, 2, 3, 1)
        return graph.attend(query, keys, graph.split_heads(content, heads, size, 0, 2, 1, 3), bias)[0]
