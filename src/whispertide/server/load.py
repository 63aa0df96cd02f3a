"""Load shedding: measure how late rounds are, and lower or raise the quality of all sessions in steps.

    level 0   as asked for
    level 1   greedy search in place of a beam, and no round sooner than the recipe's step
    level 2   and no second attempt at a higher temperature
    level 3   and rounds half as often, within the longest step of the recipe

Pure, the time comes with every call. One late round is nothing: the mean lateness has to stay high for a while.
"""

from dataclasses import dataclass
from typing import Any

from whispertide.options import DecodeOptions
from whispertide.recipes.recipe import Recipe
from whispertide.types import CHUNK_SECONDS

LEVELS = 3
HIGH = 1.0  # of a step: from here on rounds look at more than a step, and words come later and later
_LOW = 0.5
RISE_S, FALL_S = 2.0, 10.0  # how long before the level changes
_LEAST_STEP_S = 1.0  # a recipe that starts a round whenever it can is not late for that
_WEIGHT = 0.1  # of the newest round in the mean


def settings_at(level: int, recipe: Recipe, options: DecodeOptions) -> dict[str, Any]:
    """Changes for `Session.configure` at this level. Level 0 restores everything that other levels change."""
    # As far as an adaptive schedule goes: its longest step bounds the step.
    longest_s = getattr(recipe.schedule, "longest_step_s", CHUNK_SECONDS)
    return {
        "search": recipe.search.narrowed() if level >= 1 else recipe.search,
        "temperatures": options.temperatures[:1] if level >= 2 else options.temperatures,
        "step_s": min(2 * recipe.schedule.step_s, longest_s) if level >= 3 else recipe.schedule.step_s,
    }


@dataclass(slots=True)
class Load:
    """The controller. `enabled` False: quality never changes, sessions are only refused."""

    enabled: bool = True
    level: int = 0
    pressure: float = 0.0  # mean time to finish a round, in steps
    _since: float | None = None  # since when the pressure asks for another level

    def note(self, took_s: float, step_s: float, now: float) -> None:
        """Note a round, done `took_s` after it was due, waiting included; its session wants one every `step_s`."""
        self.pressure += _WEIGHT * (took_s / max(step_s, _LEAST_STEP_S) - self.pressure)
        self.settle(now)

    def note_waiting(self, waits_s: float, step_s: float, now: float) -> None:
        """Note audio that has waited this long for its round, in a session that wants one every `step_s`: a round that
        never comes is late, too.
        """
        if waits_s - step_s > HIGH * max(step_s, _LEAST_STEP_S):
            self.note(waits_s - step_s, step_s, now)

    def idle(self, now: float) -> None:
        """Note that nothing waits at this moment."""
        self.pressure *= 1 - _WEIGHT
        self.settle(now)

    def settle(self, now: float) -> None:
        """Change the level if the pressure has asked for it long enough."""
        rises = self.pressure > HIGH and self.level < LEVELS
        falls = self.pressure < _LOW and self.level > 0
        if not self.enabled or not (rises or falls):
            self._since = None
            return
        if self._since is None:
            self._since = now
        elif now - self._since >= (RISE_S if rises else FALL_S):
            self.level += 1 if rises else -1
            self._since = None

    @property
    def overloaded(self) -> bool:
        """True if there is no room for another session: rounds are late although quality is at its lowest."""
        return self.pressure > HIGH and (self.level == LEVELS or not self.enabled)
