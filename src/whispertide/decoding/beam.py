"""Beam search with patience, by true top-k, ranked at the end by length-normalised probability.

Finds what `BeamSearchDecoder` and `MaximumLikelihoodRanker` of openai/whisper (decoding.py) find. The first step runs
one row, since all beams are equal there. Impossible continuations (probability zero) are dropped instead of carried
along, so there may be fewer rows than beams. Patience: arXiv 2204.05424. No I/O; the model is behind the requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whispertide.decoding.distribution import best, opening_request, read_opening, step_candidates, step_request
from whispertide.decoding.hypothesis import rank, row_attention, truncation
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import (
    TOP,
    DecodeOutput,
    DecodeRequest,
    Guard,
    Hypothesized,
    SearchResult,
    Steps,
    StopReason,
    Verdict,
)
from whispertide.errors import OptionError
from whispertide.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Beam:
    """A live hypothesis, the row of the last run that it continues, and what its queries attended to."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    total: float
    parent: int
    seen: tuple[FloatArray, ...] = ()

    def close(self, stop: StopReason, keep: int | None = None) -> Hypothesized:
        """The hypothesis as it stands, cut to `keep` tokens (None = all)."""
        total = self.total if keep is None else sum(self.logprobs[:keep])
        return Hypothesized(self.tokens[:keep], self.logprobs[:keep], total, stop, self.seen)


class BeamSearch:
    """The `beam` best hypotheses side by side; ends when `round(beam * patience)` have reached end of text.

    The guards watch the best live beam; when one fires, that beam is cut and ranked among the finished ones.
    """

    def __init__(
        self,
        prompt: Prompt,
        rules: Rules,
        *,
        beam: int,
        patience: float = 1.0,
        length_penalty: float | None = None,
        guards: Sequence[Guard] = (),
    ) -> None:
        self._candidates = round(beam * patience)
        if beam < 1 or self._candidates < 1:
            raise OptionError(f"expected beam >= 1 and beam * patience >= 1; got {beam} and {patience}")
        self._prompt = prompt
        self._rules = rules
        self._beam = beam
        self._length_penalty = length_penalty
        self._guards = guards
        self._live = [Beam((), (), 0.0, 0)]
        self._finished: list[Hypothesized] = []
        self._steps = Steps()
        self._no_speech_prob = float("nan")

    def next(self) -> DecodeRequest:
        """The prompt in one row, then the newest token of every beam behind its parent row."""
        if not self._steps.runs:
            return opening_request(self._prompt)
        rows = [beam.tokens for beam in self._live]
        parents = tuple(beam.parent for beam in self._live)
        return step_request(rows, self._rules, parents=parents, whole=self._beam >= TOP)

    def feed(self, output: DecodeOutput) -> Verdict:
        """Extend all beams and keep the best."""
        if not self._steps.runs:
            self._no_speech_prob, logprobs = read_opening(output, self._rules)
            ids, scores = best(logprobs, self._beam + 1)
        else:
            ids, scores = step_candidates(output, self._rules, self._beam + 1)
        self._steps += Steps.run(len(self._live))
        self._extend(ids, scores, output.attention)
        return Verdict(stop=self._is_over())

    def result(self) -> SearchResult:
        """The best-ranked hypothesis; unfinished beams fill up where fewer than `beam` have finished."""
        stop: StopReason = "length" if self._is_full() else "aborted"
        missing = max(self._beam - len(self._finished), 0)
        unfinished = [beam.close(stop) for beam in self._live[:missing]]
        nothing = [] if self._finished or unfinished else [Hypothesized((), (), -np.inf, "aborted")]
        ranked = rank([*self._finished, *unfinished, *nothing], self._length_penalty)
        return SearchResult(ranked[0], self._no_speech_prob, self._steps, others=ranked[1:])

    def _extend(self, ids: IntArray, scores: FloatArray, attention: FloatArray | None) -> None:
        """Replace the live beams by their best continuations; ids and scores are [rows, beam + 1]."""
        seen = [
            beam.seen if (newest := row_attention(attention, row)) is None else (*beam.seen, newest)
            for row, beam in enumerate(self._live)
        ]
        grown = [
            (row, int(token), float(logprob))
            for row in range(len(self._live))
            for token, logprob in zip(ids[row], scores[row], strict=True)
            if np.isfinite(logprob)
        ]
        grown.sort(key=lambda step: self._live[step[0]].total + step[2], reverse=True)
        survivors: list[Beam] = []
        ended: list[Hypothesized] = []
        for row, token, logprob in grown:
            beam = self._live[row]
            total = beam.total + logprob
            if token == self._rules.vocabulary.eot:
                ended.append(Hypothesized(beam.tokens, beam.logprobs, total, attention=seen[row]))
                continue
            survivors.append(Beam((*beam.tokens, token), (*beam.logprobs, logprob), total, row, seen[row]))
            if len(survivors) == self._beam:
                break
        self._live = survivors
        self._finished += ended[: self._candidates - len(self._finished)]

    def _is_over(self) -> bool:
        if len(self._finished) >= self._candidates or not self._live:
            return True
        leader = self._live[0]
        keep = truncation(self._guards, leader.tokens, leader.seen)
        if keep is None:
            return self._is_full()
        self._finished.append(leader.close("guard", keep))
        self._live = []
        return True

    def _is_full(self) -> bool:
        """Whether the live beams, which are all of one length, are as long as may be."""
        return bool(self._live) and len(self._live[0].tokens) >= self._prompt.limit
