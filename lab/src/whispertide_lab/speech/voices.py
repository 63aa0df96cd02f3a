"""The voices of the synthetic talks, and how they are asked for.

Two synthesizers, called through their C libraries because only those give the time of each word: espeak-ng, which
comes as a wheel, and flite, whose voices take part where it is installed.
Which voices the bundled nano.en was trained on is written here, so that a report can tell the known voices from the
ones never heard; whoever trains another model for this package must leave `HELD_OUT` alone. Of the held-out voices
those of espeak-ng differ in accent, in the settings of the voice ("+f3") or in the whole method of synthesis
("+klatt2"); flite's kal is the 8 kHz recording of the speaker of kal16, who is known.

Knows nothing of sentences. The libraries keep state from one sentence to the next, so that the same talk comes out the
same only in a process of its own: see `talks`.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from whispertide.types import SAMPLE_RATE

Int16Array = npt.NDArray[np.int16]
Span = tuple[int, int]  # of a word in the sound of its sentence: first sample, and the one after its last
Synthesizer = Literal["espeak-ng", "flite"]


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice by the name its synthesizer knows it by."""

    synthesizer: Synthesizer
    name: str

    def __str__(self) -> str:
        return f"{self.synthesizer}:{self.name}"


TRAINED = (
    Voice("flite", "slt"),
    Voice("espeak-ng", "en-us"),
    Voice("flite", "rms"),
    Voice("espeak-ng", "en"),  # what `espeak-ng -v en-gb` chooses
    Voice("flite", "awb"),
    Voice("flite", "kal16"),
)
HELD_OUT = (
    Voice("espeak-ng", "en-gb-scotland"),
    Voice("espeak-ng", "en-us+f3"),
    Voice("flite", "kal"),
    Voice("espeak-ng", "en-gb-x-rp+m3"),
    Voice("espeak-ng", "en-us-nyc"),
    Voice("espeak-ng", "en+f2"),
    Voice("espeak-ng", "en-029"),
    Voice("espeak-ng", "en-us+klatt2"),
    Voice("espeak-ng", "en-gb-x-gbclan"),
    Voice("espeak-ng", "en-us+m5"),
    Voice("espeak-ng", "en-gb-x-gbcwmd+f4"),
)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence as sound: 16 kHz int16 [n], and one span per word of the text, in order.

    Not `exact` where words that the synthesizer does not tell apart share a span between them.
    """

    samples: Int16Array
    words: tuple[Span, ...]
    exact: bool = True


class Speaker(Protocol):
    """One voice, ready to speak."""

    def speak(self, text: str) -> Spoken | None:
        """The sentence, or None where the synthesizer does not tell its words apart."""


def at_16k(samples: Int16Array, rate: int) -> Int16Array:
    """Resampled in double precision, so that rounding to 16 bits comes out the same on every machine."""
    if rate == SAMPLE_RATE:
        return samples
    import soxr

    exact = soxr.resample(samples.astype(np.float64), rate, SAMPLE_RATE, quality="VHQ")
    rounded: Int16Array = np.clip(np.rint(exact), -32768, 32767).astype(np.int16)
    return rounded
