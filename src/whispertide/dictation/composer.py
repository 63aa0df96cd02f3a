"""Confirmed words become strokes: text with its spaces and capitals, or what a spoken command does.

    composer.hear(" Dear Anna,") -> [Type("Dear Anna,")]
    composer.hear(" new line,") -> []                 it may be a command, until it is known how it goes on
    composer.hear(" how") -> [Type("\\nhow")]

A *part* of what is said ends in a pause, or with a mark after a word. A command is a part of its own: "new line"
between commas, or between pauses. In "a new line of products" the words are no part, so they are typed. Words with
which a part could be a command are held back until that is decided; all others are typed at once.

It works character by character, so how words arrive in events changes nothing. Knows nothing of keyboards and audio.
"""

from dataclasses import dataclass, field, replace

from whispertide.dictation.commands import Command, Commands, Insert, Keys, Scratch, Stop
from whispertide.dictation.strokes import Erase, Press, Stroke, Type, composed
from whispertide.punctuation import (
    CHINESE_OR_JAPANESE,
    CLAUSE_ENDS,
    CLOSING,
    FULL_WIDTH_ENDS,
    SENTENCE_ENDS,
    ends_sentence,
)
from whispertide.streaming.repetition import normalise

_MARKS = (*SENTENCE_ENDS, *CLAUSE_ENDS)
_FULL_WIDTH_MARKS = (*FULL_WIDTH_ENDS, *"、，；：")  # after them no space tells that the part is over
_OPENING = "\"'“‘«„([{「『（【¿¡-–—"


@dataclass(frozen=True, slots=True)
class Change:
    """What an utterance did to the text before the cursor: took `erased` away, then typed `typed`."""

    erased: str = ""
    typed: str = ""

    def __bool__(self) -> bool:
        return bool(self.erased or self.typed)


@dataclass(slots=True)
class Composer:
    """The state of a dictation.

    text      what stands before the cursor, as far as it was typed here
    changes   those of earlier utterances, the last one at the end; what was typed before keys were pressed is not there
    change    that of this utterance
    part      what was heard of the part so far; with `undecided` nothing of it is typed
    joins     the next text follows a pause or a command: its space and its capital are chosen here
    commanded the last thing was a command
    stopped   "stop dictation": nothing more is typed until `begin`
    """

    commands: Commands = field(default_factory=Commands)
    text: str = ""
    changes: list[Change] = field(default_factory=list)
    change: Change = Change()
    part: str = ""
    undecided: bool = True
    joins: bool = True
    commanded: bool = False
    stopped: bool = False
    _strokes: list[Stroke] = field(default_factory=list)

    def copy(self) -> "Composer":
        """A composer that goes on from the same state."""
        return replace(self, changes=list(self.changes), _strokes=list(self._strokes))

    def begin(self) -> None:
        """Begin a dictation. It goes on after the text of the last one, which can still be taken back."""
        self._end_utterance()
        self._start_part()
        self.stopped = False

    def forget(self) -> None:
        """Forget what stands before the cursor, because the cursor is elsewhere now: nothing can be taken back."""
        self.text, self.changes, self.change = "", [], Change()
        self.joins, self.commanded = True, False

    def hear(self, text: str) -> list[Stroke]:
        """Take confirmed text, with the spaces between its words. Returns what to do now."""
        for character in composed(text):
            if not self.stopped:
                self._hear(character)
        return self._drain()

    def pause(self) -> list[Stroke]:
        """Take note of the end of an utterance. Returns what to do now."""
        if not self.stopped:
            self.part = self.part.rstrip()
            self._end_part()
            self._end_utterance()
        return self._drain()

    def _end_utterance(self) -> None:
        if self.change:
            self.changes.append(self.change)
        self.change, self.joins = Change(), True

    def _drain(self) -> list[Stroke]:
        strokes, self._strokes = self._strokes, []
        return strokes

    # --- parts -------------------------------------------------------------------------------------------------------

    def _hear(self, character: str) -> None:
        if _is_over(self.part, character):
            self._end_part()
            if self.stopped:
                return
        self.part += character
        if not self.undecided:
            self._write(character)
        elif not self._may_be_command():
            self.undecided = False
            self._write(self.part)

    def _may_be_command(self) -> bool:
        body = self.part.strip().lstrip(_OPENING).lstrip()
        said = body.rstrip("".join((*_MARKS, *CLOSING)))
        phrase, tail = normalise(said), body[len(said) :]
        if any(mark in said for mark in _MARKS):
            return False
        if any(mark in tail for mark in _MARKS):  # after it no word follows in the same part
            return not phrase or self.commands.find(phrase) is not None
        return self.commands.may_begin(phrase)

    def _end_part(self) -> None:
        if self.undecided:
            command = self.commands.find(normalise(self.part))
            if command is None:
                self._write(self.part)
            else:
                self._obey(command)
        self._start_part()

    def _start_part(self) -> None:
        self.part, self.undecided = "", True

    # --- commands ----------------------------------------------------------------------------------------------------

    def _obey(self, command: Command) -> None:
        match command:
            case Insert(text):
                self._insert(text)
            case Keys(chords):
                self._strokes += map(Press, chords)
                self.forget()
            case Scratch():
                self._scratch()
            case Stop():
                self.stopped = True

    def _insert(self, text: str) -> None:
        """Type a text as it stands. A mark takes the place of the one that the model wrote before the command."""
        if text.startswith(_MARKS) and self.text.endswith(_MARKS) and not self.commanded:
            self._erase(self.text[-1])
        self._type(_space(self.text, text) + text)
        self.joins = self.commanded = True

    def _scratch(self) -> None:
        """Undo this utterance, or the last one if this one has typed nothing."""
        undone = self.change or (self.changes.pop() if self.changes else Change())
        self.change = Change()
        if undone.typed:
            self._strokes.append(Erase(undone.typed))
        if undone.erased:
            self._strokes.append(Type(undone.erased))
        self.text = self.text.removesuffix(undone.typed) + undone.erased
        self.joins, self.commanded = True, False

    # --- text --------------------------------------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        """Type words of the model. Its spaces hold within an utterance; between two, and after a command, ours do."""
        if self.joins:
            text = text.lstrip()
            if not text:
                return
            if self.commanded and _begins_sentence(self.text):
                text = text[0].upper() + text[1:] if len(text[0].upper()) == 1 else text
            text = _space(self.text, text) + text
            self.joins = self.commanded = False
        self._type(text)

    def _type(self, text: str) -> None:
        self.text += text
        self.change = replace(self.change, typed=self.change.typed + text)
        if self._strokes and isinstance(last := self._strokes[-1], Type):
            self._strokes[-1] = Type(last.text + text)
        else:
            self._strokes.append(Type(text))

    def _erase(self, text: str) -> None:
        self.text = self.text.removesuffix(text)
        if self.change.typed:
            self.change = replace(self.change, typed=self.change.typed.removesuffix(text))
        else:
            self.change = replace(self.change, erased=text + self.change.erased)
        self._strokes.append(Erase(text))


def _is_over(part: str, following: str) -> bool:
    """True if a part ends before the character `following`: after a mark and a space, or a mark of full width."""
    bare = part.rstrip(CLOSING)
    if bare.endswith(_FULL_WIDTH_MARKS):
        return following not in _MARKS and following not in CLOSING
    return following.isspace() and bare.endswith(_MARKS)


def _space(before: str, after: str) -> str:
    """The space between two texts: none at a line's beginning, before a mark, after a bracket, and in Chinese and
    Japanese.
    """
    if not before or before[-1].isspace() or before.endswith(tuple("([{¿¡")) or after[0].isspace():
        return ""
    if after.startswith((*_MARKS, *")]}")):
        return ""
    if CHINESE_OR_JAPANESE.match(before[::-1]) and (CHINESE_OR_JAPANESE.match(after) or not after[0].isalnum()):
        return ""
    return " "


def _begins_sentence(before: str) -> bool:
    """True if a sentence begins after this text, which a command has ended."""
    written = before.rstrip()
    return not written or before.endswith("\n\n") or ends_sentence(written)
