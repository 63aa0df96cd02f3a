"""Wrong guesses of keys and session ids, counted by party: one that guesses often has to wait.

Who has the right one is let in however often others there guess: many may share an address. So it is the length of a
key that keeps guesses out, and this keeps them from costing much. Pure; the time comes from a clock.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from whispertide.server.bucket import Bucket
from whispertide.server.recent import Recent


@dataclass(slots=True)
class Guesses:
    """So many wrong guesses of a party (`addresses.party_of`) at once, and `per_s` a second on average.

    enabled   False where addresses tell nothing: behind a proxy all have its own
    """

    burst: int
    per_s: float
    enabled: bool = True
    clock: Callable[[], float] = time.monotonic
    _left: Recent[str, Bucket] = field(default_factory=Recent)

    def may_guess(self, party: str) -> bool:
        """True if another wrong guess of this party gets the usual answer."""
        return not self.enabled or self._left_to(party).has_one(self.clock())

    def wrong(self, party: str) -> None:
        """Count a wrong guess."""
        if self.enabled:
            self._left[party] = left = self._left_to(party)
            left.spend(self.clock())

    def _left_to(self, party: str) -> Bucket:
        return self._left.get(party) or Bucket(self.per_s, self.burst)
