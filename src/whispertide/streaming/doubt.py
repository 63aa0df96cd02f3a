"""Words that one round should not confirm yet: with little audio behind it the decoder guesses (docs/LOG.md).

Shared by the policies that can wait. Knows nothing of rounds.
"""

from dataclasses import dataclass

from whispertide.types import SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Doubt:
    """A word less probable than `below` (0: none is) waits while it lies in the last `settle` samples of the window."""

    below: float = 0.0
    settle: int = SAMPLE_RATE

    def waits(self, probability: float, at: int, end: int) -> bool:
        """Whether a word that is spoken up to sample `at` may still change with more audio than up to `end`."""
        return probability < self.below and at > end - self.settle
