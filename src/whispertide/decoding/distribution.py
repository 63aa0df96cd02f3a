"""From a decoder run to log-probabilities under the rules: the request and the reading of each kind of step.

The first request carries the whole prompt and is read in full precision of the vocabulary, because the no-speech
probability is taken *before* any suppression (openai/whisper, `DecodingTask._main_loop`). Later requests let the graph
suppress and, where the rules allow it, pick the best few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from whispertide.decoding.draft import NO_DRAFT, Tree
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules, log_softmax
from whispertide.decoding.search import TOP, DecodeOutput, DecodeRequest
from whispertide.types import FloatArray, IntArray

Array = TypeVar("Array", FloatArray, IntArray)


def opening_request(prompt: Prompt, draft: Tree = NO_DRAFT, *, hidden: bool = False) -> DecodeRequest:
    """Feed the whole prompt and a `draft` after it; ask for the raw logits at start-of-transcript, at the prompt's
    end and along the draft.
    """
    tokens = (*prompt.tokens, *draft.tokens)
    positions = range(len(prompt.tokens) - 1, len(tokens))
    at = (*positions,) if prompt.sot_index in positions else (prompt.sot_index, *positions)
    return DecodeRequest(
        tokens=np.array([tokens], dtype=np.int64),
        logits_at=at,
        need="logits",
        draft=len(draft),
        follows=_follows(len(prompt.tokens), draft),
        hidden=hidden,
    )


def step_request(
    rows: Sequence[Sequence[int]],
    rules: Rules,
    *,
    parents: tuple[int, ...],
    whole: bool = False,
    draft: Tree = NO_DRAFT,
    hidden: bool = False,
) -> DecodeRequest:
    """Feed the newest token of each row of sampled tokens, and after that of a single row a `draft`.

    `whole` asks for the whole distribution in any case.
    """
    if draft and rules.timestamps:  # every place of the draft forbids other tokens, but the graph suppresses by row
        whole, suppress = True, None
    else:
        suppress = rules.suppression(rows)
    return DecodeRequest(
        tokens=np.array([[sampled[-1], *draft.tokens] for sampled in rows], dtype=np.int64),
        logits_at=tuple(range(len(draft) + 1)),
        parents=parents,
        suppress=suppress,
        need="logits" if whole else rules.need,
        draft=len(draft),
        follows=_follows(1, draft),
        hidden=hidden,
    )


def _follows(before: int, draft: Tree) -> tuple[int, ...] | None:
    """Which token each of a request comes after: `before` of them in a row, then a draft; None where all are a row."""
    if draft.is_chain:
        return None
    return (*range(-1, before - 1), *(before + parent for parent in draft.parents))


def no_speech(output: DecodeOutput, rules: Rules) -> float:
    """The no-speech probability, after an opening."""
    if output.logits is None:
        return output.no_speech_prob
    return float(np.exp(log_softmax(output.logits[0, 0])[rules.vocabulary.no_speech]))


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of the token after one place of a run, for each row, under the rules.

    place  counted from the end of the places that were asked for, so -1 is the last
    rows   the tokens sampled before it
    raw    whether the decoder was not asked to suppress
    """

    output: DecodeOutput
    place: int
    rows: Sequence[Sequence[int]]
    rules: Rules
    raw: bool

    def logprobs(self) -> FloatArray:
        """[rows, vocab] log-probabilities, where the whole distribution was asked for."""
        logits = required(self.output.logits, "logits")[:, self.place]
        return self.rules.log_probabilities(logits + self.rules.suppression(self.rows) if self.raw else logits)

    def best(self, count: int) -> tuple[IntArray, FloatArray]:
        """The `count` best tokens of each row: ids and log-probabilities, [rows, count or fewer] each."""
        output = self.output
        if output.logits is not None:
            return best(self.logprobs(), count)
        if count > TOP:
            raise ValueError(f"the graph returns {TOP} candidates; {count} need a request for the whole distribution")
        ids = required(output.top_ids, "top_ids")[:, self.place]
        logprobs = required(output.top_logprobs, "top_logprobs")[:, self.place]
        if self.rules.timestamps:
            ids, logprobs = self._times_or_text(ids, logprobs)
        return ids[:, :count], logprobs[:, :count]

    def _times_or_text(self, ids: IntArray, logprobs: FloatArray) -> tuple[IntArray, FloatArray]:
        """The rule `timestamp_outweighs_text` on candidates [rows, TOP] alone.

        If no text is among them, ten timestamps are each likelier than any text, and so is their sum.
        """
        mass = required(self.output.time_mass, "time_mass")[:, self.place]
        text = np.where(ids < self.rules.vocabulary.timestamp_begin, logprobs, -np.inf).max(axis=-1)
        forced = (mass > text)[:, None]
        times = required(self.output.time_ids, "time_ids")[:, self.place]
        # among timestamps alone, probabilities are shares of their mass
        with np.errstate(invalid="ignore"):
            shares = required(self.output.time_logprobs, "time_logprobs")[:, self.place] - mass[:, None]
        return np.where(forced, times, ids), np.where(forced, shares, logprobs)


def best(logprobs: FloatArray, count: int) -> tuple[IntArray, FloatArray]:
    """The `count` best ids of each row and their log-probabilities, best first: [rows, count] each.

    A few passes of argmax are several times faster than a partial sort of 50,000 values.
    """
    rows = np.arange(len(logprobs))
    left = logprobs if count == 1 else logprobs.copy()
    ids = np.empty((len(rows), count), dtype=np.int64)
    for place in range(count):
        ids[:, place] = left.argmax(axis=-1)
        if place + 1 < count:
            left[rows, ids[:, place]] = -np.inf
    return ids, np.take_along_axis(logprobs, ids, axis=-1)


def required(array: Array | None, name: str) -> Array:
    """`array`, or a `ValueError` naming the part of the output that the decoder left out."""
    if array is None:
        raise ValueError(f"expected the decoder output to hold {name}, as the request asked; it does not")
    return array
