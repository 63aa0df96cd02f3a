"""Stretches of unlikely words: in noise a model writes sentences that nobody said.

A single unlikely word is often right, above all one that is said alone; of four in a row that are unlikely on average
few are. So the first word of an utterance always stays. Ours; what it costs and gains is in docs/LOG.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from whispertide.streaming.choice import setting
from whispertide.streaming.round import Commit
from whispertide.types import Word

BEFORE = 3  # a word's stretch has so many words before it
AFTER = 1  # and so many after it
LEAST = 3  # a shorter stretch tells nothing


def drop_below_setting() -> float:
    """The setting of a policy that leaves unlikely words out."""
    return setting(
        0.0,
        "words that are less likely are left out, if they, the three words before and the one after are so on average, "
        "too: in noise most of these were not said (0 = none are)",
        least=0,
        most=1,
    )


def without_unlikely(
    words: Sequence[Word], below: float, *, before: Sequence[float] = (), after: Sequence[Word] = ()
) -> tuple[Word, ...]:
    """`words` without those that are less likely than `below` and stand in a stretch whose mean is below it, too.

    `before` are the probabilities of the words before them, `after` the words that follow.
    """
    known = [*before, *(word.probability for word in (*words, *after))]
    stretches = [known[max(0, at - BEFORE) : at + AFTER + 1] for at in range(len(before), len(before) + len(words))]
    return tuple(word for word, stretch in zip(words, stretches, strict=True) if not _is_unlikely(word, stretch, below))


class Remembers(Protocol):
    """A policy's state that keeps the probabilities of the last confirmed words."""

    chances: tuple[float, ...]


def written(verdict: Commit, guess: Sequence[Word], state: Remembers, below: float) -> Commit:
    """A policy's verdict without unlikely words. `guess` is all that follows the confirmed words, shown or not; `state`
    remembers how likely all confirmed words were.
    """
    said = without_unlikely(verdict.confirmed, below, before=state.chances, after=guess)
    state.chances = (*state.chances, *(word.probability for word in verdict.confirmed))[-BEFORE:]
    shown = without_unlikely(verdict.hypothesis, below, before=state.chances)
    return replace(verdict, confirmed=said, hypothesis=shown)


def _is_unlikely(word: Word, stretch: Sequence[float], below: float) -> bool:
    return word.probability < below and len(stretch) >= LEAST and sum(stretch) < below * len(stretch)
