"""A tensor as palettes: every weight is the number of an entry in a small table of float16 values, outliers apart.

Rows of the tensor (its first dimension) share a palette in groups. The few weights far from the mean are no part of
that: they are kept as they are, with the places where they belong. Knows nothing of files, nor how palettes are chosen.
Source: outlier-decomposed mixed-bit palettisation, WhisperKit (2025), section 2.2.2.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BITS = (1, 2, 3, 4, 6, 8)  # of an index; each divides 24

Bytes = npt.NDArray[np.uint8]
Halves = npt.NDArray[np.float16]
Places = npt.NDArray[np.int64]

UNIT_BITS, UNIT_BYTES = 24, 3  # indices are packed into units of three bytes, the lowest bits first
FAR = 255  # a gap that goes on in the next byte
_AT_ONCE = 1 << 20  # weights that are looked up at a time


@dataclass(frozen=True, slots=True)
class Palettised:
    """One tensor.

    shape     of the tensor; its rows are the first dimension
    bits      of an index
    rows      that share a palette; the last group may have fewer
    palettes  [groups, 2 ** bits] the values that indices stand for
    indices   packed, in C order; `packed_length` bytes
    outliers  [n] the weights that are kept as they are
    gaps      where those are: see `places_of`
    """

    shape: tuple[int, ...]
    bits: int
    rows: int
    palettes: Halves
    indices: Bytes
    outliers: Halves
    gaps: Bytes

    @property
    def nbytes(self) -> int:
        """Bytes that the tensor takes in a file."""
        return self.palettes.nbytes + self.indices.nbytes + self.outliers.nbytes + self.gaps.nbytes

    def check(self) -> None:
        """Raise ValueError with the reason, unless the parts fit together and hold finite numbers."""
        if self.bits not in BITS or not self.shape or self.rows < 1:
            raise ValueError(f"{self.bits} bits, shape {list(self.shape)}, {self.rows} rows to a palette")
        palettes = (group_count(self.shape, self.rows), 1 << self.bits)
        if self.palettes.shape != palettes:
            raise ValueError(f"expected palettes of shape {list(palettes)}, found {list(self.palettes.shape)}")
        packed = packed_length(math.prod(self.shape), self.bits)
        if self.indices.shape != (packed,):
            raise ValueError(f"expected {packed} bytes of indices, found {list(self.indices.shape)}")
        if self.outliers.ndim != 1 or self.gaps.ndim != 1:
            raise ValueError("outliers and their gaps are not lists")
        places = places_of(self.gaps)
        if len(places) != len(self.outliers):
            raise ValueError(f"{len(self.outliers)} outliers with {len(places)} places")
        if len(places) and places[-1] >= math.prod(self.shape):
            raise ValueError(f"an outlier at {places[-1]} of {math.prod(self.shape)} weights")
        if not (np.isfinite(self.palettes).all() and np.isfinite(self.outliers).all()):
            raise ValueError("values that are not finite numbers")

    def values(self) -> Halves:
        """Decode the tensor as float16, the type of palettes and outliers."""
        rows, columns = self.shape[0], math.prod(self.shape[1:])
        indices = unpack(self.indices, self.bits, rows * columns).reshape(rows, columns)
        # Where each row's palette begins, if all of them lie one after the other.
        starts = (np.arange(rows) // self.rows) << self.bits
        table = self.palettes.reshape(-1)
        found = np.empty((rows, columns), np.float16)
        step = max(1, _AT_ONCE // max(1, columns))
        # Part by part, because index and beginning together take eight bytes for each weight.
        for at in range(0, rows, step):
            part = slice(at, at + step)
            np.take(table, indices[part] + starts[part, None], out=found[part])
        found.reshape(-1)[places_of(self.gaps)] = self.outliers
        return found.reshape(self.shape)


def group_count(shape: tuple[int, ...], rows: int) -> int:
    """The number of palettes of a tensor whose rows share one in groups."""
    return -(-shape[0] // rows)


def packed_length(count: int, bits: int) -> int:
    """Bytes of so many packed indices."""
    return -(-count * bits // UNIT_BITS) * UNIT_BYTES


def unpack(packed: Bytes, bits: int, count: int) -> Bytes:
    """Unpack the first `count` indices below 2 ** bits. Index i of a unit of 24 bits has the bits from i * bits on."""
    parts = packed.reshape(-1, UNIT_BYTES).astype(np.uint32)
    units = parts[:, 0] | parts[:, 1] << np.uint32(8) | parts[:, 2] << np.uint32(16)
    per_unit, mask = UNIT_BITS // bits, np.uint32((1 << bits) - 1)
    found = np.empty((len(units), per_unit), np.uint8)
    for at in range(per_unit):
        found[:, at] = (units >> np.uint32(at * bits)) & mask
    return found.reshape(-1)[:count]


def places_of(gaps: Bytes) -> Places:
    """Decode gaps to rising positions in a flat tensor. A gap is the number of weights in between: a byte, after a 255
    for every 255 of them.

    The paper's bitmap takes one bit for every weight. With 3 outliers in a thousand this takes a twentieth of that.
    """
    goes_on = gaps == FAR
    # A gap counts the weights in between, so the outlier itself is one more.
    ends: Places = np.cumsum(np.where(goes_on, FAR, gaps.astype(np.int64) + 1))
    found: Places = ends[~goes_on] - 1
    return found
