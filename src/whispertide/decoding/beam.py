"""Beam search with patience, by true top-k; greedy search is a beam of one.

Finds what `BeamSearchDecoder` and `GreedyDecoder` of openai/whisper (decoding.py) find. Impossible continuations
(probability zero) are dropped instead of carried along, so there may be fewer rows than beams. Patience: arXiv
2204.05424.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from whispertide.decoding.accept import Choice
from whispertide.decoding.distribution import Distribution
from whispertide.decoding.search import TOP
from whispertide.errors import OptionError


@dataclass(frozen=True, slots=True)
class Beam:
    """The `rows` best hypotheses side by side, until `round(rows * patience)` have reached end of text."""

    rows: int
    patience: float = 1.0
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.rows < 1 or self.enough < 1:
            raise OptionError(f"expected beam >= 1 and beam * patience >= 1; got {self.rows} and {self.patience}")

    @property
    def enough(self) -> int:
        """Finished hypotheses that end the search."""
        return round(self.rows * self.patience)

    @property
    def whole(self) -> bool:
        """Whether the candidates that the graph returns are too few: one more than rows, since one may be the end."""
        return self.rows >= TOP

    def choose(
        self, following: Distribution, totals: Sequence[float], width: int, first: Choice | None = None
    ) -> list[Choice]:
        """The `width + 1` best tokens of each row, best first. `first` is among them."""
        ids, scores = following.best(width + 1)
        grown = [
            Choice(row, int(token), float(logprob))
            for row in range(len(totals))
            for token, logprob in zip(ids[row], scores[row], strict=True)
            if np.isfinite(logprob)
        ]
        return sorted(grown, key=lambda choice: totals[choice.row] + choice.logprob, reverse=True)


GREEDY = Beam(1)
