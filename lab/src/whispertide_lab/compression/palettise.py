"""A tensor -> palettes. Outliers are apart, what is left is clustered in groups of rows."""

import math
from collections.abc import Iterator

import numpy as np

from whispertide.checkpoint.palette import Palettised, group_count
from whispertide.checkpoint.weights import Weights
from whispertide.types import IntArray
from whispertide_lab.compression.kmeans import k_means, nearest
from whispertide_lab.compression.packing import gaps_of, pack

OUTLIER_STD = 3.0  # WhisperKit: a weight farther than that from the mean, in standard deviations, is an outlier
ROWS = (4, 8, 16, 32, 64, 128, 256)  # that may share a palette
_PALETTE_SHARE = 32  # palettes take at most one in so many bytes of the indices, if 256 rows are enough for that
_AT_ONCE = 1 << 22  # weights that are clustered at a time
_LARGEST = float(np.finfo(np.float16).max)


def palettise(weight: Weights, bits: int) -> Palettised:
    """A tensor of two dimensions or more as palettes; `bits` of an index.

    Values are rounded to float16 first, as everything in a palette is. Raises ValueError for a tensor that holds no
    finite numbers or nothing at all.
    """
    values = np.clip(np.asarray(weight, np.float32), -_LARGEST, _LARGEST).astype(np.float16)
    if not np.isfinite(weight).all() or not values.size:
        raise ValueError("expected finite weights")
    rows = _rows(values.shape, bits)
    flat = values.reshape(-1)
    far = _outliers(flat)
    palettes = np.zeros((group_count(values.shape, rows), 1 << bits), np.float16)
    indices = np.zeros(flat.size, np.uint8)
    for groups, part in _parts(values.shape, rows):
        group = np.arange(part.stop - part.start) // (rows * math.prod(values.shape[1:]))
        inlier = ~far[part]
        clustered, members = flat[part][inlier].astype(np.float64), group[inlier]
        centres = k_means(clustered, members, groups.stop - groups.start, 1 << bits)
        palettes[groups] = centres
        indices[part][inlier] = nearest(clustered, members, palettes[groups])
    places: IntArray = np.flatnonzero(far)
    return Palettised(
        shape=values.shape,
        bits=bits,
        rows=rows,
        palettes=palettes,
        indices=pack(indices, bits),
        outliers=flat[far],
        gaps=gaps_of(places),
    )


def _rows(shape: tuple[int, ...], bits: int) -> int:
    """How many rows of a tensor of that shape share a palette: as few as make palettes small next to the indices."""
    columns = math.prod(shape[1:])
    palette = 2 * (1 << bits)  # bytes
    enough = (rows for rows in ROWS if rows * columns * bits / 8 >= _PALETTE_SHARE * palette)
    return min(next(enough, ROWS[-1]), shape[0])


def _outliers(values: Weights) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    wide = values.astype(np.float64)
    found: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = np.abs(wide - wide.mean()) > OUTLIER_STD * wide.std()
    return found


def _parts(shape: tuple[int, ...], rows: int) -> Iterator[tuple[slice, slice]]:
    """Some groups at a time, and the weights in them."""
    size, total = rows * math.prod(shape[1:]), math.prod(shape)
    groups, step = group_count(shape, rows), max(1, _AT_ONCE // size)
    for first in range(0, groups, step):
        last = min(first + step, groups)
        yield slice(first, last), slice(first * size, min(last * size, total))
