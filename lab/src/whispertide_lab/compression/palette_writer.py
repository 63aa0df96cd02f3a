"""Writes what `whispertide.checkpoint.palette_file` reads."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint.palette import Palettised
from whispertide.checkpoint.palette_file import FORMAT, PARTS, VERSION, Stored, digest_of
from whispertide_lab.safetensors_header import header_of


def write_palette_file(path: Path, tensors: Mapping[str, Stored], original: str) -> None:
    """Write such a file; `original` is the hash of the uncompressed checkpoint. Raises OSError."""
    parts: dict[str, npt.NDArray[Any]] = {}
    index: dict[str, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        own = _parts(name, tensor)
        entry: dict[str, Any] = {"shape": list(tensor.shape), "digest": digest_of(own.values())}
        if isinstance(tensor, Palettised):
            entry |= {"bits": tensor.bits, "rows": tensor.rows}
        parts, index[name] = parts | own, entry
    text = json.dumps({"original": original, "tensors": index}, separators=(",", ":"))
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    metadata = {"format": FORMAT, "version": str(VERSION), "digest": digest, "index": text}
    with path.open("wb") as file:
        file.write(header_of({name: (array.shape, array.dtype) for name, array in parts.items()}, metadata))
        for array in parts.values():
            file.write(array.data)


def _parts(name: str, tensor: Stored) -> dict[str, npt.NDArray[Any]]:
    if not isinstance(tensor, Palettised):
        return {name: np.ascontiguousarray(tensor)}
    arrays = (tensor.palettes, tensor.indices, tensor.outliers, tensor.gaps)
    return {f"{name}.{part}": np.ascontiguousarray(array) for part, array in zip(PARTS, arrays, strict=True)}
