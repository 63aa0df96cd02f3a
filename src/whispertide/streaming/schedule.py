"""When a round starts: how much audio must have arrived, and up to where the round looks.

A schedule is a pure function of sample counts. It has no clock and no state: what it needs to know of the past is the
end of the last round. It knows nothing of words, of models or of how long a round takes.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar, Protocol

from whispertide.errors import OptionError


class Schedule(Protocol):
    """Says up to which sample the next round looks, or None while it is not due.

    `last` is where the last round of this utterance ended (at first: where the utterance began), `known` is how much
    audio it took to know of the utterance at all (a voice gate decides late), `received` is how much there is. `spent`
    is how long the last round was computed, in samples.
    """

    @property
    def recorded(self) -> bool:
        """Whether the rounds are a record being replayed: all of them happen, and lateness means nothing."""

    def frontier(self, last: int, known: int, received: int, spent: int = 0) -> int | None:
        """The end of the next round's window, or None while no round is due."""

    def load(self, last: int, frontier: int, spent: int, waited: int = 0) -> int:
        """How much of the step from `last` to `frontier` is owed to computing, in samples; 0: no more than is usual.

        `waited` is how much came in after the round was due, while something else was computed.
        """


@dataclass(frozen=True, slots=True)
class FixedStep:
    """A round whenever `step` new samples have arrived; it takes everything that has (whisper_streaming).

    So when computing takes longer than the step, the next round simply looks at more, and the delay does not grow.
    """

    step: int
    recorded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.step < 1:
            raise OptionError(f"expected a step of at least one sample; got {self.step}")

    def frontier(self, last: int, known: int, received: int, spent: int = 0) -> int | None:
        """All that has arrived, once that is a step more than the last round saw."""
        return received if received - last >= self.step else None

    def load(self, last: int, frontier: int, spent: int, waited: int = 0) -> int:
        """See `Schedule`."""
        return _load(self.step, frontier - last, spent, waited)


@dataclass(frozen=True, slots=True)
class BestEffort:
    """A round as soon as the previous one is done and `min_new` samples have arrived; it takes everything that has."""

    min_new: int = 1
    recorded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.min_new < 1:
            raise OptionError(f"expected at least one new sample per round; got {self.min_new}")

    def frontier(self, last: int, known: int, received: int, spent: int = 0) -> int | None:
        """All that has arrived."""
        return received if received - last >= self.min_new else None

    def load(self, last: int, frontier: int, spent: int, waited: int = 0) -> int:
        """See `Schedule`."""
        return _load(self.min_new, frontier - last, spent, waited)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Best effort that leaves the machine room: computing shall take at most half of the time.

    A round takes place when `least` new samples have arrived, but not before twice as many as would come while the
    last one was computed; at most `most` are waited for. It takes everything that has arrived.
    """

    least: int
    most: int
    recorded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise OptionError(f"expected 1 <= least <= most samples per round; got {self.least} and {self.most}")

    def frontier(self, last: int, known: int, received: int, spent: int = 0) -> int | None:
        """All that has arrived, once that is enough for the load."""
        wanted = min(max(2 * spent, self.least), self.most)
        return received if received - last >= wanted else None

    def load(self, last: int, frontier: int, spent: int, waited: int = 0) -> int:
        """See `Schedule`."""
        return _load(self.least, frontier - last, spent, waited)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The rounds of an earlier run again: `boundaries` and `loads` are those of its session. Portions do not matter.

    Without `loads` the machine was never late.
    """

    boundaries: tuple[int, ...]
    loads: tuple[int, ...] = ()
    recorded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if any(b <= a for a, b in zip((0, *self.boundaries), self.boundaries, strict=False)):
            raise OptionError(f"expected round boundaries that are positive and rise; got {list(self.boundaries)[:20]}")
        if self.loads and len(self.loads) != len(self.boundaries):
            raise OptionError(f"expected a load for each of {len(self.boundaries)} boundaries; got {len(self.loads)}")

    def frontier(self, last: int, known: int, received: int, spent: int = 0) -> int | None:
        """The next boundary, once that much has arrived. Those before the utterance was known of had no round."""
        at = bisect_left(self.boundaries, max(last + 1, known))
        if at == len(self.boundaries) or self.boundaries[at] > received:
            return None
        return self.boundaries[at]

    def load(self, last: int, frontier: int, spent: int, waited: int = 0) -> int:
        """What was recorded for the round that ended there."""
        at = bisect_left(self.boundaries, frontier)
        return self.loads[at] if at < len(self.loads) else 0


def _load(usual: int, step: int, spent: int, waited: int) -> int:
    """The step, but no longer than computing wants it to be (twice as long as it takes, so that the machine has room)
    or than the round was kept waiting.

    So a long step is no load where audio comes in large portions, or where `usual` steps are that long.
    """
    owed = min(step, max(2 * spent, waited))
    return owed if owed > usual else 0
