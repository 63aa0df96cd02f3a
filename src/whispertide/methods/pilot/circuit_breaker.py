"""A circuit breaker: a server that fails again and again is left alone for a while, so nobody waits for it in vain.

Knows nothing of what is asked. (Nygard, Release It!, 2007.)
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger("whispertide.hybrid")


@dataclass(slots=True)
class CircuitBreaker:
    """After `most` failures in a row nothing is asked for `rest_s` seconds; then one question decides."""

    most: int = 3
    rest_s: float = 30.0
    clock: Callable[[], float] = time.monotonic
    _failed: int = 0
    _until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_open(self) -> bool:
        """True if the server is left alone."""
        # Without the lock: a wrong answer costs at most an upload in vain.
        return self._failed >= self.most and self.clock() < self._until

    def asks(self) -> bool:
        """True if it may be asked now; a caller that gets true asks, and reports how that went."""
        with self._lock:
            if self._failed < self.most:
                return True
            if self.clock() < self._until:
                return False
            self._until = self.clock() + self.rest_s  # the others wait for the answer to this one
            return True

    def answered(self) -> None:
        """It gave an answer that can be used."""
        with self._lock:
            if self._failed >= self.most:
                log.warning("the server answers again")
            self._failed = 0

    def withdrawn(self) -> None:
        """Nobody waits for the answer any more, so it decides nothing: the next may ask."""
        with self._lock:
            if self._failed >= self.most:
                self._until = self.clock()

    def failed(self) -> None:
        """It gave none."""
        with self._lock:
            self._failed += 1
            if self._failed >= self.most:
                self._until = self.clock() + self.rest_s
            if self._failed == self.most:
                log.warning("the server failed %d times in a row and gets no requests for %g s", self.most, self.rest_s)
