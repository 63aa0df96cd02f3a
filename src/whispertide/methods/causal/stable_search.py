"""A search that goes on from what it found when there was less audio: tokens that still hold stay, the others go.

First the newest tokens of every earlier hypothesis are scored again, with the audio that has come since. One is stable
where it is still among the best of its place, or no less likely than before. All hypotheses are cut where the first
unstable token of the best stands, and from there it is an ordinary search: greedy with one row, else a beam. So what is
new is as good as that search can make it with the audio so far, given the tokens in front of the newest ones. A beam
ends when a hypothesis has ended that is likelier than all that go on: the first that ends is often a bad one. Then the
best is the one with the highest mean log-probability, as in the paper: by the sum early ends would win.

The whole text is fed anew, because what a cache would hold was computed with less audio. That is one run, and exact.
Source: WhisperRT (arXiv 2508.12301). Its code compares raw logits, which mean nothing from one run to the next, and
pads a hypothesis where a token was unstable; here it is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from whispertide.decoding.accept import Accept
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Distribution, Rules, best, no_speech
from whispertide.decoding.search import Guard, Hypothesis, Hypothesized, SearchResult, Verdict
from whispertide.decoding.token_search import TokenSearch
from whispertide.model.engine import DecodeOutput, DecodeRequest, required
from whispertide.types import FloatArray

# "either": among the best, or no less likely than before (the paper's greedy search); "both" (its beam search today);
# "best": among the best (its beam search of 2025)
Rule = Literal["either", "both", "best"]


@dataclass(frozen=True, slots=True)
class Scored:
    """The result of an earlier search: tokens after the prompt, and how likely each was then, as log-probabilities."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]

    @classmethod
    def of(cls, hypothesis: Hypothesized) -> Scored:
        """All of it, without the end of text."""
        return cls(hypothesis.tokens, hypothesis.logprobs[: len(hypothesis.tokens)])

    def cut(self, length: int) -> Scored:
        """Its first `length` tokens."""
        return Scored(self.tokens[:length], self.logprobs[:length])


class StableSearch:
    """Goes on from `earlier` hypotheses, of which the `last` tokens are scored again by `rule`.

    After that first run it is the `TokenSearch` that it has, and without earlier text from the start. The first of
    `earlier` is the best: of the others those take part that are as long and as stable.
    """

    def __init__(
        self,
        prompt: Prompt,
        rules: Rules,
        accept: Accept,
        earlier: Sequence[Scored] = (),
        *,
        last: int = 2,
        rule: Rule = "either",
        guards: Sequence[Guard] = (),
    ) -> None:
        self._search = TokenSearch(prompt, rules, accept, guards=guards)
        self._prompt = prompt
        self._rules = rules
        self._beam = accept.rows
        length = len(earlier[0].tokens) if earlier else 0
        long = [each for each in earlier if len(each.tokens) >= length]
        unique = {each.tokens[:length]: each.cut(length) for each in reversed(long)}  # the first of equals stays
        self._earlier = tuple(unique.values())[::-1]
        self._length = length
        self._rescores = length > 0  # in the next run
        self._last = min(last, length)
        self._rule = rule

    def next(self) -> DecodeRequest:
        """At first the prompt with every earlier hypothesis, then as any search."""
        if not self._rescores:
            return self._search.next()
        before = self._prompt.tokens
        rows = np.array([(*before, *each.tokens) for each in self._earlier], dtype=np.int64)
        places = range(rows.shape[1] - 1 - self._last, rows.shape[1])
        # The no-speech probability is that of sot's own query.
        at = (*places,) if self._prompt.sot_index in places else (self._prompt.sot_index, *places)
        return DecodeRequest(rows, at, parents=(0,) * len(rows), need="logits", draft=self._last)

    def feed(self, output: DecodeOutput) -> Verdict:
        """At first cut what is not stable, and go on from there."""
        verdict = self._rescored(output) if self._rescores else self._search.feed(output)
        self._rescores = False
        # What has ended is likelier than all that goes on, which cannot get likelier.
        return replace(verdict, stop=verdict.stop or self._search.is_settled)

    def result(self) -> SearchResult:
        """The hypothesis with the highest mean log-probability first, whether it has ended or not."""
        return self._search.result()

    def _rescored(self, output: DecodeOutput) -> Verdict:
        again = [self._following(output, place, self._earlier).logprobs() for place in range(self._last)]
        held = [self._stable(row, again) for row in range(len(self._earlier))]
        # The rows of one run are of one length. The best hypothesis says which; others are cut to it or dropped.
        stable = held[0]
        cut = {row: self._cut(row, stable, again) for row in range(len(held)) if held[row] >= stable}
        fed = len(self._prompt.tokens) + len(cut[0].tokens)
        # What only a token that is gone told apart is one hypothesis now.
        kept = sorted({each.tokens: row for row, each in reversed(cut.items())}.values())
        logits = required(output.logits, "logits")[kept]
        attention = None if output.attention is None else output.attention[:, kept, :fed]
        following = self._following(replace(output, logits=logits), stable, [self._earlier[row] for row in kept])
        is_over = self._search.resume(
            [cut[row] for row in kept],
            following,
            attention,
            rows=len(self._earlier),
            no_speech_prob=no_speech(output, self._rules),
        )
        return Verdict(stop=is_over, keep=fed)

    def _following(self, output: DecodeOutput, place: int, rows: Sequence[Scored]) -> Distribution:
        """The distribution after the tokens up to a place among the last."""
        end = self._length - self._last + place
        texts = [each.tokens[:end] for each in rows]
        # Counted from the end, because sot's place may stand in front of the others.
        return Distribution(output, place - self._last - 1, texts, self._rules, raw=True)

    def _stable(self, row: int, again: Sequence[FloatArray]) -> int:
        """The number of the last tokens that hold."""
        first, earlier = self._length - self._last, self._earlier[row]
        for place, logprobs in enumerate(again):
            token, before = earlier.tokens[first + place], earlier.logprobs[first + place]
            # Among as many as there are rows: for greedy search that is the likeliest alone.
            is_best = token in best(logprobs[row : row + 1], self._beam)[0]
            # Log-probabilities; the published code compares logits, which are not normalised.
            has_not_fallen = logprobs[row, token] >= before
            holds = {"either": is_best or has_not_fallen, "both": is_best and has_not_fallen, "best": is_best}
            if not holds[self._rule]:
                return place
        return self._last

    def _cut(self, row: int, stable: int, again: Sequence[FloatArray]) -> Hypothesis:
        """A hypothesis up to its last stable token, with today's scores where there are any."""
        first = self._length - self._last
        earlier = self._earlier[row].cut(first + stable)
        scores = (float(again[place][row, earlier.tokens[first + place]]) for place in range(stable))
        logprobs = (*earlier.logprobs[:first], *scores)
        return Hypothesis(earlier.tokens, logprobs, sum(logprobs), row)
