"""What is drafted ahead of a search, so that it takes fewer rows or fewer runs.

As long as a search finds what its draft expects, one hypothesis is enough. What the draft proposes is fed in the same
run as the newest token; the longest prefix of it that the search would have found stands, and the rest leaves the cache
again by `Verdict.keep`. So the result is that of the search without proposals, and with a beam of one that of greedy
search. It is speculative decoding (arXiv 2211.17192). Quantised graphs round a block a little differently than single
steps, the prompt too if a draft goes with it, so there a near-tie may fall the other way, and the probability of no
speech is a little different.

`reference.Follower` drafts from what an earlier round heard, which costs nothing. One that asks another model has the
same three calls; it is told in `follow` and `find` all that it needs to go on from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Draft(Protocol):
    """Proposes tokens, and is told what was accepted."""

    def propose(self, sampled: Sequence[int]) -> tuple[int, ...]:
        """What is likely to come after `sampled`; empty where nobody knows, or nothing is to be fed ahead."""

    def follow(self, token: int) -> bool:
        """Hear the next token of the one hypothesis; returns whether one still is enough (False: the search widens)."""

    def find(self, sampled: Sequence[int]) -> bool:
        """Hear all tokens of the best of several hypotheses; returns whether that one is enough from here on."""
