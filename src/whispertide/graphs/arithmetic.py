"""Which arithmetic each precision means, in the graphs of any shape."""

from dataclasses import dataclass

from whispertide.graphs.builder import LinearKind
from whispertide.graphs.saturation import signed_weights_saturate
from whispertide.options import Precision


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How the linear layers compute; `half` makes everything else fp16 too."""

    linear: LinearKind
    half: bool = False


# "int8" quantises activations too, per tensor; "int8-weights" only the weights, per block (docs/engine.md).
_ARITHMETIC: dict[Precision, Arithmetic] = {
    "int8": Arithmetic("dynamic-int8"),
    "int8-weights": Arithmetic("block-int8"),
    "fp32": Arithmetic("float"),
    "fp16": Arithmetic("float", half=True),
}


def arithmetic_of(precision: Precision) -> Arithmetic:
    """That of a precision; the weights of "int8" are unsigned where signed ones saturate (`saturation`)."""
    if precision == "int8" and signed_weights_saturate():
        return Arithmetic("dynamic-uint8")
    return _ARITHMETIC[precision]
