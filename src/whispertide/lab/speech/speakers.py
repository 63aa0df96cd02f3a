"""Any of the voices, ready to speak in a manner: the three synthesizers under one interface.

The synthesizers' own units (words per minute, stretches, half-tones) are known here alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from whispertide.lab.speech.espeak import EspeakSpeaker, espeak_version
from whispertide.lab.speech.festival import FestivalSpeaker
from whispertide.lab.speech.flite import FliteSpeaker, flite_version
from whispertide.lab.speech.manners import Manner
from whispertide.lab.speech.reading import Span
from whispertide.lab.speech.voices import Int16Array, Spoken, at_16k
from whispertide.types import SAMPLE_RATE

_ESPEAK_WORDS_PER_MINUTE = 155
_STRETCH = {"rms": 0.85}  # flite's voices that are slow by themselves
# Voices whose pitch their synthesizers cannot set: they speak slower and are played faster, or the other way round.
_WITHOUT_PITCH = ("flite:rms", "festival:slt")


@dataclass(frozen=True, slots=True)
class Said:
    """Sound, 16 kHz int16 [n], and the span of each word said; not `exact` where words share a span between them."""

    samples: Int16Array
    words: tuple[Span, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class Speaker:
    """One voice in one manner.

    say    the text as it is said, or None where the synthesizer made no sense of it
    close  no more will be said; the libraries stay as they are
    """

    say: Callable[[str], Said | None]
    close: Callable[[], None] = lambda: None


def _espeak(voice: str, manner: Manner) -> Speaker:
    speaker = EspeakSpeaker(
        voice,
        rate=round(_ESPEAK_WORDS_PER_MINUTE * manner.rate),
        pitch=round(float(np.clip(50 + 60 * np.log2(manner.pitch), 0, 99))),
        intonation=round(50 + 30 * manner.melody),
    )

    def say(text: str) -> Said | None:
        spoken, exact = speaker.speak_all(text)
        return _said(spoken, exact=exact)

    return Speaker(say)


def _flite(voice: str, manner: Manner) -> Speaker:
    played = manner.pitch if manner.voice in _WITHOUT_PITCH else 1.0
    stretch = _STRETCH.get(voice, 1.0) / manner.rate * played
    speaker = FliteSpeaker(voice, stretch=stretch, shift=manner.pitch / played)
    return Speaker(lambda text: _said(speaker.speak(text), played=played))


def _festival(voice: str, manner: Manner) -> Speaker:
    played = manner.pitch if manner.voice in _WITHOUT_PITCH else 1.0
    speaker = FestivalSpeaker(voice, rate=manner.rate / played, pitch=manner.pitch / played)
    return Speaker(lambda text: _said(speaker.speak(text), played=played), speaker.close)


def _said(spoken: Spoken | None, *, exact: bool = True, played: float = 1.0) -> Said | None:
    """What was spoken, played `played` times as fast."""
    if spoken is None:
        return None
    samples = at_16k(spoken.samples, round(SAMPLE_RATE * played))
    spans = tuple((round(word.start / played), round(word.end / played)) for word in spoken.words)
    return Said(samples, tuple((start, min(end, len(samples))) for start, end in spans), exact)


_KINDS: dict[str, Callable[[str, Manner], Speaker]] = {"espeak-ng": _espeak, "flite": _flite, "festival": _festival}


def open_speaker(manner: Manner) -> Speaker:
    """The voice, ready to speak. Raises `CorpusError` where its synthesizer is not installed."""
    kind, _, voice = manner.voice.partition(":")
    return _KINDS[kind](voice, manner)


def check_installed(voices: tuple[str, ...]) -> None:
    """Raises `CorpusError`, naming what to install, where a synthesizer of these voices is missing."""
    kinds = {voice.partition(":")[0] for voice in voices}
    if "espeak-ng" in kinds:
        espeak_version()
    if "flite" in kinds:
        flite_version()
    for voice in voices:
        if voice.startswith("festival:"):
            open_speaker(Manner(voice, 1.0, 1.0, 0.0)).close()
