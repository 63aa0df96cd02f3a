"""Drafts from what was said before: where the newest words have been said already, what came after them is proposed.

Nothing is trained, and it costs a look through at most 448 tokens. People repeat names and turns of phrase, and a text
that is read anew repeats what its prompt ends with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whispertide.decoding.draft import Always
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.search import Tree
from whispertide.types import FloatArray

LONGEST, SHORTEST = 4, 2  # tokens that must be the same; one alone says little about the next


@dataclass(frozen=True, slots=True)
class Ngrams:
    """A `draft.Drafter`: at most `width` drafts of `length` tokens; longer matches first, then later ones."""

    width: int = 1
    length: int = 4

    def draft(self, prompt: Prompt) -> NgramDraft:
        """That of a search after `prompt`, which holds what was said before."""
        return NgramDraft(self, prompt.tokens)


class NgramDraft(Always):
    """The draft of one search. Implements `draft.Draft`."""

    wants_hidden = False

    def __init__(self, how: Ngrams, before: Sequence[int]) -> None:
        self._how = how
        self._before = tuple(before)

    def propose(self, sampled: Sequence[int], hidden: FloatArray | None = None) -> Tree:
        """What came after the same tokens earlier."""
        said = (*self._before, *sampled)
        places: list[int] = []
        for place in matches(said):
            if place not in places:
                places.append(place)
            if len(places) == self._how.width:
                break
        return Tree.merged(said[place : place + self._how.length] for place in places)


def matches(said: Sequence[int]) -> Iterator[int]:
    """The places after earlier copies of the end of `said`; longer copies first, and of one length later ones."""
    for size in range(min(LONGEST, len(said) - 1), SHORTEST - 1, -1):
        end = tuple(said[-size:])
        for place in range(len(said) - 1, size - 1, -1):
            # The last token first: slices are only made where that is the same.
            if said[place - 1] == end[-1] and tuple(said[place - size : place]) == end:
                yield place
