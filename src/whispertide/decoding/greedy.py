"""Greedy search (the likeliest token each time) and temperature sampling (several rows, the best one wins).

Source: `GreedyDecoder` in openai/whisper, decoding.py. Rows that have ended are dropped from the batch, which changes
nothing for the others. No I/O; the model is behind the requests.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whispertide.decoding.distribution import (
    best,
    opening_request,
    read_opening,
    step_candidates,
    step_logprobs,
    step_request,
)
from whispertide.decoding.hypothesis import Trail, rank, row_attention
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import DecodeOutput, DecodeRequest, Guard, Hypothesized, SearchResult, Steps, Verdict
from whispertide.types import FloatArray


class GreedySearch:
    """One row, the likeliest token each time, until end of text, a guard, or the limit."""

    candidates = 1  # how many tokens `_choose` sees

    def __init__(self, prompt: Prompt, rules: Rules, *, guards: Sequence[Guard] = ()) -> None:
        self._prompt = prompt
        self._rules = rules
        self._guards = guards
        self._trail = Trail()
        self._steps = Steps()
        self._no_speech_prob = float("nan")
        self._done: Hypothesized | None = None

    def next(self) -> DecodeRequest:
        """The prompt first, then one token at a time."""
        if not self._steps.runs:
            return opening_request(self._prompt)
        return step_request([self._trail.tokens], self._rules)

    def feed(self, output: DecodeOutput) -> Verdict:
        """Take the likeliest token."""
        if not self._steps.runs:
            self._no_speech_prob, logprobs = read_opening(output, self._rules)
            ids, scores = best(logprobs, self.candidates)
        else:
            ids, scores = step_candidates(output, self._rules, self.candidates)
        self._steps += Steps.run(1)
        self._trail.see(row_attention(output.attention, 0))
        self._take(*self._choose(ids[0].tolist(), scores[0].tolist()))
        return Verdict(stop=self._done is not None)

    def result(self) -> SearchResult:
        """The hypothesis found; if the search was broken off, what there was until then."""
        done = self._done or self._trail.close("aborted")
        return SearchResult(done, self._no_speech_prob, self._steps)

    def _choose(self, ids: Sequence[int], logprobs: Sequence[float]) -> tuple[int, float]:
        """The next token of the `candidates` best ones, and its log-probability."""
        return ids[0], logprobs[0]

    def _take(self, token: int, logprob: float) -> None:
        """Let the trail grow by `token`, or end it."""
        eot, limit = self._rules.vocabulary.eot, self._prompt.limit
        self._done = self._trail.take(token, logprob, eot=eot, limit=limit, guards=self._guards)


def sample(logprobs: FloatArray, temperature: float, rng: np.random.Generator) -> list[int]:
    """One token per row from softmax(logprobs / temperature), by inverting the cumulative distribution.

    logprobs [rows, vocab].
    """
    scaled = logprobs.astype(np.float64) / temperature
    cumulative = np.exp(scaled - scaled.max(axis=-1, keepdims=True)).cumsum(axis=-1)
    total = cumulative[:, -1]
    # Strictly below the total, so that a forbidden token behind the last possible one is never drawn.
    draws = np.minimum(rng.random(len(logprobs)) * total, np.nextafter(total, 0))
    return [int(np.searchsorted(row, draw, side="right")) for row, draw in zip(cumulative, draws, strict=True)]


class SamplingSearch:
    """`rows` independent samples at one temperature; the one with the best (length-normalised) probability wins.

    The guards are asked about every row in turn.
    """

    def __init__(
        self,
        prompt: Prompt,
        rules: Rules,
        *,
        temperature: float,
        rows: int,
        rng: np.random.Generator,
        length_penalty: float | None = None,
        guards: Sequence[Guard] = (),
    ) -> None:
        if temperature <= 0 or rows < 1:
            raise ValueError(f"expected temperature > 0 and rows >= 1; got {temperature} and {rows}")
        self._prompt = prompt
        self._rules = rules
        self._temperature = temperature
        self._rows = rows
        self._rng = rng
        self._length_penalty = length_penalty
        self._guards = guards
        self._live = [Trail()]
        self._spread = False  # whether the one row has become `rows`
        self._parents: tuple[int, ...] = (0,)
        self._done: list[Hypothesized] = []
        self._steps = Steps()
        self._no_speech_prob = float("nan")

    def next(self) -> DecodeRequest:
        """The prompt in one row, then the newest token of every row that goes on."""
        if not self._steps.runs:
            return opening_request(self._prompt)
        rows = [trail.tokens for trail in self._live]
        return step_request(rows, self._rules, parents=self._parents, whole=True)

    def feed(self, output: DecodeOutput) -> Verdict:
        """Draw one token for every row, or `rows` tokens where one row becomes so many."""
        if not self._steps.runs:
            self._no_speech_prob, logprobs = read_opening(output, self._rules)
        else:
            logprobs = step_logprobs(output, self._rules)
        self._steps += Steps.run(len(self._live))
        sources: tuple[int, ...] = tuple(range(len(self._live)))
        drawn = self._draw(logprobs)
        if len(drawn) > len(self._live):
            sources = (0,) * len(drawn)
            self._live = [self._live[0].copy() for _ in drawn]
        eot, limit = self._rules.vocabulary.eot, self._prompt.limit
        going_on = []
        for row, (trail, token) in enumerate(zip(self._live, drawn, strict=True)):
            trail.see(row_attention(output.attention, sources[row]))
            logprob = float(logprobs[sources[row], token])
            done = trail.take(token, logprob, eot=eot, limit=limit, guards=self._guards)
            if done is None:
                going_on.append(row)
            else:
                self._done.append(done)
        self._live = [self._live[row] for row in going_on]
        self._parents = tuple(sources[row] for row in going_on)
        return Verdict(stop=not self._live)

    def result(self) -> SearchResult:
        """The best of the rows, and the others behind it."""
        ranked = rank([*self._done, *(trail.close("aborted") for trail in self._live)], self._length_penalty)
        return SearchResult(ranked[0], self._no_speech_prob, self._steps, others=ranked[1:])

    def _draw(self, logprobs: FloatArray) -> list[int]:
        """A token for each row of `logprobs`; for the first one so many as there are to be rows."""
        if not self._spread:
            self._spread = True
            logprobs = np.broadcast_to(logprobs, (self._rows, logprobs.shape[1]))
        return sample(logprobs, self._temperature, self._rng)
