"""When pilots start: rounds while somebody speaks, whose results only help the round after the last word.

Source: pilot inference (arXiv 2311.17065), 4.1. A schedule has no clock: that a pilot is given up when speech ends is
the plan's affair (`RoundPlan.provisional`).
"""

from dataclasses import dataclass
from typing import ClassVar

from whispertide.streaming.choice import in_samples, setting
from whispertide.streaming.schedule import Adaptive
from whispertide.types import CHUNK_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilots(Adaptive):
    """The first pilot after `pilots_from_s` of an utterance, then one every `step_s`.

    A pause may be the end, which the voice gate does not know before `vad_pause_s`. So in each pause the last round is
    computed `at_pauses` (ours), and no other until somebody speaks on.
    Like `adaptive` it takes longer steps on a machine that is too slow for these.
    """

    kind: ClassVar[str] = "pilots"
    step_s: float = setting(0.5, "new audio that starts a pilot", least=0.02, most=CHUNK_SECONDS)
    pilots_from_s: float = setting(
        1.5, "speech before the first pilot (30 = no pilots)", least=0.02, most=CHUNK_SECONDS
    )

    at_pauses: bool = setting(
        True, "whether the last round is computed in a pause, before the voice gate has decided that speech has ended"
    )

    pilots_from: int = in_samples("pilots_from_s")

    @property
    def ahead(self) -> bool:
        """As `at_pauses` says."""
        return self.at_pauses

    def frontier(self, last: int, known: int, received: int, spent: int = 0) -> int | None:
        """All that has arrived, once that is enough. Where no round has looked past `known`, there was none yet."""
        if last <= known:
            return received if received - known >= self.pilots_from else None
        return Adaptive.frontier(self, last, known, received, spent)
