"""flite through its library: a sentence as sound with the exact place of each word.

flite decides the length of every sound before it makes any, and keeps the plan with the utterance: the end of each
segment, the syllables it belongs to, the words, the tokens of the text (flite's `cst_utterance.h`, `cst_item.h`). The
time of a word is that of its segments. Several of flite's words may come from one written word ("it", "'s"); they are
joined.

Knows nothing of talks. The library's state is global: one process, one voice.
"""

import ctypes
import re
import subprocess
from collections.abc import Iterator
from ctypes.util import find_library

import numpy as np

from whispertide.errors import CorpusError
from whispertide.types import to_samples
from whispertide_lab.speech.voices import HELD_OUT, TRAINED, Span, Spoken, at_16k

SLOW_VOICES = {"rms": 0.85}  # stretches that bring them to the pace of the others
INSTALL = "on Debian and Ubuntu: apt-get install flite"

_LIBRARIES = ("flite", "flite_usenglish", "flite_cmulex")  # in this order: one needs those before it
_FIRST = b"R:SylStructure.daughter1.daughter1.R:Segment.p.end"  # the end of the segment before the word's first
_LAST = b"R:SylStructure.daughtern.daughtern.R:Segment.end"


class _Voice(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("features", ctypes.c_void_p))  # and more that is not used here


class _Wave(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_char_p),
        ("sample_rate", ctypes.c_int),
        ("num_samples", ctypes.c_int),
        ("num_channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    )


_SIGNATURES = {
    "flite_synth_text": (ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_void_p]),
    "flite_feat_set_float": (None, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_float]),
    "flite_ffeature_float": (ctypes.c_float, [ctypes.c_void_p, ctypes.c_char_p]),
    "utt_relation": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]),
    "relation_head": (ctypes.c_void_p, [ctypes.c_void_p]),
    "item_next": (ctypes.c_void_p, [ctypes.c_void_p]),
    "item_daughter": (ctypes.c_void_p, [ctypes.c_void_p]),
    "item_feat_string": (ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_char_p]),
    "utt_wave": (ctypes.POINTER(_Wave), [ctypes.c_void_p]),
    "delete_utterance": (None, [ctypes.c_void_p]),
}


def flite_version() -> str:
    """The installed version, like "2.2-current". Raises `CorpusError` where flite is not installed."""
    try:
        told = subprocess.run(["flite", "--version"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError as error:
        raise CorpusError(f"expected the speech synthesizer flite; it is not installed ({INSTALL})") from error
    found = re.search(r"version: (?:flite-)?(\S+)", told)
    return found.group(1) if found else "unknown"


def check_flite() -> str:
    """Its version. Raises `CorpusError` where it cannot speak in each of its voices among `TRAINED` and `HELD_OUT`."""
    voices = [f"flite_cmu_us_{voice.name}" for voice in (*TRAINED, *HELD_OUT) if voice.synthesizer == "flite"]
    for name in (*_LIBRARIES, *voices):
        _library(name)
    return flite_version()


def installed_flite() -> str | None:
    """The version of flite where it can speak in each of these voices; else None."""
    try:
        return check_flite()
    except CorpusError:
        return None


def _library(name: str) -> ctypes.CDLL:
    file = find_library(name) or f"lib{name}.so.1"
    try:
        return ctypes.CDLL(file, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise CorpusError(
            f"expected the speech synthesizer flite with its libraries; {file} is missing ({INSTALL})"
        ) from error


class FliteSpeaker:
    """A voice of flite; `stretch` 1 is its own speed, more is slower; `shift` 2 is an octave above its own pitch."""

    def __init__(self, voice: str, *, stretch: float, shift: float = 1.0) -> None:
        self._library, *_ = [_library(name) for name in _LIBRARIES]
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        register = getattr(_library(f"flite_cmu_us_{voice}"), f"register_cmu_us_{voice}")
        register.restype, register.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        self._library.flite_init()
        self._voice = register(None)
        features = ctypes.cast(self._voice, ctypes.POINTER(_Voice)).contents.features
        self._library.flite_feat_set_float(features, b"duration_stretch", stretch)
        self._library.flite_feat_set_float(features, b"f0_shift", shift)

    def speak(self, text: str) -> Spoken | None:
        """The sentence, or None where its words are not told apart. Raises `CorpusError` if flite fails."""
        utterance = self._library.flite_synth_text(text.encode(), self._voice)
        if not utterance:
            raise CorpusError(f"flite failed on {text!r}")
        try:
            wave = self._library.utt_wave(utterance).contents
            sound = at_16k(np.ctypeslib.as_array(wave.samples, (wave.num_samples,)).copy(), wave.sample_rate)
            words = tuple(self._words(utterance))
        finally:
            self._library.delete_utterance(utterance)
        told_apart = len(words) == len(text.split()) and all(0 <= start < end <= len(sound) for start, end in words)
        return Spoken(sound, words) if told_apart else None

    def _words(self, utterance: int) -> Iterator[Span]:
        """One span per token of the text; none for a token without words."""
        library = self._library
        token = library.relation_head(library.utt_relation(utterance, b"Token"))
        while token:
            spans = list(self._spans(library.item_daughter(token)))
            if spans:
                yield to_samples(spans[0][0]), to_samples(spans[-1][1])
            token = library.item_next(token)

    def _spans(self, word: int | None) -> Iterator[tuple[float, float]]:
        while word:
            yield self._library.flite_ffeature_float(word, _FIRST), self._library.flite_ffeature_float(word, _LAST)
            word = self._library.item_next(word)
