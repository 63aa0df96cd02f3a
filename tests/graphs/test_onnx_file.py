"""What is written is what the `onnx` package reads and writes itself."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from each_row import each_row
from whispertide.graphs import onnx_file
from whispertide.graphs.onnx_file import ElementType

BOTH = {"": 20, "com.microsoft": 1}
LARGE = 3 * 2**30  # an offset past what 32 bits hold


def an_array(kind: ElementType) -> np.ndarray[Any, Any]:
    return np.asarray([[-1, 0, 3], [5, 127, 2]] if "U" not in kind.name else [[1, 0, 3], [5, 255, 2]])


class TestTensor:
    @each_row("kind", list(ElementType))
    def test_values_of_every_type_come_back(self, kind: ElementType) -> None:
        values = an_array(kind).astype(helper.tensor_dtype_to_np_dtype(kind))
        read = TensorProto.FromString(onnx_file.tensor("some", kind, values))
        np.testing.assert_array_equal(numpy_helper.to_array(read), values)
        assert (read.name, onnx_file.element_type(values.dtype)) == ("some", kind)

    def test_a_single_number_has_no_dimensions(self) -> None:
        read = numpy_helper.to_array(TensorProto.FromString(onnx_file.tensor("half", ElementType.FLOAT16, -0.5)))
        assert (read.shape, float(read)) == ((), -0.5)

    def test_one_of_another_file(self) -> None:
        expected = TensorProto(
            name="far", data_type=TensorProto.INT8, dims=[2, 300], data_location=TensorProto.EXTERNAL
        )
        for key, value in (("location", "weights.bin"), ("offset", str(LARGE)), ("length", "600")):
            expected.external_data.add(key=key, value=value)
        written = onnx_file.external_tensor("far", ElementType.INT8, (2, 300), "weights.bin", LARGE, 600)
        assert TensorProto.FromString(written) == expected

    def test_a_type_that_no_graph_has_is_refused(self) -> None:
        with pytest.raises(TypeError, match="got one of float64"):
            onnx_file.element_type(np.dtype(np.float64))


class TestNode:
    def test_its_attributes(self) -> None:
        attributes = {"axis": -1, "large": 2**62, "epsilon": 1e-5, "perm": [0, 2, 1, 300], "approximate": "none"}
        written = onnx_file.node("Some", ["a", "", "b"], ["c", "d"], "com.microsoft", attributes)
        expected = helper.make_node("Some", ["a", "", "b"], ["c", "d"], domain="com.microsoft", **attributes)
        read = onnx.NodeProto.FromString(written)
        for one in (read, expected):
            one.attribute.sort(key=lambda attribute: attribute.name)
        assert read == expected

    @pytest.mark.parametrize("value", [None, [0.5], b"bytes"])
    def test_an_attribute_of_another_kind_is_refused(self, value: Any) -> None:
        with pytest.raises(TypeError, match="attribute what; got"):
            onnx_file.node("Some", [], [], "", {"what": value})


def test_a_model_is_that_of_onnx() -> None:
    shape: list[int | str] = ["rows", 200, 1]
    written = onnx_file.model(
        "both",
        nodes=[onnx_file.node("Add", ["x", "one"], ["y"], "", {})],
        inputs=[onnx_file.edge("x", ElementType.FLOAT, shape)],
        outputs=[onnx_file.edge("y", ElementType.FLOAT, shape)],
        constants=[onnx_file.tensor("one", ElementType.FLOAT, [1.0])],
        opsets=BOTH,
    )
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"])],
        "both",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.ones(1, np.float32), "one")],
    )
    opsets = [helper.make_opsetid(*one) for one in BOTH.items()]
    expected = helper.make_model(graph, opset_imports=opsets, producer_name="whispertide", ir_version=10)
    read = onnx.load_from_string(written)
    assert read == expected
    onnx.checker.check_model(read, full_check=True)
