"""Beam pruning: one hypothesis as long as it says what an earlier round has said, the full beam where it does not.

A round of local agreement decodes most of what the round before it decoded, and finds the same. So the search starts
with one row and follows the earlier text (`earlier`). The first token that is not there is where it falls back: that
step's best candidates seed the full beam. Once its leader says again what the earlier text says, the other hypotheses
go. End of text is accepted wherever one row finds it. Source: WhisperFlow (arXiv 2412.11272), whose code samples its
candidates, counts end of text as a word, and never gets narrow again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whispertide.decoding.beam import BeamSearch
from whispertide.decoding.earlier import EarlierText, Tracker
from whispertide.decoding.greedy import SamplingSearch, sample
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import Guard
from whispertide.types import FloatArray, IntArray


class PrunedSearch(BeamSearch):
    """Beam search that is greedy search along `earlier`; without a text to follow it is beam search."""

    def __init__(
        self,
        prompt: Prompt,
        rules: Rules,
        earlier: EarlierText,
        *,
        beam: int,
        patience: float = 1.0,
        length_penalty: float | None = None,
        guards: Sequence[Guard] = (),
    ) -> None:
        super().__init__(prompt, rules, beam=beam, patience=patience, length_penalty=length_penalty, guards=guards)
        self._tracker = Tracker(earlier, rules.vocabulary.timestamp_begin)
        self._narrow = earlier.speaks

    @property
    def accepted(self) -> int:
        """How many tokens were those of the earlier text."""
        return self._tracker.matched

    def _extend(self, ids: IntArray, scores: FloatArray, attention: FloatArray | None) -> None:
        """Take the likeliest token if it is in the text; else seed the beam. A beam whose leader is back gives way."""
        if self._narrow:
            self._narrow = self._tracker.follow(int(ids[0, 0]))
            count = 1 if self._narrow else None
            super()._extend(ids[:, :count], scores[:, :count], attention)
            return
        super()._extend(ids, scores, attention)
        if self._live and self._tracker.find(self._live[0].tokens):
            self._narrow = True
            self._live = self._live[:1]


class PrunedSampling(SamplingSearch):
    """Sampling in one row along `earlier`; it becomes `rows` where a draw leaves the text, and stays so.

    Every row is a fair sample: the draw that left is the first of them.
    """

    def __init__(
        self,
        prompt: Prompt,
        rules: Rules,
        earlier: EarlierText,
        *,
        temperature: float,
        rows: int,
        rng: np.random.Generator,
        length_penalty: float | None = None,
        guards: Sequence[Guard] = (),
    ) -> None:
        super().__init__(
            prompt, rules, temperature=temperature, rows=rows, rng=rng, length_penalty=length_penalty, guards=guards
        )
        self._tracker = Tracker(earlier, rules.vocabulary.timestamp_begin)
        self._follows = earlier.speaks

    def _draw(self, logprobs: FloatArray) -> list[int]:
        if not self._follows:
            return super()._draw(logprobs)
        drawn = sample(logprobs, self._temperature, self._rng)
        if self._tracker.follow(drawn[0]):
            return drawn
        self._follows = False
        self._spread = True
        others = np.broadcast_to(logprobs, (self._rows - 1, logprobs.shape[1]))
        return drawn + sample(others, self._temperature, self._rng)
