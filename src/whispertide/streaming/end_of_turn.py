"""The seam for what hears whether a speaker is done, and how sure it has to be.

A pause alone cannot tell a thought from an end: whoever waits long answers late, whoever does not interrupts. What
implements the seam hears the last seconds of a turn in its pause, when `turn_gate.TurnGate` asks it.
"""

from dataclasses import dataclass
from typing import Protocol

from whispertide.options import check_range
from whispertide.types import FloatArray, to_samples


class EndOfTurn(Protocol):
    """Hears whether a turn is over. One object serves any number of sessions and threads, and has no state."""

    @property
    def longest(self) -> int:
        """It hears that many samples at most, the last ones of the turn."""

    def probability(self, audio: FloatArray) -> float:
        """The probability that nobody speaks on after `audio` [n] at 16 kHz, n up to `longest`, which ends in a pause.

        Raises `GraphError` where it cannot be computed.
        """


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """When the end of a turn is believed.

    threshold  a higher probability ends the turn; 1: none does
    eager      a higher one says that the turn may be over; 0: nothing says so
    timeout_s  so much silence ends it in any case
    """

    threshold: float = 0.5
    eager: float = 0.0
    timeout_s: float = 3.0

    def __post_init__(self) -> None:
        check_range("threshold", self.threshold, 0, 1)
        check_range("eager", self.eager, 0, self.threshold)
        check_range("timeout_s", self.timeout_s, 0.2, 60)

    @property
    def timeout(self) -> int:
        """The same silence in samples."""
        return to_samples(self.timeout_s)
