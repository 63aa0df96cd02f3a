"""The arithmetic of each precision in the linear layers; in "fp16" everything else is in half precision too.

x86 without VNNI adds two 8-bit products in 16 bits when weights are signed (VPMADDUBSW, on AVX2 machines), which
saturates. There the weights must be stored unsigned, which is exact and a little slower (ONNX Runtime documentation,
"Quantize ONNX models", section on U8S8). The check multiplies, so it asks the machine itself rather than a list of CPU
flags.
"""

from functools import cache

import numpy as np

from whispertide.graphs import onnx_file
from whispertide.graphs.builder import CONTRIB, OPSETS, LinearKind
from whispertide.graphs.onnx_file import ElementType
from whispertide.options import Precision

# "int8" quantises activations too, per tensor; "int8-weights" only the weights, per block (docs/internals/engine.md).
_LINEAR: dict[Precision, LinearKind] = {
    "int8": "dynamic-int8",
    "int8-weights": "block-int8",
    "fp32": "float",
    "fp16": "float",
}


def linear_kind(precision: Precision) -> LinearKind:
    """That of a precision; the weights of "int8" are unsigned where signed ones saturate."""
    unsigned = precision == "int8" and signed_weights_saturate()
    return "dynamic-uint8" if unsigned else _LINEAR[precision]


_SIZE = 64


@cache
def signed_weights_saturate() -> bool:
    """True if the CPU provider's dynamic int8 product of large values with signed weights comes out too small."""
    import onnxruntime

    model = onnx_file.model(
        "saturation",
        nodes=[onnx_file.node("DynamicQuantizeMatMul", ["x", "weight", "scale"], ["product"], CONTRIB, {})],
        inputs=[onnx_file.edge("x", ElementType.FLOAT, [1, _SIZE])],
        outputs=[onnx_file.edge("product", ElementType.FLOAT, [1, _SIZE])],
        constants=[
            onnx_file.tensor("weight", ElementType.INT8, np.full((_SIZE, _SIZE), 127)),
            onnx_file.tensor("scale", ElementType.FLOAT, np.ones(_SIZE)),
        ],
        opsets=OPSETS,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # else it binds a thread to each core, and complains of those it may not use
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    # Ones are quantised to 255, and 2 * 255 * 127 does not fit into 16 bits.
    product = session.run(None, {"x": np.ones((1, _SIZE), np.float32)})[0]
    return bool(product.min() < 0.99 * 127 * _SIZE)
