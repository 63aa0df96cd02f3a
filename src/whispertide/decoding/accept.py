"""How a token is accepted: the seam between a search and its ways to choose (`beam`, `sampling`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from whispertide.decoding.distribution import Distribution


class Choice(NamedTuple):
    """The hypothesis in `row` goes on with `token`."""

    row: int
    token: int
    logprob: float


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
        """Whether it needs the whole distribution, not just the best candidates."""

    @property
    def independent(self) -> bool:
        """Whether hypotheses do not compete: then guards watch each of them, else the best one."""

    def choose(
        self, following: Distribution, totals: Sequence[float], width: int, first: Choice | None = None
    ) -> list[Choice]:
        """Continuations of the hypotheses whose log-probabilities are `totals`, best first.

        At most `width` of them can go on, besides those that end here; what is left over is dropped. `first` is what
        the only hypothesis drew in this step before it was to become several.
        """
