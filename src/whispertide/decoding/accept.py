"""Acceptance of tokens: by beam search, or by sampling at a temperature.

Beam search has patience (arXiv 2204.05424); greedy search is a beam of one. The beam finds what openai/whisper's finds
(decoding.py). Impossible continuations and sampled rows that have ended are dropped instead of carried along, so there
may be fewer rows than beams.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from whispertide.decoding.rules import Distribution
from whispertide.errors import GraphError, OptionError
from whispertide.graphs.contract import TOP
from whispertide.types import FloatArray


class Choice(NamedTuple):
    """The hypothesis in `row` goes on with `token`; key terms add `gain` to its log-probability for the ranking."""

    row: int
    token: int
    logprob: float
    gain: float = 0.0


class Accept(Protocol):
    """Chooses among all tokens that are possible."""

    @property
    def rows(self) -> int:
        """Hypotheses side by side, at most."""

    @property
    def enough(self) -> int:
        """Finished hypotheses that end the search."""

    @property
    def whole(self) -> bool:
        """True if it needs the whole distribution, not just the best candidates."""

    @property
    def independent(self) -> bool:
        """True if hypotheses do not compete: then guards watch each of them, else the best one."""

    def choose(
        self, following: Distribution, totals: Sequence[float], width: int, first: Choice | None = None
    ) -> list[Choice]:
        """Continuations of the hypotheses whose scores are `totals`, best first.

        At most `width` of them can go on, besides those that end here; what is left over is dropped. `first` is what
        the only hypothesis drew in this step before it was to become several.
        """


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
        """True if the candidates that the graph returns are too few: one more than rows, since one may be the end."""
        return self.rows >= TOP

    def choose(
        self, following: Distribution, totals: Sequence[float], width: int, first: Choice | None = None
    ) -> list[Choice]:
        """The `width + 1` best tokens of each row, best first. `first` is among them."""
        # One more than can go on, since one of a row's may be end of text, which takes no place.
        ids, logprobs, gains = following.best(width + 1)
        grown = [
            Choice(row, int(token), float(logprob), float(gain))
            for row in range(len(totals))
            for token, logprob, gain in zip(ids[row], logprobs[row], gains[row], strict=True)
            if np.isfinite(logprob)
        ]
        # By the sum of log-probabilities, as Whisper does: length only counts when all have ended.
        return sorted(grown, key=lambda choice: totals[choice.row] + choice.logprob + choice.gain, reverse=True)


GREEDY = Beam(1)


def sample(logprobs: FloatArray, temperature: float, rng: np.random.Generator) -> list[int]:
    """One token per row from softmax(logprobs / temperature), by inverting the cumulative distribution.

    logprobs [rows, vocab].
    """
    # In double precision: a running sum over 50,000 probabilities loses the small ones in single precision.
    scaled = logprobs.astype(np.float64) / temperature
    cumulative = np.exp(scaled - scaled.max(axis=-1, keepdims=True)).cumsum(axis=-1)
    total = cumulative[:, -1]
    if not np.isfinite(total).all():
        raise GraphError(
            "the model's output is not a number: its weights are damaged, or this precision cannot hold them; "
            "download it again, or choose --precision fp32"
        )
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
        # Every row draws once, or the only one as often as there are to be rows.
        rows = np.broadcast_to(np.arange(len(totals)), width - len(drawn))
        tokens = sample(logprobs[rows], self.temperature, self.rng)
        new = [
            Choice(row, token, float(logprobs[row, token])) for row, token in zip(rows.tolist(), tokens, strict=True)
        ]
        return drawn + new
