"""Spoken commands: the phrases that are not typed, and what each does. Users add theirs in a TOML file:

    "new tab" = { keys = "ctrl+t" }
    "my address" = "1 High Street, Oxford"
    "delete that" = { action = "scratch" }
    "new line" = false

Phrases are compared by their letters and digits alone, whatever the case: "Newline" is "new line".
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from whispertide.dictation.chords import Chord, parse_chord
from whispertide.dictation.strokes import composed
from whispertide.errors import OptionError
from whispertide.streaming.repetition import normalise

_EXPECTED = (
    'expected a text ("..."), { keys = "ctrl+t" }, { action = "scratch" }, { action = "stop" }, or false for no command'
)


@dataclass(frozen=True, slots=True)
class Insert:
    """Types `text` as it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class Keys:
    """Presses keys, one chord after the other."""

    chords: tuple[Chord, ...]


@dataclass(frozen=True, slots=True)
class Scratch:
    """Takes back what the last utterance typed."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends the dictation."""


Command = Insert | Keys | Scratch | Stop
_ACTIONS: Mapping[str, Command] = MappingProxyType({"scratch": Scratch(), "stop": Stop()})


_ENGLISH: Mapping[str, Command] = {
    "new line": Insert("\n"),
    "new paragraph": Insert("\n\n"),
    "scratch that": Scratch(),
    "stop dictation": Stop(),
}
BUILT_IN: Mapping[str, Command] = MappingProxyType({normalise(phrase): command for phrase, command in _ENGLISH.items()})


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands by their phrases, as `normalise` gives them."""

    phrases: Mapping[str, Command] = field(default_factory=lambda: BUILT_IN)

    def find(self, phrase: str) -> Command | None:
        """The command of a normalised phrase; None: it is none."""
        return self.phrases.get(phrase)

    def may_begin(self, phrase: str) -> bool:
        """True if a command's phrase begins so, or is this."""
        return any(known.startswith(phrase) for known in self.phrases)


def read_commands(path: Path) -> Commands:
    """The built-in commands, and those of a file in their place or besides.

    Raises `OptionError` for a file that cannot be read and for what it should not have, with the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors write a mark first
    except (OSError, ValueError) as error:
        raise OptionError(f"expected --commands as a text file in UTF-8; {path}: {error}") from error
    try:
        entries = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f'{path}: expected TOML, lines such as "new tab" = {{ keys = "ctrl+t" }}: {error}') from error
    phrases = dict(BUILT_IN)
    written: dict[str, str] = {}
    for phrase, value in entries.items():
        try:
            key = _key(phrase, written)
            command = _command(value)
        except OptionError as error:
            raise OptionError(f"{path}, line {_line_of(phrase, text)}, {phrase!r}: {error}") from error
        written[key] = phrase
        if command is None:
            phrases.pop(key, None)
        else:
            phrases[key] = command
    return Commands(phrases)


def _key(phrase: str, written: Mapping[str, str]) -> str:
    key = normalise(phrase)
    if not key:
        raise OptionError("expected a phrase of words; there is no letter or digit in it")
    if (other := written.get(key)) is not None:
        raise OptionError(f"expected each phrase once; {other!r} sounds the same")
    return key


def _command(value: Any) -> Command | None:
    match value:
        case False:
            return None
        case str() if value and all(sign.isprintable() or sign in "\n\t" for sign in value):
            return Insert(composed(value))
        case {"keys": str() as keys, **rest} if keys.strip() and not rest:
            return Keys(tuple(parse_chord(chord) for chord in keys.split()))
        case {"action": str() as action, **rest} if action in _ACTIONS and not rest:
            return _ACTIONS[action]
        case _:
            raise OptionError(f"{_EXPECTED}; got {value!r}")


def _line_of(phrase: str, text: str) -> int:
    """The line of a TOML text at which an entry is complete; the parser does not tell it."""
    lines = text.splitlines(keepends=True)
    for number in range(1, len(lines)):
        try:
            if phrase in tomllib.loads("".join(lines[:number])):
                return number
        except tomllib.TOMLDecodeError:  # in the middle of a value of several lines
            continue
    return len(lines)
