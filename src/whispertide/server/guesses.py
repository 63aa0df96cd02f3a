"""Wrong guesses of keys and session ids, counted by party: one that guesses often has to wait.

Nobody who guesses holds a place meanwhile: the answer comes at once, and is the same for a right guess. Pure; the time
comes from a clock.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

_PARTIES = 10_000  # remembered; beyond it the one that guessed longest ago is forgotten


@dataclass(slots=True)
class Guesses:
    """So many wrong guesses of a party (`addresses.party_of`) at once, and `per_s` a second on average.

    enabled   False where addresses tell nothing: behind a proxy all have its own
    """

    burst: int
    per_s: float
    enabled: bool = True
    clock: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _known: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict)

    def may_guess(self, party: str) -> bool:
        """True if another key of this party is checked."""
        return not self.enabled or self._tokens(party) >= 1

    def wrong(self, party: str) -> None:
        """Count a wrong guess."""
        if not self.enabled:
            return
        tokens = max(0.0, self._tokens(party) - 1)
        self._left[party] = tokens, self.clock()
        self._left.move_to_end(party)
        if len(self._left) > _PARTIES:
            self._left.popitem(last=False)

    def right(self, party: str, what: str) -> bool:
        """Accept a right guess; False if it must not be believed yet.

        What was right for this party before is no guess: whoever guesses next to it keeps it out of nothing.
        """
        if (party, what) not in self._known and not self.may_guess(party):
            return False
        self._known[party, what] = None
        self._known.move_to_end((party, what))
        if len(self._known) > _PARTIES:
            self._known.popitem(last=False)
        return True

    def _tokens(self, party: str) -> float:
        tokens, at = self._left.get(party, (float(self.burst), 0.0))
        return min(tokens + (self.clock() - at) * self.per_s, self.burst)
