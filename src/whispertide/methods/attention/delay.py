"""One knob for how soon words must stand: which patience gives which delay, by measurement on OpenAI's weights.

A stream that confirms later makes fewer errors, as far as what comes later helps. Two settings of the policy decide:
`max_revision_rate`, how likely a word must be to stay, and `settle_s`, how long one waits that never gets likely.
Nobody can guess what they come to in seconds; so it was measured, and the knob takes seconds (docs/guides/tide.md
has the curve).
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
    """

    max_revision_rate: float
    settle_s: float


# Seconds from the end of a word to its confirmation, computing left out, and what gives them: OpenAI's tiny.en with its
# adapter, on people who speak without pauses (lab/log, 2026-11-29, "Longer windows and one knob").
MEASURED: tuple[tuple[float, Patience], ...] = (
    (0.42, Patience(0.15, 1.0)),
    (0.54, Patience(0.03, 1.0)),
    (0.70, Patience(0.012, 1.2)),
    (1.49, Patience(0.003, 2.0)),
    (2.45, Patience(0.001, 3.0)),
)


def patience(delay_s: float) -> Patience:
    """The settings with this delay, between the measured ones by the share of the way; beyond them the nearest."""
    delays = [delay for delay, _ in MEASURED]
    after = min(max(bisect_right(delays, delay_s), 1), len(MEASURED) - 1)
    (low, soon), (high, late) = MEASURED[after - 1 : after + 1]
    way = min(max((delay_s - low) / (high - low), 0.0), 1.0)
    # Shares of changed words differ by factors, so they are taken by their logarithms.
    rate = math.exp((1 - way) * math.log(soon.max_revision_rate) + way * math.log(late.max_revision_rate))
    return Patience(rate, (1 - way) * soon.settle_s + way * late.settle_s)
