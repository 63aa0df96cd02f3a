"""What a keyboard is asked to do: type a text, take one back, press keys."""

import re
import unicodedata
from dataclasses import dataclass

from whispertide.dictation.chords import Chord

_ZERO_WIDTH_JOINER = "\u200d"
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")  # two of them are a flag
# What one character of users' has after its first code point, where a single backspace takes all of it: accents, the
# forms and skin tones of emoji, and the letters of a flag's name.
_JOINED = re.compile("[\u0300-\u036f\u20d0-\u20f0\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")


@dataclass(frozen=True, slots=True)
class Type:
    """Type `text`, in Unicode's composed form (NFC). A line feed is Enter, a tab is Tab."""

    text: str


@dataclass(frozen=True, slots=True)
class Erase:
    """Take back `text`, which stands before the cursor, with `backspaces(text)` strokes of Backspace."""

    text: str


@dataclass(frozen=True, slots=True)
class Press:
    """Press keys together, and let go of them."""

    chord: Chord


Stroke = Type | Erase | Press


def composed(text: str) -> str:
    """The text as it is typed: composed characters, so that an accent is not a key of its own."""
    return unicodedata.normalize("NFC", text)


def backspaces(text: str) -> int:
    """The number of strokes of Backspace that take back a text: one for each character as users see it.

    A vowel sign or tone mark of Thai or an Indian script counts by itself, because there editors erase one sign after
    the other.
    """
    count, before = 0, ""
    for character in text:
        flag = _FLAG_LETTER.match(character) is not None
        if _JOINED.match(character) or before == _ZERO_WIDTH_JOINER or (flag and before == "flag"):
            before = character
            continue
        before = "flag" if flag else character
        count += 1
    return count
