"""Commands as a stream hears them, for the tests."""

from collections.abc import Sequence

from told_gate import Told
from whispertide.types import FloatArray
from whispertide.understand.ctc_attention import CtcAttentionOptions
from whispertide.understand.model import LateModel
from whispertide.understand.understanding import PilotTimes, Understanding, Understood

SEARCH = CtcAttentionOptions(beam=3, longest=6)


def heard(model: LateModel, portions: Sequence[FloatArray], pilots: PilotTimes | None = None) -> list[Understood]:
    stream = Understanding(model, gate=Told(), pilots=pilots, search=SEARCH)
    return [each for portion in portions for each in stream.push(portion)] + stream.finish()
