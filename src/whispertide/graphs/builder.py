"""Writes an ONNX graph node by node, with its weights next to it in one file.

Knows ONNX and ONNX Runtime's operators; knows nothing of Whisper. Weights go to an external file as they are added, one
tensor at a time, so a 6 GB model needs no 6 GB of memory, and ONNX Runtime can map the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from whispertide.graphs import onnx_file
from whispertide.graphs.onnx_file import ElementType
from whispertide.graphs.quantize import blockwise_int8, per_column_int8

CONTRIB = "com.microsoft"
OPSETS = {"": 20, CONTRIB: 1}
UNSIGNED_ZERO = 128
_ALIGNMENT = 4096  # ONNX Runtime maps external tensors whose offset is a multiple of the page size

LinearKind = Literal["float", "dynamic-int8", "dynamic-uint8", "block-int8"]


@dataclass(frozen=True, slots=True)
class _StoredWeight:
    """A tensor in the weight file, as other graphs over the same file can refer to it."""

    offset: int
    length: int
    data_type: int
    shape: tuple[int, ...]


@dataclass(slots=True)
class WeightFile:
    """The file that holds the weights of one or more graphs: `<name>` next to the `.onnx` files."""

    name: str
    file: BinaryIO
    stored: dict[str, _StoredWeight] = field(default_factory=dict)

    def put(self, name: str, array: np.ndarray[Any, Any]) -> _StoredWeight:
        """Append `array` unless a tensor of this name is there already."""
        if name not in self.stored:
            data = np.ascontiguousarray(array)
            self.file.write(b"\0" * (-self.file.tell() % _ALIGNMENT))
            offset = self.file.tell()
            # Not `tofile`, which on a full disk says nothing of small tensors, and of large ones not why.
            self.file.write(data.data)
            data_type = onnx_file.element_type(data.dtype)
            self.stored[name] = _StoredWeight(offset, data.nbytes, data_type, tuple(data.shape))
        return self.stored[name]


@dataclass(frozen=True, slots=True)
class _Node:
    op: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    domain: str
    attributes: dict[str, Any]

    def renamed(self, names: dict[str, str]) -> bytes:
        """The node as it is written, with `names` in place of those of some values."""
        inputs, outputs = ([names.get(one, one) for one in edges] for edges in (self.inputs, self.outputs))
        return onnx_file.node(self.op, inputs, outputs, self.domain, self.attributes)


class GraphBuilder:
    """Collects nodes, inputs, outputs and weights of one graph. Methods return the name of what they made."""

    def __init__(self, name: str, weights: WeightFile, *, half: bool = False) -> None:
        self.name = name
        self.weights = weights
        self.float_type = ElementType.FLOAT16 if half else ElementType.FLOAT
        self.float_dtype = np.float16 if half else np.float32
        self._nodes: list[_Node] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._constants: dict[str, bytes] = {}
        self._renamed: dict[str, str] = {}

    # -- edges of the graph ------------------------------------------------------------------------------------

    def input(self, name: str, data_type: int, shape: Sequence[int | str]) -> str:
        """Declare a graph input; strings name dynamic dimensions."""
        self._inputs.append(onnx_file.edge(name, data_type, shape))
        return name

    def float_input(self, name: str, shape: Sequence[int | str]) -> str:
        """Declare a float32 input, cast to the graph's own float type."""
        self.input(name, ElementType.FLOAT, shape)
        return self.cast(name, self.float_type) if self.float_type != ElementType.FLOAT else name

    def output(self, value: str, name: str, data_type: int, shape: Sequence[int | str]) -> None:
        """Declare graph output `name` as `value`, which has no other name yet."""
        # Renamed when the graph is saved: until then more nodes may ask for the value by the name it has.
        self._renamed[value] = name
        self._outputs.append(onnx_file.edge(name, data_type, shape))

    def float_output(self, value: str, name: str, shape: Sequence[int | str]) -> None:
        """Declare a float32 output, cast from the graph's own float type."""
        if self.float_type != ElementType.FLOAT:
            value = self.cast(value, ElementType.FLOAT)
        self.output(value, name, ElementType.FLOAT, shape)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output."""
        return self.nodes(op, *inputs, outputs=1, domain=domain, **attributes)[0]

    def nodes(self, op: str, *inputs: str, outputs: int, domain: str = "", **attributes: Any) -> tuple[str, ...]:
        """Add a node with several outputs."""
        names = tuple(f"{op.lower()}_{len(self._nodes)}_{i}" for i in range(outputs))
        self._nodes.append(_Node(op, inputs, names, domain, attributes))
        return names

    def cast(self, value: str, data_type: int) -> str:
        """Convert to another element type."""
        return self.node("Cast", value, to=data_type)

    def reshape(self, value: str, *shape: int) -> str:
        """Reshape with 0 = keep the input's dimension and -1 = infer."""
        return self.node("Reshape", value, self.ints(shape))

    def transpose(self, value: str, *perm: int) -> str:
        return self.node("Transpose", value, perm=list(perm))

    def split_heads(self, value: str, heads: int, size: int, *perm: int) -> str:
        """[batch, length, heads * size] -> [batch, length, heads, size], permuted."""
        return self.transpose(self.reshape(value, 0, 0, heads, size), *perm)

    # -- constants and weights -----------------------------------------------------------------------------------

    def ints(self, values: Sequence[int]) -> str:
        """A small 1-D int64 constant kept in the graph itself."""
        # Equal constants get equal names, so each is stored once.
        name = "ints_" + "_".join(map(str, values)).replace("-", "m")
        if name not in self._constants:
            self._constants[name] = onnx_file.tensor(name, ElementType.INT64, values)
        return name

    def scalar(self, value: float, data_type: int | None = None) -> str:
        """A float constant kept in the graph itself, of the graph's float type unless another is named."""
        data_type = self.float_type if data_type is None else data_type
        name = f"scalar_{value}_{data_type}"
        if name not in self._constants:
            self._constants[name] = onnx_file.tensor(name, data_type, value)
        return name

    def weight(self, name: str, array: np.ndarray[Any, Any]) -> str:
        """A weight kept in the external file; floats take the graph's float type."""
        if name not in self._constants:
            # Another graph over the same file may have written it: then nothing is converted.
            if name not in self.weights.stored and array.dtype.kind == "f" and array.dtype != self.float_dtype:
                array = array.astype(self.float_dtype)
            stored = self.weights.put(name, array)
            where = (self.weights.name, stored.offset, stored.length)
            self._constants[name] = onnx_file.external_tensor(name, stored.data_type, stored.shape, *where)
        return name

    # -- layers ----------------------------------------------------------------------------------------------------

    def layer_norm(self, value: str, name: str, scale: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]) -> str:
        """Layer norm over the last dimension, epsilon 1e-5 as in Whisper."""
        scale_name, bias_name = self.weight(f"{name}.weight", scale), self.weight(f"{name}.bias", bias)
        return self.node("LayerNormalization", value, scale_name, bias_name, axis=-1, epsilon=1e-5)

    def gelu(self, value: str) -> str:
        """The exact (erf) GELU."""
        return self.node("Gelu", value, domain=CONTRIB)

    def linear(
        self,
        value: str,
        name: str,
        weight: np.ndarray[Any, Any],
        bias: np.ndarray[Any, Any] | None,
        kind: LinearKind,
        *,
        block: int = 128,
    ) -> str:
        """`value @ weight.T + bias` for a weight [out, in], in the arithmetic that `kind` names."""
        if kind in ("dynamic-int8", "dynamic-uint8"):
            zero = ""  # symmetric
            if kind == "dynamic-uint8":
                zero = self.weight(f"zeros{len(weight)}", np.full(len(weight), UNSIGNED_ZERO, np.uint8))
            tail = [self.weight(f"{name}.bias", bias)] if bias is not None else []
            packed = self.column_int8(name, weight, signed=kind == "dynamic-int8")
            return self.node("DynamicQuantizeMatMul", value, *packed, zero, *tail, domain=CONTRIB)
        if kind == "block-int8":
            packed = self.block_int8(name, weight, block)
            # inputs 4 and 5 (zero points, group index) stay at their defaults: symmetric, in order
            tail = ["", "", self.weight(f"{name}.bias", bias)] if bias is not None else []
            # Accuracy level 4 multiplies in 8 bits; otherwise the weights are expanded and the product is one of
            # floats.
            shape = {"K": weight.shape[1], "N": weight.shape[0], "bits": 8, "block_size": block, "accuracy_level": 4}
            return self.node("MatMulNBits", value, *packed, *tail, domain=CONTRIB, **shape)
        product = self.node("MatMul", value, self.weight(f"{name}.t", weight.T))
        return self.node("Add", product, self.weight(f"{name}.bias", bias)) if bias is not None else product

    def column_int8(self, name: str, weight: np.ndarray[Any, Any], *, signed: bool) -> tuple[str, str]:
        """Store a weight [out, in] as 8 bits: names of data [in, out] and scales [out].

        Unsigned data have `UNSIGNED_ZERO` for zero.
        """
        # By another graph over the same file: then what is given here is not looked at.
        if f"{name}.int8" in self.weights.stored:
            return self.weight(f"{name}.int8", weight), self.weight(f"{name}.scale", weight)
        data, scales = per_column_int8(weight.T)
        if not signed:
            # By way of 16 bits, because 127 + 128 does not fit into a signed byte.
            data = (data.astype(np.int16) + UNSIGNED_ZERO).astype(np.uint8)
        return self.weight(f"{name}.int8", data), self.weight(f"{name}.scale", scales)

    def block_int8(self, name: str, weight: np.ndarray[Any, Any], block: int) -> tuple[str, str]:
        """Store a weight [out, in] as blocks of 8 bits: names of data [out, blocks, block] and scales [out, blocks]."""
        if f"{name}.blocks{block}" in self.weights.stored:
            return self.weight(f"{name}.blocks{block}", weight), self.weight(f"{name}.scales{block}", weight)
        data, scales = blockwise_int8(weight, block)
        return self.weight(f"{name}.blocks{block}", data), self.weight(f"{name}.scales{block}", scales)

    # -- result ------------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write `<name>.onnx` into `folder`, next to the weight file."""
        model = onnx_file.model(
            self.name,
            nodes=(node.renamed(self._renamed) for node in self._nodes),
            inputs=self._inputs,
            outputs=self._outputs,
            constants=self._constants.values(),
            opsets=OPSETS,
        )
        (folder / f"{self.name}.onnx").write_bytes(model)
