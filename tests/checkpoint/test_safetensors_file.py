"""A file of safetensors, byte by byte: what is read, and what of a damaged one is said."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whispertide.checkpoint.safetensors_file import SafetensorsFile, to_float
from whispertide.errors import CheckpointError, CheckpointNotFoundError

NUMBERS = np.arange(6, dtype="<f4").reshape(2, 3)


def write(path: Path, header: Any, data: bytes = b"", *, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def test_every_type_is_read_as_it_can_be_computed_with(file: Path) -> None:
    brain = (NUMBERS.view("<u4") >> 16).astype("<u2")
    stored = {
        "F32": NUMBERS,
        "F16": NUMBERS.astype("<f2"),
        "BF16": brain,
        "F64": NUMBERS.astype("<f8"),
        "U8": NUMBERS.astype("u1"),
    }
    header, data = {}, b""
    for name, values in stored.items():
        header[name] = entry(name, [2, 3], len(data), len(data) + values.nbytes)
        data += values.tobytes()
    found = SafetensorsFile(write(file, {"__metadata__": {"format": "pt"}, **header}, data))
    assert found.metadata == {"format": "pt"}
    assert found.shapes == dict.fromkeys(stored, (2, 3))
    read = {name: found.read(name) for name in stored}
    assert {name: values.dtype.name for name, values in read.items()} == {
        "F32": "float32",
        "F16": "float16",
        "BF16": "float32",
        "F64": "float32",
        "U8": "uint8",
    }
    for values in read.values():
        np.testing.assert_array_equal(values, NUMBERS)
    with pytest.raises(KeyError):
        found.read("other")


def test_without_metadata_there_is_none(file: Path) -> None:
    assert SafetensorsFile(write(file, {})).metadata == {}
    assert SafetensorsFile(write(file, {"__metadata__": "none"})).metadata == {}


def test_a_missing_file(file: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"model\.safetensors"):
        SafetensorsFile(file)


@pytest.mark.parametrize(
    ("header", "data", "length", "said"),
    [
        ({"a": entry("F32", [2, 3], 0, 24)}, bytes(23), None, "truncated: expected .* bytes"),
        ({"a": entry("F32", [2, 3], 0, 24)}, b"", 10_000, "truncated"),
        ({"a": entry("F32", [2, 3], 0, 20)}, bytes(24), None, "occupies 20 bytes"),
        ({"a": entry("F32", [2, 3], -4, 20)}, bytes(24), None, "no place"),
        ({"a": entry("F32", [2, 3], 0, 2**50)}, bytes(24), None, "no place"),
        ({"a": entry("F32", [2, -3], 0, 24)}, bytes(24), None, "shape"),
        ({"a": entry("F32", [True, 6], 0, 24)}, bytes(24), None, "shape"),
        ({"a": entry("I8", [6], 0, 6)}, bytes(6), None, "type I8; expected F32"),
        ({"a": {"dtype": "F32"}}, b"", None, "damaged header"),
        ([1], b"", None, "damaged header"),
        (b"{nonsense", b"", None, "damaged header"),
        (b"[" * 100_000, b"", None, "damaged header"),
        (b"", b"", 2**60, "expected a safetensors file"),
    ],
)
def test_what_is_wrong_is_said(file: Path, header: Any, data: bytes, length: int | None, said: str) -> None:
    with pytest.raises(CheckpointError, match=said) as error:
        SafetensorsFile(write(file, header, data, length=length))
    assert "model.safetensors" in str(error.value)
    assert len(str(error.value)) < 600


def test_a_file_of_a_few_bytes_is_none(file: Path) -> None:
    file.write_bytes(b"\0\0\0")
    with pytest.raises(CheckpointError, match="only 3 bytes"):
        SafetensorsFile(file)


def test_a_file_that_changes_meanwhile_is_noticed(file: Path) -> None:
    found = SafetensorsFile(write(file, {"a": entry("F32", [2, 3], 0, 24)}, NUMBERS.tobytes()))
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(CheckpointError, match="became shorter while it was in use"):
        found.read("a")
    file.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        found.read("a")


def test_brain_floats_are_the_upper_half_of_a_float() -> None:
    values = np.array([0x3F80, 0xC000, 0x7F80], np.uint16)
    np.testing.assert_array_equal(to_float(values, is_bfloat16=True), [1.0, -2.0, np.inf])
