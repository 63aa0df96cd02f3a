"""k-means of numbers, for many groups at once: sorted once, then each step is a search and a difference of sums.

Deterministic: no seed, the same values give the same centres. Knows nothing of weights.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.types import IntArray

Numbers = npt.NDArray[np.floating[Any]]
Doubles = npt.NDArray[np.float64]

_STEPS = 30
_STILL = 1e-4  # of a group's range: centres that move less have arrived
_LOW, _RANGE = 0.125, 0.75  # where a group's values lie between its number and the next


@dataclass(frozen=True, slots=True)
class _Groups:
    """Values of all groups on one line: those of group g lie between g and g + 1, so that sorting keeps them apart."""

    least: Doubles  # [groups]
    scale: Doubles  # [groups]

    def to_line(self, values: Doubles, group: IntArray) -> Doubles:
        return (values - self.least[group]) * self.scale[group] + (_LOW + group)

    def from_line(self, centres: Doubles) -> Doubles:
        """[groups, k] without the groups' numbers -> in the values' own unit."""
        return (centres - _LOW) / self.scale[:, None] + self.least[:, None]


def k_means(values: Numbers, group: IntArray, groups: int, k: int) -> Doubles:
    """The centres [groups, k], rising, of the values [n] of each group; float64. An empty group has zeros.

    `group` says which group each value belongs to. The squared distance to the nearest centre is at a local minimum
    (Lloyd). Of two beginnings the better is kept: quantiles, and half way between them and an even grid.
    """
    wide = np.asarray(values, np.float64)
    least, most = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(least, group, wide)
    np.maximum.at(most, group, wide)
    empty = least > most
    least[empty], most[empty] = 0.0, 0.0
    span = most - least
    line = _Groups(least, _RANGE / np.where(span > 0, span, 1.0))
    keys = np.sort(line.to_line(wide, group))
    bounds = np.searchsorted(keys, np.arange(groups + 1))
    # a group's number would cost digits of the sums
    within = keys - np.repeat(np.arange(groups), np.diff(bounds))
    sums = np.concatenate(([0.0], np.cumsum(within)))
    share = (np.arange(k) + 0.5) / k
    quantiles = _quantiles(within, bounds, share)
    tried = [_lloyd(first, keys, bounds, sums) for first in (quantiles, 0.5 * (quantiles + _LOW + _RANGE * share))]
    centres = np.where(_explained(tried[0], keys, bounds, sums) > _explained(tried[1], keys, bounds, sums), *tried)
    found = line.from_line(centres)
    found[empty] = 0.0
    return found


def _quantiles(within: Doubles, bounds: IntArray, share: Doubles) -> Doubles:
    counts = np.diff(bounds)[:, None]
    if not len(within):
        return np.zeros((len(counts), len(share)))
    at = bounds[:-1, None] + (share * counts).astype(np.int64)
    return within[np.minimum(at, len(within) - 1)]


def _lloyd(centres: Doubles, keys: Doubles, bounds: IntArray, sums: Doubles) -> Doubles:
    for _ in range(_STEPS):
        moved = _moved(centres, keys, bounds, sums)
        still = np.abs(moved - centres).max(initial=0.0) < _STILL * _RANGE / centres.shape[1]
        centres = moved
        if still:
            break
    return centres


def _moved(centres: Doubles, keys: Doubles, bounds: IntArray, sums: Doubles) -> Doubles:
    """Each centre at the mean of the values that are nearest to it; one without any stays."""
    counts, means = _clusters(centres, keys, bounds, sums)
    return np.where(counts > 0, means, centres)


def _explained(centres: Doubles, keys: Doubles, bounds: IntArray, sums: Doubles) -> Doubles:
    """[groups, 1] the sum of squares less that of the distances to the mean of each cluster: the larger the better."""
    counts, means = _clusters(centres, keys, bounds, sums)
    explained: Doubles = (counts * means**2).sum(axis=1, keepdims=True)
    return explained


def _clusters(centres: Doubles, keys: Doubles, bounds: IntArray, sums: Doubles) -> tuple[IntArray, Doubles]:
    """[groups, k] how many values are nearest to each centre, and their mean."""
    groups = np.arange(len(centres))[:, None]
    between = np.searchsorted(keys, groups + 0.5 * (centres[:, 1:] + centres[:, :-1]))
    edges = np.concatenate((bounds[:-1, None], between, bounds[1:, None]), axis=1)
    counts = np.diff(edges, axis=1)
    return counts, np.diff(sums[edges], axis=1) / np.maximum(counts, 1)


def nearest(values: Numbers, group: IntArray, centres: Numbers) -> IntArray:
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
