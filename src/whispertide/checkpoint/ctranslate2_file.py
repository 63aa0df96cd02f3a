"""A `model.bin` of CTranslate2, read tensor by tensor.

Format (OpenNMT/CTranslate2, python/ctranslate2/specs/model_spec.py, `_serialize`): all little-endian; a version; the
name and revision of the specification; every variable with its shape, type and bytes; then aliases. Quantised variables
have their scales in a variable of their own, `…_scale`: a stored number is the weight times its scale, one scale a row
(8 bits) or one for all (16 bits). Only what describes the variables is read when the file is opened. Nothing here knows
about Whisper.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint import magic
from whispertide.checkpoint.safetensors_file import to_float
from whispertide.checkpoint.untrusted import (
    MOST_DIMS,
    count_elements,
    open_weights,
    read_exactly,
    read_numbers,
    shorten,
)
from whispertide.errors import CheckpointError

VERSION = 6  # of the format, since CTranslate2 2.0
_MOST_VARIABLES = 20_000  # large-v3 has some 1,300, with the scales of 8 bits twice that
_LONGEST_NAME = 512  # bytes
_LEAST_SCALE = 1e-30  # what is stored divided by less is no weight
_SCALAR = 4  # bytes of what is read at once, such as a number of heads

_U8, _U16, _U32 = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class _Type:
    name: str
    numpy: str


_TYPES = (
    _Type("float32", "<f4"),
    _Type("int8", "i1"),
    _Type("int16", "<i2"),
    _Type("int32", "<i4"),
    _Type("float16", "<f2"),
    _Type("bfloat16", "<u2"),
)
_QUANTISED = ("int8", "int16")


@dataclass(frozen=True, slots=True)
class Variable:
    """The place of one variable: `offset` is absolute, in bytes. `type` is CTranslate2's name of its numbers."""

    name: str
    type: str
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a variable, from `first` to before `last`: projections lie one after the other in one matrix."""

    variable: Variable
    first: int
    last: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.last - self.first, *self.variable.shape[1:])


class CTranslate2File:
    """The variables of a `model.bin` by name, aliases among them, and the `scalars`, which are read at once.

    `specification` is the kind of model and its revision: ("WhisperSpec", 3). Raises `CheckpointNotFoundError` when the
    file is missing and `CheckpointError` when it is no such file, of another version, damaged or truncated.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.variables: dict[str, Variable] = {}
        self.scalars: dict[str, int] = {}
        with open_weights(path, "model of CTranslate2") as file:
            self._size = path.stat().st_size
            self._read(file)

    def read(self, rows: Rows) -> npt.NDArray[Any]:
        """Read rows of a variable: float16 as it is, all else as float32, quantised ones scaled back.

        Raises `CheckpointError` when the file cannot be read any more, or a scale is missing.
        """
        variable = rows.variable
        values = self._read_stored(rows)
        if variable.type not in _QUANTISED:
            return to_float(values, is_bfloat16=variable.type == "bfloat16")
        scale = self._scale(rows)
        if not (np.isfinite(scale) & (scale > _LEAST_SCALE)).all():
            raise CheckpointError(f"{self.path}: expected scales above zero of {variable.name}: download it again")
        return np.asarray(values / scale.reshape(-1, *(1,) * (values.ndim - 1)), np.float32)

    def _scale(self, rows: Rows) -> npt.NDArray[Any]:
        """The scales, float32 [rows], or [1] if one holds for all of a variable."""
        found = self.variables[f"{rows.variable.name}_scale"]
        one_for_all = found.shape in ((), (1,))
        stored = self._read_stored(Rows(found, 0, 1) if one_for_all else Rows(found, rows.first, rows.last))
        return np.asarray(to_float(stored, is_bfloat16=found.type == "bfloat16"), np.float32).reshape(-1)

    def _read_stored(self, rows: Rows) -> npt.NDArray[Any]:
        dtype = np.dtype(_numpy_of(rows.variable.type))
        shape = rows.shape
        width = count_elements(shape[1:], self._size)
        count, start = shape[0] * width, rows.first * width * dtype.itemsize
        return read_numbers(self.path, dtype, count, rows.variable.offset + start).reshape(shape)

    def _read(self, file: BinaryIO) -> None:
        if (start := read_exactly(file, magic.SIZE)) != _U32.pack(VERSION):
            (version,) = _U32.unpack(start)
            found = f"version {version}: convert it again" if version < VERSION else magic.describe(start)
            raise CheckpointError(f"expected CTranslate2's format, version {VERSION}, in {self.path}; found {found}")
        name = _text(file)
        self.specification = (name, *_U32.unpack(read_exactly(file, 4)))
        for _ in range(_count(file)):
            self._read_variable(file)
        for alias, meant in self._read_aliases(file):
            if meant not in self.variables:
                raise ValueError(f"{shorten(alias)} stands for {shorten(meant)}, which is not there")
            self.variables[alias] = self.variables[meant]
        self._check_scales()

    def _read_variable(self, file: BinaryIO) -> None:
        name = _text(file)
        (rank,) = _U8.unpack(read_exactly(file, 1))
        if rank > MOST_DIMS:
            raise ValueError(f"{name} has {rank} dimensions")
        shape = struct.unpack(f"<{rank}I", read_exactly(file, 4 * rank))
        (kind,) = _U8.unpack(read_exactly(file, 1))
        (size,) = _U32.unpack(read_exactly(file, 4))
        if kind >= len(_TYPES):
            raise ValueError(f"{name} has the unknown type {kind}")
        stored, offset = _TYPES[kind], file.tell()
        if offset + size > self._size:
            raise ValueError(f"expected {offset + size} bytes at least, found {self._size}")
        if size != count_elements(shape, self._size) * np.dtype(stored.numpy).itemsize:
            raise ValueError(f"{name} of shape {shape} and type {stored.name} has {size} bytes")
        if name in self.variables:
            raise ValueError(f"{name} is there twice")
        self.variables[name] = Variable(name, stored.name, shape, offset)
        if not shape and size <= _SCALAR and stored.name in ("int8", "int16", "int32"):
            self.scalars[name] = int.from_bytes(read_exactly(file, size), "little", signed=True)
        else:
            file.seek(size, 1)

    def _read_aliases(self, file: BinaryIO) -> Iterator[tuple[str, str]]:
        for _ in range(_count(file)):
            yield _text(file), _text(file)

    def _check_scales(self) -> None:
        """Check that every quantised matrix has its scales: one for all, or one a row."""
        for variable in self.variables.values():
            if variable.type in _QUANTISED and variable.shape:
                scale = self.variables.get(f"{variable.name}_scale")
                if scale is None or scale.type in _QUANTISED or scale.shape not in ((), (1,), variable.shape[:1]):
                    raise ValueError(f"{variable.name} has no scale of its rows")


def _numpy_of(name: str) -> str:
    return next(kind.numpy for kind in _TYPES if kind.name == name)


def _text(file: BinaryIO) -> str:
    (length,) = _U16.unpack(read_exactly(file, 2))
    if not 1 <= length <= _LONGEST_NAME:
        raise ValueError(f"a name of {length} bytes")
    # Its last byte is a zero.
    return read_exactly(file, length)[:-1].decode()


def _count(file: BinaryIO) -> int:
    (count,) = _U32.unpack(read_exactly(file, 4))
    if count > _MOST_VARIABLES:
        raise ValueError(f"it would have {count} variables")
    return int(count)
