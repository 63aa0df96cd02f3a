"""How restless a text is.

Between two views that follow each other a revision is a word replaced, a word removed, or a word put in among those
that stood there; growth at the end is none (the corrections of OpenBench, Argmax). Counted with the fewest revisions
that explain the change, and without regard to case and punctuation. Confirmed words cannot change.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from whispertide.lab.evaluation.views import View, Viewing


def revisions(viewing: Viewing) -> int:
    """Revisions over all views."""
    return sum(_revisions(viewing, before, after) for before, after in pairwise(viewing.views))


def prefix_distance(before: Sequence[str], after: Sequence[str]) -> int:
    """The fewest replaced, removed and inserted items that turn `before` into a beginning of `after`."""
    same = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        same += 1
    before, after = before[same:], after[same:]
    if not before:
        return 0
    ids: dict[str, int] = {}
    new_ids = np.array([ids.setdefault(item, len(ids)) for item in after], dtype=np.int64)
    ladder = np.arange(len(after) + 1)
    costs = ladder  # to turn nothing into the first n items
    for count, item in enumerate(before, 1):
        replaced = costs[:-1] + (new_ids != ids.get(item, -1))
        step = np.concatenate([[count], np.minimum(costs[1:] + 1, replaced)])
        costs = np.minimum.accumulate(step - ladder) + ladder  # insertions chain
    return int(costs.min())


def _revisions(viewing: Viewing, before: View, after: View) -> int:
    """What changed after the words that `before` had confirmed."""
    if not before.tail:
        return 0
    confirmed_since = tuple(viewing.keys[index] for index in viewing.keyed(before.fixed, after.fixed))
    return prefix_distance(before.tail, confirmed_since + after.tail)
