"""What a text begins with, decided once more when all of it is known.

A network that names the intent first names it before it has written the words, and a search that follows a pilot keeps
the pilot's intent, which that heard half of the command for. So each of the likely first tokens is scored with the
whole text after it. (Ours; docs/pilot.md.)
"""

from dataclasses import replace

import numpy as np

from whispertide.decoding.ctc_prefix import Sums, empty, longer_totals
from whispertide.decoding.hybrid import END, Found, HybridOptions, S, Scorer
from whispertide.types import IntArray

_LIKELY = 6  # first tokens that are scored


def with_best_first(found: Found, scores: Sums, scorer: Scorer[S], firsts: IntArray, options: HybridOptions) -> Found:
    """The text with the first token, one of `firsts`, that decoder and CTC find likeliest together.

    Texts that do not begin with one of these stay. CTC is asked about the first token alone: how likely it finds the
    rest is taken to be the same.
    """
    best = found.best
    if not best.tokens or best.tokens[0] not in firsts:
        return found
    # Stable, so that ties fall alike everywhere.
    likely = firsts[np.argsort(-found.first[firsts], kind="stable")[:_LIKELY]]
    # Without doubles: the text's own first token may be one of the likely ones.
    chosen = np.unique([*likely, best.tokens[0]])
    texts = np.array([(END, first, *best.tokens[1:]) for first in chosen])
    read, _ = scorer.read(texts)
    follow = np.concatenate([texts[:, 1:], np.full((len(texts), 1), END)], axis=1)
    said = np.take_along_axis(read, follow[..., None], axis=2)[..., 0].astype(np.float64)
    if not best.ended:  # it was cut off, so nobody said that it ends
        said = said[:, :-1]
    begun = longer_totals(scores, empty(scores), chosen[None])[0]
    totals = options.weighed(said.sum(axis=1), begun)
    at, own = int(totals.argmax()), int(np.flatnonzero(chosen == best.tokens[0])[0])
    counted = replace(found, runs=found.runs + 1, rows=found.rows + len(texts))
    if at == own:
        return counted
    better = replace(
        best,
        tokens=tuple(texts[at, 1:].tolist()),
        said=tuple(said[at].tolist()),
        score=best.score + float(totals[at] - totals[own]),
    )
    # CTC's sums are those of the old beginning, which no later search may take over.
    return replace(counted, best=better, sums=())
