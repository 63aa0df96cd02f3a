"""Which voices of the corpora can speak on this machine, and the versions of their synthesizers, which name a corpus.

espeak-ng must be there: its library comes as a wheel. flite's voices take part where all of them are installed.
"""

from dataclasses import dataclass

from whispertide_lab.speech.espeak import espeak_version
from whispertide_lab.speech.flite import installed_flite
from whispertide_lab.speech.voices import HELD_OUT, TRAINED, Voice


@dataclass(frozen=True, slots=True)
class Installed:
    """The voices that can speak, known and held out; `versions` like "espeak-ng1.52.0-flite2.2-current"."""

    versions: str
    trained: tuple[Voice, ...]
    held_out: tuple[Voice, ...]


EVERY_VOICE = Installed("", TRAINED, HELD_OUT)


def installed() -> Installed:
    """What this machine has. Raises `CorpusError`, which says how to install it, where espeak-ng is missing."""
    versions = f"espeak-ng{espeak_version()}"
    flite = installed_flite()
    if flite is not None:
        return Installed(f"{versions}-flite{flite}", TRAINED, HELD_OUT)
    return Installed(versions, _of_espeak(TRAINED), _of_espeak(HELD_OUT))


def _of_espeak(voices: tuple[Voice, ...]) -> tuple[Voice, ...]:
    return tuple(voice for voice in voices if voice.synthesizer == "espeak-ng")
