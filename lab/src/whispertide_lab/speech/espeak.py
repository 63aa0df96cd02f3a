"""espeak-ng through its library: a sentence as sound with the exact place of each word.

The library reports, with the sound, an event at the sample where each word begins and one where each phoneme begins,
pauses included (espeak-ng's `speak_lib.h`). A word ends where the next one begins, or where a pause begins. Some
frequent pairs ("of the") are one dictionary entry to espeak-ng and give one event; where the second word is an article
its phonemes tell where it begins; other such pairs ("there was") are not told apart, and the sentence is refused, or,
where exact times are not needed, the pair shares its span (`shared_spans`).

The library comes as a wheel, espeakng-loader, so that the same sentence is the same sound wherever it is made; where
there is none, the system's own is taken. Knows nothing of talks. The library's state is global: one process, one voice.
"""

import ctypes
import importlib.util
import os
import re
from ctypes.util import find_library
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from whispertide.errors import CorpusError
from whispertide.extras import how_to_install
from whispertide.types import SAMPLE_RATE
from whispertide_lab.speech.voices import Int16Array, Span, Spoken, at_16k

# speak_lib.h
_SYNCHRONOUS = 2  # AUDIO_OUTPUT_SYNCHRONOUS: sound and events come through the callback, within the call
_OPTIONS = 0x0001 | 0x8000  # phoneme events; do not end the process where the data is missing
_UTF8 = 1
_POS_CHARACTER = 1
_RATE, _PITCH, _RANGE = 1, 3, 4  # espeak_PARAMETER
_END_OF_LIST, _WORD, _PHONEME = 0, 1, 7  # espeak_EVENT_TYPE

_LONGEST_PATH = 144  # with "/espeak-ng-data" and a zero after it 160, espeak-ng's N_PATH_HOME

_TOKEN = re.compile(r"\S+")


class _Id(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8))


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _Id),
    )


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


@dataclass(frozen=True, slots=True)
class Mark:
    """A word (`at`: its first character) or a phoneme (`at` -1) begins at `sample` of the synthesizer's sound."""

    sample: int
    at: int
    phoneme: str = ""


def espeak_version() -> str:
    """The library's version, like "1.52.0". Raises `CorpusError` where it is not installed."""
    library, _ = _library()
    library.espeak_Info.restype = ctypes.c_char_p
    version: bytes = library.espeak_Info(None)
    return version.decode().split()[0]


def _library() -> tuple[ctypes.CDLL, Path | None]:
    """The wheel's library and the folder of its data; else the system's, which knows where its data is."""
    if importlib.util.find_spec("espeakng_loader") is not None:
        import espeakng_loader

        file = Path(espeakng_loader.get_library_path())
        return _loaded(str(file)), file.parent
    return _loaded(find_library("espeak-ng") or "libespeak-ng.so.1"), None


def _loaded(file: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(file)
    except OSError as error:
        raise CorpusError(
            f"expected the speech synthesizer espeak-ng; its library {file} cannot be loaded ({error}); "
            f"{how_to_install('lab')}"
        ) from error


@cache
def _initialized() -> tuple[ctypes.CDLL, int]:
    """The library and the rate of its sound in Hz, once per process.

    Were it initialised again, it would free the phonemes that its voice points to; a voice with the same phonemes
    keeps the pointer, and its next sentence is garbage or ends the process.
    """
    library, data = _library()
    where = None if data is None else os.fsencode(data)
    hertz: int = library.espeak_Initialize(_SYNCHRONOUS, 0, where, _OPTIONS)
    if hertz <= 0:
        raise CorpusError(_no_data(data))
    return library, hertz


class EspeakSpeaker:
    """A voice of espeak-ng at `rate` words per minute and `pitch` (0 to 99, 50 is the voice's own).

    `intonation` is how far the pitch moves (0 to 99, 50 is the voice's own). With `shared`, words that are not told
    apart share their span; else their sentence is refused.
    """

    def __init__(self, voice: str, *, rate: int, pitch: int, intonation: int = 50, shared: bool = False) -> None:
        self._shared = shared
        self._library, self._hertz = _initialized()
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(0))  # the time, which it begins with, is heard as breath
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise CorpusError(
                f"expected a voice that espeak-ng has; it does not know {voice} (see voices and lang in its data)"
            )
        self._library.espeak_SetParameter(_RATE, rate, 0)
        self._library.espeak_SetParameter(_PITCH, pitch, 0)
        self._library.espeak_SetParameter(_RANGE, intonation, 0)
        self._sound: list[Int16Array] = []
        self._marks: list[Mark] = []
        self._callback = _CALLBACK(self._take)  # held, because the library keeps only its address
        self._library.espeak_SetSynthCallback(self._callback)

    def speak(self, text: str) -> Spoken | None:
        """The sentence, or None where the marks make no sense, or do not tell its words apart and none may share.

        Raises `CorpusError` if espeak-ng fails.
        """
        self._sound, self._marks = [], []
        data = text.encode()
        status = self._library.espeak_Synth(data, len(data) + 1, 0, _POS_CHARACTER, 0, _UTF8, None, None)
        if status != 0 or not self._sound:
            raise CorpusError(f"espeak-ng failed on {text!r} (status {status})")
        sound, to_16k = np.concatenate(self._sound), SAMPLE_RATE / self._hertz
        if self._shared:
            spans, exact = shared_spans(text, self._marks, len(sound)) or (None, False)
        else:
            spans, exact = word_spans(text, self._marks, len(sound)), True
        if spans is None:
            return None
        words = tuple((round(start * to_16k), round(end * to_16k)) for start, end in spans)
        return Spoken(at_16k(sound, self._hertz), words, exact)

    def _take(self, sound: "ctypes._Pointer[ctypes.c_short]", count: int, events: "ctypes._Pointer[_Event]") -> int:
        if sound and count > 0:
            self._sound.append(np.ctypeslib.as_array(sound, (count,)).copy())
        at = 0
        while events[at].type != _END_OF_LIST:
            event = events[at]
            if event.type == _WORD and event.length > 0:  # at the end of a text comes one without length
                self._marks.append(Mark(event.sample, event.text_position - 1))
            elif event.type == _PHONEME:
                self._marks.append(Mark(event.sample, -1, event.id.string.decode(errors="replace")))
            at += 1
        return 0


def _no_data(data: Path | None) -> str:
    """Why espeak-ng does not start; it keeps the path of its data in 160 bytes."""
    if data is not None and len(os.fsencode(data)) > _LONGEST_PATH:
        return (
            f"espeak-ng takes a path of at most {_LONGEST_PATH} bytes to its data; got {data}: "
            "use a virtual environment in a folder with a shorter name"
        )
    of = "" if data is None else f" in {data}"
    return f"espeak-ng does not start: its data{of} is missing or damaged; install it again: {how_to_install('lab')}"


def word_spans(text: str, marks: list[Mark], total: int) -> list[Span] | None:
    """Start and end of every word of `text` in the synthesizer's samples; None where a word has no mark of its own."""
    begins = {found.start() for found in _TOKEN.finditer(text)}
    if any(mark.at >= 0 and mark.at not in begins for mark in marks):
        return None  # it split a word, so the marks are not what they seem
    found = shared_spans(text, marks, total)
    return found[0] if found is not None and found[1] else None


def shared_spans(text: str, marks: list[Mark], total: int) -> tuple[list[Span], bool] | None:
    """The same, but words that are not told apart share their span in proportion to their letters.

    The second value is False where that had to be done; None where words have marks, but not in their order.
    """
    tokens = [(found.start(), found.group()) for found in _TOKEN.finditer(text)]
    first_marks = [
        min((mark.sample for mark in marks if at <= mark.at < at + len(token)), default=None) for at, token in tokens
    ]
    groups: list[list[int]] = []  # of tokens; each but perhaps the first begins with one that has a mark
    starts: list[int] = []
    for number, start in enumerate(first_marks):
        if start is None and groups:
            upto = next((mark for mark in first_marks[number:] if mark is not None), total)
            start = _joined(tokens[number][1].lower(), marks, starts[-1], upto)
        if start is None and groups:
            groups[-1].append(number)
        else:
            groups.append([number])
            starts.append(start or 0)
    if starts != sorted(starts):
        return None
    spans: list[Span] = []
    for group, start, upto in zip(groups, starts, [*starts[1:], total], strict=True):
        end = _end(marks, start, upto)
        letters = np.cumsum([0, *(len(tokens[number][1]) for number in group)])
        edges = (start + (end - start) * letters / letters[-1]).astype(int).tolist()
        spans += pairwise(edges)
    exact = len(groups) == len(tokens) and first_marks[0] is not None
    return (spans, exact) if all(start < end for start, end in spans) else None


def _joined(word: str, marks: list[Mark], start: int, end: int) -> int | None:
    """Where the article begins that was joined to the word at `start`: its last two sounds for "the", one for "a"."""
    sounds = [
        mark.sample for mark in marks if start < mark.sample < end and mark.at < 0 and mark.phoneme[:1] not in "_;"
    ]
    count = {"the": 2, "a": 1}.get(word, 0)
    return sounds[-count] if 0 < count < len(sounds) + 1 else None


def _end(marks: list[Mark], start: int, upto: int) -> int:
    """The end of a word that begins at `start`: the first pause after a sound of it, else where the next begins."""
    sounded = False
    for mark in marks:
        if mark.at < 0 and start <= mark.sample < upto:
            if not mark.phoneme.startswith("_"):
                sounded = True
            elif sounded:
                return mark.sample
    return upto
