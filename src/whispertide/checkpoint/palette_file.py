"""A checkpoint's tensors as palettes, in one safetensors file with an index of its own (lab/docs/compression.md).

The index is JSON in the file's metadata. It says how each tensor is stored and has a digest of its bytes, so that a
damaged file is refused and never becomes weights. Nothing here knows how bits and palettes are chosen.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint.layout import Shape
from whispertide.checkpoint.palette import Palettised
from whispertide.checkpoint.safetensors_file import SafetensorsFile
from whispertide.errors import CheckpointError

FORMAT = "whispertide-palettes"
VERSION = 1

# What a palettised tensor NAME is stored as: NAME.palettes and so on, in this order.
PARTS = ("palettes", "indices", "outliers", "gaps")

_AGAIN = "download it, or make it, again"

Stored = Palettised | npt.NDArray[Any]  # an array: a tensor that is kept as it is, float16 or float32


@dataclass(frozen=True, slots=True)
class _IndexEntry:
    """The index entry of one tensor; `bits` 0: it is stored as it is. `digest` is over its bytes."""

    shape: Shape
    digest: str
    bits: int = 0
    rows: int = 0

    def parts(self, name: str) -> tuple[str, ...]:
        return tuple(f"{name}.{part}" for part in PARTS) if self.bits else (name,)


def is_palettised(file: SafetensorsFile) -> bool:
    """True if the file declares that it holds palettes."""
    return file.metadata.get("format") == FORMAT


class PaletteFile:
    """The tensors of such a file, by name; each is computed from its palettes when it is read.

    Raises `CheckpointError` where the index is damaged, of a later version, or does not fit what is in the file.
    """

    def __init__(self, file: SafetensorsFile) -> None:
        self.path = file.path
        self._file = file
        self.entries = self._index(file.metadata)
        expected = {part for name, entry in self.entries.items() for part in entry.parts(name)}
        missing, unknown = sorted(expected - file.tensors.keys()), sorted(file.tensors.keys() - expected)
        if missing or unknown:
            raise self._damaged(
                f"it lacks {len(missing)} parts that its index lists, first {missing[:1]}, and has {len(unknown)} "
                f"others, first {unknown[:1]}"
            )

    @property
    def shapes(self) -> dict[str, Shape]:
        """Name -> shape of every tensor."""
        return {name: entry.shape for name, entry in self.entries.items()}

    def stored(self, name: str) -> Stored:
        """Read a tensor in its stored form. Raises `CheckpointError` if its bytes are not those of the index."""
        entry = self.entries[name]
        arrays = [self._file.read(part) for part in entry.parts(name)]
        if digest_of(arrays) != entry.digest:
            raise self._damaged(f"the bytes of {name} are not those that were written")
        if not entry.bits:
            if arrays[0].shape != entry.shape or arrays[0].dtype.kind != "f":
                raise self._damaged(f"{name} has not the shape {list(entry.shape)} of the index")
            return arrays[0]
        found = Palettised(entry.shape, entry.bits, entry.rows, *arrays)
        types = [array.dtype.name for array in arrays]
        try:
            if types != ["float16", "uint8", "float16", "uint8"]:
                raise ValueError(f"parts of the types {', '.join(types)}")
            found.check()
        except ValueError as error:
            raise self._damaged(f"{name}: {error}") from error
        return found

    def read(self, name: str) -> npt.NDArray[Any]:
        """Read a tensor, float16 or float32. Raises as `stored` does."""
        found = self.stored(name)
        return found.values() if isinstance(found, Palettised) else found

    def _index(self, metadata: Mapping[str, Any]) -> dict[str, _IndexEntry]:
        version = str(metadata.get("version"))
        if version != str(VERSION):
            raise CheckpointError(
                f"expected a compressed checkpoint of version {VERSION} in {self.path}; it says {version!r:.20}: it is "
                "damaged, or made by a later whispertide; update whispertide, or compress the model again"
            )
        try:
            text: str = metadata["index"]
            if hashlib.blake2b(text.encode(), digest_size=16).hexdigest() != metadata["digest"]:
                raise ValueError("it is not the one that was written")
            index = json.loads(text)
            if "original" not in index:  # the hash of the checkpoint that it was made of
                raise KeyError("original")
            return {name: _entry(about) for name, about in index["tensors"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(f"its index cannot be used ({type(error).__name__}: {error})") from error

    def _damaged(self, reason: str) -> CheckpointError:
        return CheckpointError(f"{self.path} is a damaged compressed checkpoint: {reason}. {_AGAIN.capitalize()}.")


def _entry(about: Mapping[str, Any]) -> _IndexEntry:
    shape, digest = tuple(about["shape"]), about["digest"]
    bits, rows = about.get("bits", 0), about.get("rows", 0)
    if not all(type(number) is int and number >= 0 for number in (*shape, bits, rows)) or not isinstance(digest, str):
        raise ValueError(f"an entry of {about}")
    return _IndexEntry(shape, digest, bits, rows)


def digest_of(arrays: Iterable[npt.NDArray[Any]]) -> str:
    """BLAKE2b of 16 bytes, in hexadecimal, over type, shape and content of each."""
    found = hashlib.blake2b(digest_size=16)
    for array in arrays:
        found.update(f"{array.dtype.name} {array.shape} ".encode())
        # A digest takes memory as it lies, so that must be in order.
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()
