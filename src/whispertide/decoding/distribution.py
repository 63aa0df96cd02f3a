"""From a decoder run to log-probabilities under the rules: the request and the reading of each kind of step.

The first request carries the whole prompt and is read in full precision of the vocabulary, because the no-speech
probability is taken *before* any suppression (openai/whisper, `DecodingTask._main_loop`). Later requests let the graph
suppress and, where the rules allow it, pick the best few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules, log_softmax
from whispertide.decoding.search import TOP, DecodeOutput, DecodeRequest
from whispertide.types import FloatArray, IntArray

Array = TypeVar("Array", FloatArray, IntArray)


def opening_request(prompt: Prompt, draft: tuple[int, ...] = ()) -> DecodeRequest:
    """Feed the whole prompt and a `draft` behind it; ask for the raw logits at start-of-transcript, at the prompt's
    end and along the draft.
    """
    tokens = (*prompt.tokens, *draft)
    positions = range(len(prompt.tokens) - 1, len(tokens))
    at = (*positions,) if prompt.sot_index in positions else (prompt.sot_index, *positions)
    return DecodeRequest(tokens=np.array([tokens], dtype=np.int64), logits_at=at, need="logits", draft=len(draft))


def no_speech(output: DecodeOutput, rules: Rules) -> float:
    """The no-speech probability, after an opening."""
    return float(np.exp(log_softmax(required(output.logits, "logits")[0, 0])[rules.vocabulary.no_speech]))


def read_opening(output: DecodeOutput, rules: Rules) -> tuple[float, FloatArray]:
    """The no-speech probability, and the log-probabilities [1, vocab] of the first token under the rules."""
    logits = required(output.logits, "logits")[0]
    return no_speech(output, rules), rules.log_probabilities(logits[-1:] + rules.suppression([()]))


def step_request(
    rows: Sequence[Sequence[int]], rules: Rules, *, parents: tuple[int, ...] | None = None, whole: bool = False
) -> DecodeRequest:
    """Feed the newest token of each row of sampled tokens. `whole` asks for the whole distribution in any case."""
    return DecodeRequest(
        tokens=np.array([[sampled[-1]] for sampled in rows], dtype=np.int64),
        logits_at=(0,),
        parents=parents,
        suppress=rules.suppression(rows),
        need="logits" if whole else rules.need,
    )


def step_logprobs(output: DecodeOutput, rules: Rules) -> FloatArray:
    """[rows, vocab] log-probabilities after a step that asked for the whole distribution."""
    return rules.log_probabilities(required(output.logits, "logits")[:, 0])


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


def step_candidates(output: DecodeOutput, rules: Rules, count: int) -> tuple[IntArray, FloatArray]:
    """The `count` best next tokens of each row after any step: ids and log-probabilities, [rows, count] each."""
    if output.logits is not None:
        return best(step_logprobs(output, rules), count)
    if count > TOP:
        raise ValueError(f"the graph returns {TOP} candidates; {count} need a request for the whole distribution")
    ids, logprobs = required(output.top_ids, "top_ids")[:, 0], required(output.top_logprobs, "top_logprobs")[:, 0]
    if rules.timestamps:
        ids, logprobs = _times_or_text(output, ids, logprobs, rules.vocabulary.timestamp_begin)
    return ids[:, :count], logprobs[:, :count]


def _times_or_text(
    output: DecodeOutput, ids: IntArray, logprobs: FloatArray, timestamp_begin: int
) -> tuple[IntArray, FloatArray]:
    """The rule `timestamp_outweighs_text` on candidates [rows, TOP] alone.

    If no text is among them, ten timestamps are each likelier than any text, and so is their sum.
    """
    mass = required(output.time_mass, "time_mass")[:, 0]
    text = np.where(ids < timestamp_begin, logprobs, -np.inf).max(axis=-1)
    forced = (mass > text)[:, None]
    times = required(output.time_ids, "time_ids")[:, 0]
    # among timestamps alone, probabilities are shares of their mass
    with np.errstate(invalid="ignore"):
        shares = required(output.time_logprobs, "time_logprobs")[:, 0] - mass[:, None]
    return np.where(forced, times, ids), np.where(forced, shares, logprobs)


def required(array: Array | None, name: str) -> Array:
    """`array`, or a `ValueError` naming the part of the output that the decoder left out."""
    if array is None:
        raise ValueError(f"expected the decoder output to hold {name}, as the request asked; it does not")
    return array
