"""Convert ggml's block formats to float32: 32 weights share a scale, and some formats an offset (ggml, ggml-quants.c).

The first 16 weights of a block are the lower halves of its 16 bytes, the others the upper ones; a fifth bit of each
lies in a 32-bit word of its own.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whispertide.types import FloatArray

Bytes = npt.NDArray[np.uint8]

BLOCK = 32  # weights


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """A format by its `name`: the `bits` of a weight, and whether a block has an offset, a weight's least value.

    Without an offset, a stored number counts from the middle of its range.
    """

    name: str
    bits: int
    offset: bool = False

    @property
    def block_bytes(self) -> int:
        """Bytes of one block: the scale, the offset if there is one, and the weights."""
        return 2 * (1 + self.offset) + BLOCK * self.bits // 8


# ggml.h, ggml_type
FORMATS = {
    2: BlockFormat("q4_0", 4),
    3: BlockFormat("q4_1", 4, offset=True),
    6: BlockFormat("q5_0", 5),
    7: BlockFormat("q5_1", 5, offset=True),
    8: BlockFormat("q8_0", 8),
}


def weights_of(stored: Bytes, kind: BlockFormat) -> FloatArray:
    """Decode whole blocks to float32 [32 * blocks]. Raises `ValueError` for a scale that is no number."""
    blocks = stored.reshape(-1, kind.block_bytes)
    scale = _halves(blocks[:, :2])
    least = _halves(blocks[:, 2:4]) if kind.offset else np.float32(0)
    numbers = _numbers(blocks[:, 2 * (1 + kind.offset) :], kind)
    return np.asarray(numbers * scale + least, np.float32).reshape(-1)


def _numbers(packed: Bytes, kind: BlockFormat) -> FloatArray:
    """The stored numbers, float32 [blocks, 32], counted from the middle if there is no offset."""
    if kind.bits == 8:
        return np.ascontiguousarray(packed).view(np.int8).astype(np.float32)
    low = packed[:, -BLOCK // 2 :]
    numbers = np.concatenate([low & 15, low >> 4], axis=1)
    if kind.bits == 5:
        fifth = np.unpackbits(packed[:, :4], axis=1, bitorder="little")
        numbers |= fifth << 4
    return numbers.astype(np.float32) - np.float32(0 if kind.offset else 1 << (kind.bits - 1))


def _halves(stored: Bytes) -> FloatArray:
    """Decode two bytes each to float32 [blocks, 1]."""
    numbers = np.ascontiguousarray(stored).view("<f2").astype(np.float32)
    if not np.isfinite(numbers).all():
        raise ValueError("a block without a scale")
    return numbers
