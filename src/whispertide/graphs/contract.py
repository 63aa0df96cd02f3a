"""Promises of the graph files to those who run them, apart from tensor names (see `encoder` and `decoder`)."""

from dataclasses import dataclass

TOP = 10  # candidates per distribution that the decoder graph returns: twice the customary beam of 5
MASKED = -1e30  # what a bias holds where attention is forbidden; finite, because a fully masked row must not be nan
_MASKED_HALF = -6e4  # the same within fp16's range


def masked_value(precision: str) -> float:
    """The value of a bias where attention is forbidden, in a model that computes in that precision."""
    return _MASKED_HALF if precision == "fp16" else MASKED


@dataclass(frozen=True, slots=True)
class GraphKind:
    """One kind of graph, which `store` builds on demand.

    file      its name
    builder   the module of this package whose `build(checkpoint, precision, folder)` writes the file, and with it all
              that share its weights
    version   raise when a graph of the builder changes, so that cached files are built anew
    """

    file: str
    builder: str
    version: int

    @property
    def folder(self) -> str:
        """The folder of the builder's files, among those of one checkpoint and precision."""
        return f"{self.builder}-v{self.version}"


ENCODER = GraphKind("encoder.onnx", "encoder", 3)  # attends everywhere
ENCODER_MASKED = GraphKind("encoder-masked.onnx", "encoder", 3)  # takes an attention bias
ENCODER_INCREMENTAL = GraphKind("encoder-incremental.onnx", "incremental", 2)  # a stream, each frame once
DECODER = GraphKind("decoder.onnx", "decoder", 4)  # for every use
