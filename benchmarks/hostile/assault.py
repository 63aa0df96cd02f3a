"""One attack under way: whom it concerns, how long it may go on, and what came of it."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SPEECH, HOURS, WEBM, FLAC = "speech.s16", "hours.ogg", "hours.webm", "hours.flac"  # what `material.make` writes
MOST_TURNS = 10_000_000  # of one loop: nothing goes on for ever, whatever the clock says
_PAUSE_S = 0.02  # after a connection that failed


@dataclass
class Assault:
    """One attack. Several threads share it.

    port      of the server, on loopback
    ports     its TCP ports: `wyoming`, `lines`
    key       which the hostile client has from the server's owner; honest clients have another
    material  the folder that `material.make` has filled
    clients   threads that do the same at once
    stop      set when it is over
    until     by `time.monotonic`, when it is over anyway
    tally     what happened, by name; `met` counts answers and ends
    """

    port: int
    ports: Mapping[str, int]
    key: str
    material: Path
    clients: int
    stop: threading.Event
    until: float
    tally: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)

    @property
    def going(self) -> bool:
        """Whether it goes on."""
        return not self.stop.is_set() and time.monotonic() < self.until

    def turns(self, most: int = MOST_TURNS) -> Iterator[int]:
        """0, 1, 2 ... while it goes on."""
        for turn in range(most):
            if not self.going:
                return
            yield turn

    def rest(self, seconds: float) -> None:
        """Wait for so long, or until it is over."""
        self.stop.wait(max(0.0, min(seconds, self.until - time.monotonic())))


Attack = Callable[[Assault, int], None]  # one connection's life; the number is that of the thread


def carry_out(assault: Assault, attack: Attack) -> None:
    """Let all clients loose, each again and again, until it is over."""

    def again(number: int) -> None:
        for _ in assault.turns():
            try:
                attack(assault, number)
                assault.tally["attacks"] += 1
            except OSError as error:
                assault.met[type(error).__name__] += 1
                assault.rest(_PAUSE_S)

    threads = [threading.Thread(target=again, args=(number,)) for number in range(assault.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
