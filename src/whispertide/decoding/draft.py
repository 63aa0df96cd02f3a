"""What is drafted ahead of a search, so that it takes fewer rows or fewer runs.

As long as a search finds what its draft expects, one hypothesis is enough. What the draft proposes is fed in the same
run as the newest token; the longest prefix of it that the search would have found stands, and the rest leaves the cache
again by `Verdict.keep`. So the result is that of the search without proposals, and with a beam of one that of greedy
search. It is speculative decoding (arXiv 2211.17192). What is proposed may be a tree: several drafts that share their
beginnings, of which one path can stand. A drafted token attends to those in front of it on its own path alone, so one
run verifies all of them (arXiv 2403.09919).

Quantised graphs round a block a little differently than single steps, the prompt too if a draft goes with it, so there
a near-tie may fall the other way, and the probability of no speech is a little different.

`reference.Follower` drafts from what an earlier round heard, `ngrams` from what was said before, which cost nothing;
`recurrent` asks a small network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from whispertide.decoding.prompt import Prompt
from whispertide.types import FloatArray

ROOT = -1  # the newest token, from which drafts go on


@dataclass(frozen=True, slots=True)
class Tree:
    """Drafts that share their beginnings.

    tokens   what is drafted
    parents  the place of the token that each comes after, which stands before it; `ROOT`: the newest one
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()

    @classmethod
    def chain(cls, tokens: Sequence[int]) -> Self:
        """One draft alone."""
        return cls(tuple(tokens), tuple(range(ROOT, len(tokens) - 1)))

    @classmethod
    def merged(cls, drafts: Iterable[Sequence[int]]) -> Self:
        """Several drafts, the likeliest first."""
        places: dict[tuple[int, int], int] = {}  # (parent, token) -> place
        for draft in drafts:
            parent = ROOT
            for token in draft:
                parent = places.setdefault((parent, token), len(places))
        return cls(tuple(token for _, token in places), tuple(parent for parent, _ in places))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Whether each token comes after the one before it."""
        return self.parents == tuple(range(ROOT, len(self.tokens) - 1))

    def child(self, parent: int, token: int) -> int | None:
        """The place of `token` after `parent`, if it is drafted there."""
        for place, drafted in enumerate(self.tokens):
            if drafted == token and self.parents[place] == parent:
                return place
        return None

    def cut(self, depth: int) -> Tree:
        """Its first `depth` levels."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        kept = [place for place, level in enumerate(depths) if level <= depth]
        renamed = {ROOT: ROOT} | {place: number for number, place in enumerate(kept)}
        return Tree(tuple(self.tokens[place] for place in kept), tuple(renamed[self.parents[place]] for place in kept))


NO_DRAFT = Tree()


class Draft(Protocol):
    """Proposes tokens, and is told what was accepted."""

    @property
    def wants_hidden(self) -> bool:
        """Whether it goes on from the decoder's hidden states."""

    def propose(self, sampled: Sequence[int], hidden: FloatArray | None = None) -> Tree:
        """What is likely to come after `sampled`; empty where nobody knows, or nothing is to be fed ahead.

        `hidden` [width] is the decoder's hidden state that predicted the last token of `sampled`, if it is wanted; None
        before the first run.
        """

    def follow(self, token: int) -> bool:
        """Hear the next token of the one hypothesis; returns whether one still is enough (False: the search widens)."""

    def find(self, sampled: Sequence[int]) -> bool:
        """Hear all tokens of the best of several hypotheses; returns whether that one is enough from here on."""


class Drafter(Protocol):
    """Makes the draft of one search: a value that any number of searches share."""

    def draft(self, prompt: Prompt) -> Draft:
        """That of a search after `prompt`."""


class Always:
    """What a `Draft` says whose search is to have one hypothesis, whatever that finds."""

    def follow(self, token: int) -> bool:
        """One is enough."""
        return True

    def find(self, sampled: Sequence[int]) -> bool:
        """One is enough."""
        return True


class InTurn(Always):
    """What the first draft proposes, and where that proposes nothing, what the second does; for one hypothesis."""

    def __init__(self, first: Draft, second: Draft) -> None:
        self._first, self._second = first, second
        self.wants_hidden = first.wants_hidden or second.wants_hidden

    def propose(self, sampled: Sequence[int], hidden: FloatArray | None = None) -> Tree:
        """Of whichever knows."""
        return self._first.propose(sampled, hidden) or self._second.propose(sampled, hidden)

    def follow(self, token: int) -> bool:
        """Both hear it."""
        self._first.follow(token)
        self._second.follow(token)
        return True


def in_turn(first: Draft | None, second: Draft | None) -> Draft | None:
    """Both, or the one there is."""
    return InTurn(first, second) if first is not None and second is not None else first or second
