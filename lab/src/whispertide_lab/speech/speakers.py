"""Any of the voices, ready to speak in a manner: the three synthesizers under one interface.

The synthesizers' own units (words per minute, stretches, half-tones) are known here alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from whispertide.types import SAMPLE_RATE
from whispertide_lab.speech.espeak import EspeakSpeaker, espeak_version
from whispertide_lab.speech.festival import FestivalSpeaker
from whispertide_lab.speech.flite import SLOW_VOICES, FliteSpeaker, check_flite
from whispertide_lab.speech.manners import Manner
from whispertide_lab.speech.voices import Speaker, Spoken, at_16k

_ESPEAK_WORDS_PER_MINUTE = 155
# Voices whose pitch their synthesizers cannot set: they speak slower and are played faster, or the other way round.
_WITHOUT_PITCH = ("flite:rms", "festival:slt")


Say = Callable[[str], Spoken | None]  # a text as it is said; None where the synthesizer made no sense of it


@contextmanager
def open_speaker(manner: Manner) -> Iterator[Say]:
    """What says texts in this manner, while entered. Raises `CorpusError` where its synthesizer is not installed."""
    played = manner.pitch if manner.voice in _WITHOUT_PITCH else 1.0
    speaker = _synthesizer(manner, played)
    try:
        yield lambda text: _played(speaker.speak(text), played)
    finally:
        if isinstance(speaker, FestivalSpeaker):
            speaker.close()


def _synthesizer(manner: Manner, played: float) -> Speaker:
    """The voice, whose sound will be played `played` times as fast."""
    kind, _, voice = manner.voice.partition(":")
    if kind == "flite":
        stretch = SLOW_VOICES.get(voice, 1.0) / manner.rate * played
        return FliteSpeaker(voice, stretch=stretch, shift=manner.pitch / played)
    if kind == "festival":
        return FestivalSpeaker(voice, rate=manner.rate / played, pitch=manner.pitch / played)
    return EspeakSpeaker(
        voice,
        rate=round(_ESPEAK_WORDS_PER_MINUTE * manner.rate),
        pitch=round(float(np.clip(50 + 60 * np.log2(manner.pitch), 0, 99))),
        intonation=round(50 + 30 * manner.melody),
        shared=True,
    )


def _played(spoken: Spoken | None, times: float) -> Spoken | None:
    """The same, `times` as fast."""
    if spoken is None:
        return None
    samples = at_16k(spoken.samples, round(SAMPLE_RATE * times))
    spans = ((round(start / times), round(end / times)) for start, end in spoken.words)
    return Spoken(samples, tuple((start, min(end, len(samples))) for start, end in spans), spoken.exact)


def check_installed(voices: tuple[str, ...]) -> None:
    """Raises `CorpusError`, naming what to install, where a synthesizer of these voices is missing."""
    kinds = {voice.partition(":")[0] for voice in voices}
    if "espeak-ng" in kinds:
        espeak_version()
    if "flite" in kinds:
        check_flite()
    for voice in voices:
        if voice.startswith("festival:"):
            with open_speaker(Manner(voice, 1.0, 1.0, 0.0)):
                pass
