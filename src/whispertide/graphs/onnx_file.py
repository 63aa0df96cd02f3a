"""ONNX's file format, as far as our graphs need it: the messages of a model, each as the bytes of its fields.

The format is Protocol Buffers; the numbers are those of onnx.proto, version 10 of its IR. The tests read what is
written here with the `onnx` package, and compare it with what that writes.
"""

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

_IR_VERSION = 10  # an older ONNX Runtime refuses a newer one
_EXTERNAL = 1


class ElementType(IntEnum):
    """The element types of tensors, by ONNX's numbers."""

    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    INT32 = 6
    INT64 = 7
    BOOL = 9
    FLOAT16 = 10


_TYPES: dict[np.dtype[Any], ElementType] = {
    np.dtype(np.float32): ElementType.FLOAT,
    np.dtype(np.uint8): ElementType.UINT8,
    np.dtype(np.int8): ElementType.INT8,
    np.dtype(np.int32): ElementType.INT32,
    np.dtype(np.int64): ElementType.INT64,
    np.dtype(np.bool_): ElementType.BOOL,
    np.dtype(np.float16): ElementType.FLOAT16,
}
_DTYPES: dict[ElementType, Any] = {kind: dtype for dtype, kind in _TYPES.items()}


def element_type(dtype: np.dtype[Any]) -> ElementType:
    """That of an array. Raises `TypeError` if our graphs have no tensors of it."""
    if dtype not in _TYPES:
        raise TypeError(f"expected an array of {', '.join(map(str, _TYPES))}; got one of {dtype}")
    return _TYPES[dtype]


def tensor(name: str, kind: int, values: Any) -> bytes:
    """TensorProto: a constant of element type `kind`, kept in the graph itself."""
    array = np.asarray(values, np.dtype(_DTYPES[ElementType(kind)]))
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return _about_tensor(name, kind, array.shape) + _bytes(9, data)


def external_tensor(name: str, kind: int, shape: Sequence[int], file: str, offset: int, length: int) -> bytes:
    """TensorProto: `length` bytes from `offset` on in `file`, which lies next to the graph."""
    where = (("location", file), ("offset", str(offset)), ("length", str(length)))
    entries = b"".join(_bytes(13, _text(1, key) + _text(2, value)) for key, value in where)
    return _about_tensor(name, kind, shape) + entries + _integer(14, _EXTERNAL)


def edge(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    """ValueInfoProto: an input or output of a graph; strings name dynamic dimensions."""
    sizes = (_text(2, size) if isinstance(size, str) else _integer(1, size) for size in shape)
    dimensions = b"".join(_bytes(1, size) for size in sizes)
    tensor_type = _integer(1, kind) + _bytes(2, dimensions)
    return _text(1, name) + _bytes(2, _bytes(1, tensor_type))


def node(op: str, inputs: Iterable[str], outputs: Iterable[str], domain: str, attributes: dict[str, Any]) -> bytes:
    """NodeProto."""
    edges = b"".join(_text(1, name) for name in inputs) + b"".join(_text(2, name) for name in outputs)
    rest = b"".join(_bytes(5, _attribute(name, value)) for name, value in attributes.items())
    return edges + _text(4, op) + rest + (_text(7, domain) if domain else b"")


def model(
    name: str,
    *,
    nodes: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    constants: Iterable[bytes],
    opsets: dict[str, int],
) -> bytes:
    """ModelProto of the graph `name`; `opsets` has the version of each domain of operators."""
    graph = b"".join(
        (
            *(_bytes(1, one) for one in nodes),
            _text(2, name),
            *(_bytes(5, one) for one in constants),
            *(_bytes(11, one) for one in inputs),
            *(_bytes(12, one) for one in outputs),
        )
    )
    versions = (_text(1, domain) + _integer(2, version) for domain, version in opsets.items())
    head = _integer(1, _IR_VERSION) + _text(2, "whispertide")
    return head + _bytes(7, graph) + b"".join(_bytes(8, one) for one in versions)


def _about_tensor(name: str, kind: int, shape: Sequence[int]) -> bytes:
    return b"".join(_integer(1, size) for size in shape) + _integer(2, kind) + _text(8, name)


def _attribute(name: str, value: Any) -> bytes:
    """AttributeProto; its field 20 says which of the others has the value."""
    match value:
        case int():
            return _text(1, name) + _integer(3, value) + _integer(20, 2)
        case float():
            return _text(1, name) + _key(2, 5) + struct.pack("<f", value) + _integer(20, 1)
        case str():
            return _text(1, name) + _text(4, value) + _integer(20, 3)
        case list() if all(isinstance(one, int) for one in value):
            return _text(1, name) + b"".join(_integer(8, one) for one in value) + _integer(20, 7)
    raise TypeError(f"expected an int, float, str or list of ints for attribute {name}; got {value!r}")


# -- Protocol Buffers ------------------------------------------------------------------------------------------------


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _integer(field: int, value: int) -> bytes:
    return _key(field, 0) + _varint(value % 2**64)


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _bytes(field: int, data: bytes) -> bytes:
    return _key(field, 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Seven bits to a byte, the lowest first; the eighth bit says that more follow."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])
