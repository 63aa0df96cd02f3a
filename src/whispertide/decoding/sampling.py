"""Temperature sampling: several rows, of which the best one wins.

Source: `GreedyDecoder` in openai/whisper, decoding.py. Rows that have ended are dropped from the batch,
which changes nothing for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from whispertide.decoding.accept import Choice
from whispertide.decoding.distribution import Distribution
from whispertide.types import FloatArray


def sample(logprobs: FloatArray, temperature: float, rng: np.random.Generator) -> list[int]:
    """One token per row from softmax(logprobs / temperature), by inverting the cumulative distribution.

    logprobs [rows, vocab].
    """
    scaled = logprobs.astype(np.float64) / temperature
    cumulative = np.exp(scaled - scaled.max(axis=-1, keepdims=True)).cumsum(axis=-1)
    total = cumulative[:, -1]
    # Strictly below the total, so that a forbidden token after the last possible one is never drawn.
    draws = np.minimum(rng.random(len(logprobs)) * total, np.nextafter(total, 0))
    return [int(np.searchsorted(row, draw, side="right")) for row, draw in zip(cumulative, draws, strict=True)]


@dataclass(frozen=True, slots=True)
class Sampling:
    """`rows` independent samples at one temperature, until all have ended; each is a fair one."""

    temperature: float
    rows: int
    rng: np.random.Generator
    whole: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.rows < 1:
            raise ValueError(f"expected temperature > 0 and rows >= 1; got {self.temperature} and {self.rows}")

    @property
    def enough(self) -> int:
        """All of them."""
        return self.rows

    def choose(
        self, following: Distribution, totals: Sequence[float], width: int, first: Choice | None = None
    ) -> list[Choice]:
        """A token for each row, or `width` tokens, `first` among them, where one row becomes so many."""
        logprobs = following.logprobs()
        drawn = [] if first is None else [first]
        rows = np.broadcast_to(np.arange(len(totals)), width - len(drawn))
        tokens = sample(logprobs[rows], self.temperature, self.rng)
        new = [
            Choice(row, token, float(logprobs[row, token])) for row, token in zip(rows.tolist(), tokens, strict=True)
        ]
        return drawn + new
