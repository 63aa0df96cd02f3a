"""The last round of an utterance, heard ahead of its end: the voice gate still waits whether somebody speaks on.

Pilot inference does work while somebody speaks (arXiv 2311.17065, 4.1); this does the rest of it in the silence after
the last word, which a voice gate needs anyway. Knows nothing of what is heard or how.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from whispertide.decoding.search import Guard
from whispertide.events import RoundStats
from whispertide.model.engine import Encoded, EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import Hearing, RoundPlan, RoundResult
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class Kept:
    """The first stage's result where nothing is computed. Satisfies `round.Opened`."""

    encoded: Encoded


@dataclass(frozen=True, slots=True)
class HeardAhead:
    """A `round.Hearing` that computes nothing: the round was heard before.

    asked   how it was heard
    result  what was heard, in the same window
    """

    asked: Hearing
    result: RoundResult[Any]

    def encode(self, resources: RoundResources, plan: RoundPlan, audio: FloatArray, state: EncoderState | None) -> Kept:
        """Nothing but the state that the encoder left."""
        return Kept(Encoded((), (), 0, 0, state=self.result.state))

    def decode(
        self,
        resources: RoundResources,
        plan: RoundPlan,
        opened: Kept,
        options: DecodeOptions,
        guards: Sequence[Guard] = (),
    ) -> RoundResult[Any]:
        """The result that is there already; it costs nothing now."""
        return replace(self.result, plan=plan, costs=(), stats=RoundStats(tokens=self.result.stats.tokens))
