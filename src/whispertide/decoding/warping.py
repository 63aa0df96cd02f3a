"""From attention to times: time warping over the cross-attention of some heads. Arithmetic on arrays, and nothing else.

Source: openai/whisper, timing.py (`find_alignment`, `dtw`). DTW here takes the cheapest step always; the original, on
an exact tie between its first two choices, takes the third even if it is dearer.
"""

import numpy as np

from whispertide.types import FloatArray, IntArray

MEDIAN_WIDTH = 7  # encoder frames
_REACH = MEDIAN_WIDTH // 2
# Compare-exchanges that bring the median of seven to the middle (J. L. Smith, Xcell 23, 1996). Done on whole arrays
# this is seven times faster than a partial sort along an axis of seven; few rows at once stay in the processor's cache.
_MEDIAN_NETWORK = (
    *((0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6)),
    *((2, 3), (3, 6), (4, 5), (1, 4), (1, 3), (3, 4)),
)
_ROWS_AT_ONCE = 16


def sharpen(attention: FloatArray, first: int = 0) -> FloatArray:
    """Attention [heads, tokens, frames] -> [tokens - first, frames]: what each token from `first` on attends to more
    than other tokens do.

    Rows are made to sum to one over the given frames, then standardised over all tokens, smoothed by a median over
    time, and averaged over the heads. A frame that all tokens attend to alike says nothing and becomes 0.
    """
    # What attends to padding is not among the given frames, so a row may sum to less than one.
    weights = attention / np.maximum(attention.sum(axis=-1, keepdims=True), np.finfo(np.float32).tiny)
    mean = weights.mean(axis=-2, keepdims=True)
    centred, spread = weights[:, first:] - mean, weights.std(axis=-2, keepdims=True, mean=mean)
    scores = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    return np.asarray(median_filter(scores).mean(axis=0), dtype=np.float32)


def median_filter(values: FloatArray) -> FloatArray:
    """Running median of seven over the last axis, mirrored at the ends; an axis of three or fewer is left as it is."""
    length = values.shape[-1]
    if length <= _REACH:
        return values
    rows = values.reshape(-1, length)
    result = np.empty_like(rows)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        # By hand: `np.pad` takes longer than the median of a short window.
        padded = np.concatenate([some[:, _REACH:0:-1], some, some[:, -2 : -_REACH - 2 : -1]], axis=1)
        lanes = [padded[:, shift : shift + length] for shift in range(MEDIAN_WIDTH)]
        for low, high in _MEDIAN_NETWORK:
            # Both from the old values: assigned one after the other, the second would see the first.
            lanes[low], lanes[high] = np.minimum(lanes[low], lanes[high]), np.maximum(lanes[low], lanes[high])
        result[first : first + _ROWS_AT_ONCE] = lanes[_REACH]
    return result.reshape(values.shape)


def warp(cost: FloatArray) -> IntArray:
    """Dynamic time warping: the first column of each row's stretch on the cheapest path from corner to corner.

    cost [rows, columns] -> [rows]; of scores, their negatives. Steps: diagonal, down, right; equal costs prefer right,
    then down.
    """
    total = _accumulated(cost)
    right, down, diagonal = total[1:, :-1], total[:-1, 1:], total[:-1, :-1]
    by_right = (right <= down) & (right <= diagonal)
    by_down = ~by_right & (down <= diagonal)
    steps = np.where(by_right, _RIGHT, np.where(by_down, _DOWN, _DIAGONAL)).astype(np.uint8)
    rows, columns = cost.shape
    # The path is walked cell by cell, and bytes are indexed faster than an array.
    flat = steps.tobytes()
    starts = np.zeros(rows, dtype=np.int64)
    row, column = rows - 1, columns - 1
    # The first row's stretch begins where the path does: in column 0.
    while row > 0:
        # In the first column there is no other way.
        step = flat[row * columns + column] if column > 0 else _DOWN
        if step == _RIGHT:
            column -= 1
            continue
        starts[row] = column
        row -= 1
        column -= step == _DIAGONAL
    return starts


_DIAGONAL, _DOWN, _RIGHT = 0, 1, 2


def _accumulated(cost: FloatArray) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Cost of the cheapest path to every cell, [rows + 1, columns + 1] with an infinite border.

    A row at a time: going right from column k to j costs the difference of the row's running sums, so the best way to
    enter a row is a running minimum of (cost of entering at k - sum before k).
    """
    rows, columns = cost.shape
    # In double precision, because running sums are taken away from each other.
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    sums = cost.astype(np.float64).cumsum(axis=1)
    for row in range(rows):
        above = total[row]
        # From the row above: diagonally, or straight down.
        entry = np.minimum(above[:-1], above[1:])
        entry[1:] -= sums[row, :-1]
        np.minimum.accumulate(entry, out=entry)
        np.add(entry, sums[row], out=total[row + 1, 1:])
    return total
