"""Watch for audio that waits: how much, since when, and whether any round runs. The time comes from a clock."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from whispertide.server.live import LiveSession
from whispertide.types import seconds

STALLED_S = 5.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Audio of all sessions that no round has looked at though one is due.

    unheard_s  seconds of it
    oldest_s   how long ago the oldest of it came
    late       of a session that somebody speaks (`LiveSession.is_unhurried`), and that waits longest: how long, and its
               step, in seconds
    """

    unheard_s: float = 0.0
    oldest_s: float = 0.0
    late: tuple[float, float] | None = None


@dataclass(slots=True)
class Watch:
    """Looks at the sessions now and then; audio that came since the last look counts as having come now."""

    clock: Callable[[], float] = time.monotonic
    _came: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)  # when, and the samples until then
    _round_at: float = -STALLED_S  # when the last one was done

    def note_round(self) -> None:
        self._round_at = self.clock()

    def measure(self, sessions: Iterable[LiveSession]) -> Waiting:
        """Measure the audio that waits now."""
        now, unheard, oldest = self.clock(), 0, 0.0
        late: tuple[float, float] | None = None
        # Built anew, so that nothing stays of sessions that are gone.
        before, self._came = self._came, {}
        for live in sessions:
            accepted, looked_at = live.accepted, live.looked_at  # once: a round may end in its thread meanwhile
            if live.ended or live.suspended or accepted <= looked_at:
                continue
            came = self._came[live.id] = before.get(live.id, deque())
            if not came or came[-1][1] < accepted:
                came.append((now, accepted))
            while came[0][1] <= looked_at:
                came.popleft()
            age = now - came[0][0]
            unheard, oldest = unheard + accepted - looked_at, max(oldest, age)
            if not live.is_unhurried(now) and (late is None or age > late[0]):
                late = age, live.asked_recipe.schedule.step_s
        return Waiting(seconds(unheard), oldest, late)

    def is_stalled(self, waiting: Waiting) -> bool:
        """True if audio waits and no round was done for five seconds."""
        return min(waiting.oldest_s, self.clock() - self._round_at) > STALLED_S
