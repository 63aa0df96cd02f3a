"""The header of a safetensors file that is to be written (format: huggingface/safetensors, README)."""

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def header_of(tensors: Mapping[str, tuple[tuple[int, ...], npt.DTypeLike]], metadata: Mapping[str, str]) -> bytes:
    """The header of a file: `tensors` are shape and type by name, in the order in which their bytes follow."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    begin = 0
    for name, (shape, kind) in tensors.items():
        dtype = np.dtype(kind)
        end = begin + math.prod(shape) * dtype.itemsize
        named = f"{'U' if dtype.kind == 'u' else 'F'}{8 * dtype.itemsize}"
        header[name] = {"dtype": named, "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    content = json.dumps(header, separators=(",", ":")).encode()
    # Tensors begin at a multiple of eight, as the format wants it.
    content += b" " * (-len(content) % 8)
    return struct.pack("<Q", len(content)) + content
