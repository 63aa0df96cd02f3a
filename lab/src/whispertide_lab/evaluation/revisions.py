"""How restless a text is.

Between two views that follow each other a revision is a word replaced, a word removed, or a word put in among those
that stood there; growth at the end is none (the corrections of OpenBench, Argmax). Counted with the fewest revisions
that explain the change, and without regard to case and punctuation. Confirmed words cannot change.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from whispertide_lab.evaluation.views import View, Viewing

Edits = npt.NDArray[np.int64]


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
    edits = np.arange(len(after) + 1)  # to turn nothing into the first n items
    for item in before:
        edits = next_row(edits, new_ids != ids.get(item, -1))
    return int(edits.min())


def next_row(edits: Edits, differs: npt.NDArray[np.bool_]) -> Edits:
    """The fewest edits from a text to every beginning of another one, [items + 1], once an item is added to the text:
    from the row before, as in the table of Wagner and Fischer (1974). `differs` tells from which of the other's items
    the new one does, [items].
    """
    places = np.arange(len(edits))
    best = np.minimum(edits + 1, np.concatenate([edits[:1] + 1, edits[:-1] + differs]))
    longer: Edits = np.minimum.accumulate(best - places) + places  # insertions chain
    return longer


def _revisions(viewing: Viewing, before: View, after: View) -> int:
    """What changed after the words that `before` had confirmed."""
    if not before.tail:
        return 0
    confirmed_since = tuple(viewing.keys[index] for index in viewing.keyed(before.fixed, after.fixed))
    return prefix_distance(before.tail, confirmed_since + after.tail)
