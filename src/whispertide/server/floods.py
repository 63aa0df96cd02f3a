"""Waiting times after floods, longer each time: without them the next connection would flood as well.

It costs nothing that is open. Pure; the time comes from a clock.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from whispertide.server.recent import Recent

_FIRST_S, _MOST_S = 2.0, 32.0  # to wait after the first flood, twice as long after each that follows, and at most
_FORGOTTEN_S = 60.0  # after the wait is over


@dataclass(frozen=True, slots=True)
class _Flood:
    """A party's floods: their number, and until when it has to wait."""

    times: int
    until: float


@dataclass(slots=True)
class Floods:
    """Floods by party: an address (`addresses.party_of`) and the API key that was used there, "" for none.

    by_address   False where addresses tell nothing: behind a proxy all have its own. Then the key alone counts, and who
                 has none never waits, or all would.
    """

    by_address: bool = True
    clock: Callable[[], float] = time.monotonic
    _floods: Recent[tuple[str, str], _Flood] = field(default_factory=Recent)

    def closed(self, party: str, owner: str = "") -> None:
        """Count a flood."""
        name, now = self._name(party, owner), self.clock()
        if not any(name):
            return
        before = self._floods.get(name)
        times = 1 if before is None or now >= before.until + _FORGOTTEN_S else before.times + 1
        self._floods[name] = _Flood(times, now + min(_FIRST_S * 2.0 ** min(times - 1, 16), _MOST_S))

    def wait_s(self, party: str, owner: str = "") -> float:
        """Seconds until they may open another connection."""
        flood = self._floods.get(self._name(party, owner))
        return 0.0 if flood is None else max(0.0, flood.until - self.clock())

    def _name(self, party: str, owner: str) -> tuple[str, str]:
        return party if self.by_address else "", owner
