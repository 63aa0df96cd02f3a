"""One knob for how soon words must stand: which patience gives which delay, by measurement on OpenAI's weights.

A stream that confirms later makes fewer errors, as far as what comes later helps. Three settings decide: the policy's
`max_revision_rate`, how likely a word must be to stay, and `settle_s`, how long one waits that never gets likely; and
the schedule's `step_s`, because a word that is judged in many rounds is confirmed by the luckiest of them. Nobody can
guess what they come to in seconds; so it was measured, and the knob takes seconds (docs/guides/tide.md has the curve).
What they come to depends on the rule that says how likely a word is, so each has a curve (`steadiness.read_curve`).
"""

import math
from bisect import bisect_right
from dataclasses import dataclass

SOONEST_S, LATEST_S = 0.35, 2.0


@dataclass(frozen=True, slots=True)
class Patience:
    """The time that a word waits to be confirmed.

    max_revision_rate  the accepted share of confirmed words that would have changed
    settle_s           seconds of audio after which a word stands, likely or not
    step_s             seconds of new audio that start a round (0: as many as the schedule says)
    """

    max_revision_rate: float
    settle_s: float
    step_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DelayCurve:
    """What was measured: seconds from the end of a word to its confirmation, computing left out, and what gives them.
    Two points or more, the soonest first.
    """

    points: tuple[tuple[float, Patience], ...]

    def patience(self, delay_s: float) -> Patience:
        """The settings with this delay, between the measured ones by the share of the way; beyond them the nearest."""
        delays = [delay for delay, _ in self.points]
        after = min(max(bisect_right(delays, delay_s), 1), len(delays) - 1)
        (low, soon), (high, late) = self.points[after - 1 : after + 1]
        way = min(max((delay_s - low) / (high - low), 0.0), 1.0)
        # Shares of changed words differ by factors, so they are taken by their logarithms.
        rate = math.exp((1 - way) * math.log(soon.max_revision_rate) + way * math.log(late.max_revision_rate))
        settle_s = (1 - way) * soon.settle_s + way * late.settle_s
        return Patience(rate, settle_s, (1 - way) * soon.step_s + way * late.step_s)
