"""Wrong guesses of keys and session ids, counted by party: one that guesses often has to wait.

Nobody who guesses holds a place meanwhile: the answer comes at once, and is the same for a right guess. Pure; the time
comes from a clock.
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
    _known: Recent[tuple[str, str], None] = field(default_factory=Recent)

    def may_guess(self, party: str) -> bool:
        """True if another key of this party is checked."""
        return not self.enabled or self._left_to(party).has_one(self.clock())

    def wrong(self, party: str) -> None:
        """Count a wrong guess."""
        if self.enabled:
            self._left[party] = left = self._left_to(party)
            left.spend(self.clock())

    def knows(self, party: str, what: str) -> bool:
        """True if that was right for this party before."""
        return (party, what) in self._known

    def right(self, party: str, what: str) -> bool:
        """Accept a right guess; False if it must not be believed yet.

        What was right for this party before is no guess: whoever guesses next to it keeps it out of nothing.
        """
        if not self.knows(party, what) and not self.may_guess(party):
            return False
        self._known[party, what] = None
        return True

    def _left_to(self, party: str) -> Bucket:
        return self._left.get(party) or Bucket(self.per_s, self.burst)
