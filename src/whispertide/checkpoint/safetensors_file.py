"""One safetensors file, read tensor by tensor (format: huggingface/safetensors, README).

Only the header is read when the file is opened. Nothing here knows about Whisper.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint.magic import describe
from whispertide.checkpoint.untrusted import count_elements, quote, read_numbers, shorten
from whispertide.errors import CheckpointError, CheckpointNotFoundError

_LENGTH = struct.Struct("<Q")
_MAX_HEADER = 2_000_000  # large-v3 needs 150,000
_MOST_BYTES = 1 << 40  # far beyond any Whisper; what is really there is compared with the size of the file

# dtype of the format -> how numpy reads it; bfloat16 has no numpy type and is read as the upper half of a float32.
# Bytes are no weights; what they are, whoever reads them knows.
_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "F64": "<f8", "U8": "u1"}
FLOATS = ("F32", "F16", "BF16", "F64")


@dataclass(frozen=True, slots=True)
class _StoredTensor:
    """The place of one tensor: `offset` is absolute, in bytes."""

    dtype: str
    shape: tuple[int, ...]
    offset: int


class SafetensorsFile:
    """The tensors of one file, and its `metadata`.

    Raises `CheckpointNotFoundError` when the file is missing and `CheckpointError` when it is no safetensors file, or
    shorter than its header says.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                header = self._read_header(file.read(_LENGTH.size), size)
                content = file.read(header)
        except FileNotFoundError as error:
            raise CheckpointNotFoundError(
                f"expected the weights {path.name} in {path.parent}, but the file is missing; download the model again"
            ) from error
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
        self.metadata, self.tensors = self._parse(content, start=_LENGTH.size + header, size=size)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every tensor."""
        return {name: tensor.shape for name, tensor in self.tensors.items()}

    def read(self, name: str) -> npt.NDArray[Any]:
        """Read one tensor: float16 and bytes as they are, float32, bfloat16 and float64 as float32.

        Raises `CheckpointError` when the file cannot be read any more, and KeyError when it has no such tensor.
        """
        tensor = self.tensors[name]
        values = read_numbers(self.path, _DTYPES[tensor.dtype], math.prod(tensor.shape), tensor.offset)
        if tensor.dtype == "U8":
            return values.reshape(tensor.shape)
        return to_float(values, is_bfloat16=tensor.dtype == "BF16").reshape(tensor.shape)

    def _read_header(self, prefix: bytes, size: int) -> int:
        if len(prefix) < _LENGTH.size:
            raise CheckpointError(f"{self.path} has only {size} bytes; expected a safetensors file: download it again")
        (length,) = _LENGTH.unpack(prefix)
        if length > _MAX_HEADER:
            raise CheckpointError(
                f"expected a safetensors file at {self.path}; found {describe(prefix)}, a header of {length} bytes: "
                "download it again"
            )
        if _LENGTH.size + length > size:
            raise self._truncated(_LENGTH.size + length, size)
        return int(length)

    def _parse(self, content: bytes, start: int, size: int) -> tuple[dict[str, Any], dict[str, _StoredTensor]]:
        try:
            header = json.loads(content)
            metadata = header.pop("__metadata__", None)
            tensors = {name: self._tensor(name, entry, start) for name, entry in header.items()}
            ends = [start + entry["data_offsets"][1] for entry in header.values()]
        except CheckpointError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise CheckpointError(
                f"{self.path} has a damaged header ({shorten(f'{type(error).__name__}: {error}')}): download it again"
            ) from error
        if max(ends, default=start) > size:
            raise self._truncated(max(ends), size)
        return metadata if isinstance(metadata, dict) else {}, tensors

    def _tensor(self, name: str, entry: Mapping[str, Any], start: int) -> _StoredTensor:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        if dtype not in _DTYPES:
            raise CheckpointError(
                f"{self.path}: {shorten(name)} has the type {shorten(dtype)}; expected {', '.join(FLOATS)}. "
                "Quantised checkpoints cannot be loaded: take the original weights."
            )
        if not all(type(number) is int and 0 <= number <= _MOST_BYTES for number in (begin, end)):
            raise ValueError(f"no place {quote((begin, end))}")
        if end - begin != count_elements(shape, _MOST_BYTES) * np.dtype(_DTYPES[dtype]).itemsize:
            raise ValueError(f"{shorten(name)} of shape {shape} and type {dtype} occupies {end - begin} bytes")
        return _StoredTensor(dtype, shape, start + begin)

    def _truncated(self, expected: int, size: int) -> CheckpointError:
        return CheckpointError(
            f"{self.path} is truncated: expected {expected} bytes, found {size}. Download the model again."
        )


def to_float(values: npt.NDArray[Any], *, is_bfloat16: bool = False) -> npt.NDArray[Any]:
    """Convert stored numbers to native float16 or float32. bfloat16 (as uint16) is the upper half of a float32."""
    if is_bfloat16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float16 if values.dtype.itemsize == 2 else np.float32, copy=False)
