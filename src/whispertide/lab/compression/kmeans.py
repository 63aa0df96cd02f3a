"""k-means of numbers, for many groups at once: sorted once, then each step is a search and a difference of sums.

Deterministic: no seed, the same values give the same centres. Knows nothing of weights.
"""

from dataclasses import dataclass

import numpy as np

from whispertide.types import FloatArray, IntArray

_STEPS = 30
_STILL = 1e-4  # of a group's range: centres that move less have arrived
_LOW, _RANGE = 0.125, 0.75  # where a group's values lie between its number and the next


@dataclass(frozen=True, slots=True)
class _Groups:
    """Values of all groups on one line: those of group g lie between g and g + 1, so that sorting keeps them apart."""

    least: FloatArray  # [groups]
    scale: FloatArray  # [groups]

    def to_line(self, values: FloatArray, group: IntArray) -> FloatArray:
        return (values - self.least[group]) * self.scale[group] + (_LOW + group)

    def from_line(self, centres: FloatArray) -> FloatArray:
        """[groups, k] without the groups' numbers -> in the values' own unit."""
        return (centres - _LOW) / self.scale[:, None] + self.least[:, None]


def k_means(values: FloatArray, group: IntArray, groups: int, k: int) -> FloatArray:
    """The centres [groups, k], rising, of the values [n] of each group; float64. An empty group has zeros.

    `group` says which group each value belongs to. The squared distance to the nearest centre is at a local minimum
    (Lloyd); the first centres are half way between an even grid and quantiles, which is near the best density.
    """
    values = np.asarray(values, np.float64)
    least, most = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(least, group, values)
    np.maximum.at(most, group, values)
    empty = least > most
    least[empty], most[empty] = 0.0, 0.0
    span = most - least
    line = _Groups(least, _RANGE / np.where(span > 0, span, 1.0))
    keys = np.sort(line.to_line(values, group))
    bounds = np.searchsorted(keys, np.arange(groups + 1))
    # a group's number would cost digits of the sums
    within = keys - np.repeat(np.arange(groups), np.diff(bounds))
    sums = np.concatenate(([0.0], np.cumsum(within)))
    centres = _first(within, bounds, k)
    for _ in range(_STEPS):
        moved = _moved(centres, keys, bounds, sums)
        still = np.abs(moved - centres).max(initial=0.0) < _STILL * _RANGE / k
        centres = moved
        if still:
            break
    found = line.from_line(centres)
    found[empty] = 0.0
    return found


def _first(within: FloatArray, bounds: IntArray, k: int) -> FloatArray:
    share = (np.arange(k) + 0.5) / k
    counts = np.diff(bounds)[:, None]
    at = bounds[:-1, None] + (share * counts).astype(np.int64)
    quantiles = within[np.minimum(at, max(0, len(within) - 1))] if len(within) else np.zeros((len(counts), k))
    return 0.5 * (quantiles + _LOW + _RANGE * share)


def _moved(centres: FloatArray, keys: FloatArray, bounds: IntArray, sums: FloatArray) -> FloatArray:
    """Each centre at the mean of the values that are nearest to it; one without any stays."""
    groups = np.arange(len(centres))[:, None]
    between = np.searchsorted(keys, groups + 0.5 * (centres[:, 1:] + centres[:, :-1]))
    edges = np.concatenate((bounds[:-1, None], between, bounds[1:, None]), axis=1)
    counts = np.diff(edges, axis=1)
    means = np.diff(sums[edges], axis=1) / np.maximum(counts, 1)
    return np.where(counts > 0, means, centres)


def nearest(values: FloatArray, group: IntArray, centres: FloatArray) -> IntArray:
    """Which of its group's centres [groups, k], rising, each value is nearest to."""
    groups, k = centres.shape
    least, most = centres[:, 0].astype(np.float64), centres[:, -1].astype(np.float64)
    line = _Groups(least, _RANGE / np.where(most > least, most - least, 1.0))
    middles = 0.5 * (centres[:, 1:].astype(np.float64) + centres[:, :-1])
    number = np.repeat(np.arange(groups), k - 1)
    edges = line.to_line(middles.reshape(-1), number)
    clipped = np.clip(np.asarray(values, np.float64), least[group], most[group])
    found: IntArray = np.searchsorted(edges, line.to_line(clipped, group)) - group * (k - 1)
    return found
