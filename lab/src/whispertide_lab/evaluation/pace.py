"""What time is to a session on a clock: the wall's, or one that is only counted."""

import time
from typing import Protocol

from whispertide_lab.evaluation.trace import PROCESSOR, ClockName


class Clock(Protocol):
    """Time in seconds since the first sample was spoken."""

    @property
    def name(self) -> ClockName:
        """What a trace calls it."""

    @property
    def now(self) -> float:
        """The time."""

    def timer(self) -> float:
        """What work is measured by: seconds of which only differences mean something."""

    def wait_until(self, at: float) -> None:
        """Let time pass; `at` may be over."""

    def spend(self, measured: float) -> None:
        """The worker has just been at work for so many seconds."""


class WallClock:
    """The wall's time."""

    name: ClockName = "live"

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def now(self) -> float:
        """Seconds since this clock was made."""
        return time.perf_counter() - self._began

    def timer(self) -> float:
        """The wall's seconds."""
        return time.perf_counter()

    def wait_until(self, at: float) -> None:
        """Sleep until then."""
        if (wait := at - self.now) > 0:
            time.sleep(wait)

    def spend(self, measured: float) -> None:
        """It has passed already."""


class SimulatedClock:
    """Time that passes only where it is waited for or, if it is `measured`, worked."""

    def __init__(self, *, measured: bool, name: ClockName = "simulated") -> None:
        self.name: ClockName = name
        self.now = 0.0
        self._measured = measured

    def timer(self) -> float:
        """Seconds of the wall, or of the processor on the clock of that name."""
        return time.process_time() if self.name == PROCESSOR else time.perf_counter()

    def wait_until(self, at: float) -> None:
        """It is then, or later, at once."""
        self.now = max(self.now, at)

    def spend(self, measured: float) -> None:
        """So many seconds pass, if working takes time here."""
        if self._measured:
            self.now += measured
