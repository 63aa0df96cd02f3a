"""Does this CPU's 8-bit multiplication saturate? x86 without VNNI adds two products in 16 bits when weights are signed.

ONNX Runtime uses that instruction (VPMADDUBSW) on AVX2 machines; there the weights must be stored unsigned, which is
exact and a little slower (ONNX Runtime documentation, "Quantize ONNX models", section on U8S8). The check multiplies,
so it asks the machine itself rather than a list of CPU flags.
"""

from functools import cache

import numpy as np

_SIZE = 64


@cache
def signed_weights_saturate() -> bool:
    """Whether the CPU provider's dynamic int8 product of large values with signed weights comes out too small."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    weight = np.full((_SIZE, _SIZE), 127, np.int8)
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeMatMul", ["x", "weight", "scale"], ["product"], domain="com.microsoft")],
        "saturation",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, _SIZE])],
        [helper.make_tensor_value_info("product", TensorProto.FLOAT, [1, _SIZE])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(np.ones(_SIZE, np.float32), "scale")],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # else it binds a thread to each core, and complains of those it may not use
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    product = session.run(None, {"x": np.ones((1, _SIZE), np.float32)})[0]
    return bool(product.min() < 0.99 * 127 * _SIZE)
