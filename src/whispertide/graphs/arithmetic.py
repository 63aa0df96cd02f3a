"""Which arithmetic each precision means for the linear layers; in "fp16" everything else is in half precision too."""

from whispertide.graphs.builder import LinearKind
from whispertide.graphs.saturation import signed_weights_saturate
from whispertide.options import Precision

# "int8" quantises activations too, per tensor; "int8-weights" only the weights, per block (docs/engine.md).
_LINEAR: dict[Precision, LinearKind] = {
    "int8": "dynamic-int8",
    "int8-weights": "block-int8",
    "fp32": "float",
    "fp16": "float",
}


def linear_kind(precision: Precision) -> LinearKind:
    """That of a precision; the weights of "int8" are unsigned where signed ones saturate (`saturation`)."""
    unsigned = precision == "int8" and signed_weights_saturate()
    return "dynamic-uint8" if unsigned else _LINEAR[precision]
