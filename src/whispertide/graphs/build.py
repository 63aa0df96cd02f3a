"""Checkpoint and precision -> graph files. Says which arithmetic each precision means."""

from dataclasses import dataclass
from pathlib import Path

from whispertide.checkpoint import Checkpoint
from whispertide.graphs.builder import GraphBuilder, LinearKind, WeightFile
from whispertide.graphs.decoder import DecoderGraph
from whispertide.graphs.encoder import EncoderGraph
from whispertide.options import Precision


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How the linear layers of encoder and decoder compute; `half` makes everything else fp16 too."""

    encoder: LinearKind
    decoder: LinearKind
    half: bool = False


# "int8" quantises activations too, per tensor; "int8-weights" only the weights, per block (docs/engine.md).
ARITHMETIC: dict[Precision, Arithmetic] = {
    "int8": Arithmetic(encoder="dynamic-int8", decoder="dynamic-int8"),
    "int8-weights": Arithmetic(encoder="block-int8", decoder="block-int8"),
    "fp32": Arithmetic(encoder="float", decoder="float"),
    "fp16": Arithmetic(encoder="float", decoder="float", half=True),
}


# For CPUs whose multiplication of signed 8-bit weights saturates (`graphs.saturation`).
UNSIGNED = Arithmetic(encoder="dynamic-uint8", decoder="dynamic-uint8")


def build_graphs(checkpoint: Checkpoint, precision: Precision, folder: Path, *, unsigned: bool = False) -> None:
    """Write encoder, masked encoder and decoder, with their weights, into `folder`.

    `unsigned` stores the weights of "int8" unsigned; the other precisions do not have the choice.
    """
    arithmetic = UNSIGNED if unsigned and precision == "int8" else ARITHMETIC[precision]
    with (folder / "encoder.bin").open("wb") as file:
        weights = WeightFile("encoder.bin", file)
        for name, masked in (("encoder", False), ("encoder-masked", True)):
            builder = GraphBuilder(name, weights, half=arithmetic.half)
            EncoderGraph(checkpoint, builder, arithmetic.encoder, masked=masked).build().save(folder)
    with (folder / "decoder.bin").open("wb") as file:
        builder = GraphBuilder("decoder", WeightFile("decoder.bin", file), half=arithmetic.half)
        DecoderGraph(checkpoint, builder, arithmetic.decoder).build().save(folder)
