"""The captions of sessions as one growing text, for whoever reads along: what is confirmed, and the guess after it.

Text is only ever appended, so a reader needs no more than a position in it. Knows neither readers nor sockets.
"""

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from whispertide.events import Confirmed, Correction, End, Error, Hypothesis, Language, Translation, TurnEnd
from whispertide.punctuation import ends_sentence
from whispertide.server.outbox import Entry
from whispertide.types import Word, goes_on, speaker_name, to_samples

_KEPT = 100_000  # characters: some two hours of speech
_PAUSE = to_samples(1.5)  # between two words of different paragraphs
_LONG = 500  # characters after which the end of a sentence ends a paragraph as well; after three times as many any word


@dataclass(slots=True)
class _Growing:
    """What a session says that goes on: its guess, and the sample where its last word ends."""

    guess: tuple[Word, ...] = ()
    heard: int = 0


@dataclass(slots=True)
class Captions:
    """The text so far. Paragraphs end with a line feed; of a very long text the first paragraphs are gone.

    run       a name for this text: a position in another one means nothing here
    start     the position of the first character that is kept
    language  of the newest words, if it is known
    speaking  whether a session goes on: one, or one for each channel of a speaker's
    second    the newest translation, or correction: the second line
    second_speaker  the number of its voice here; None: nobody knows
    speakers  the number of the voice of each paragraph, None where nobody knows; each session has numbers of its own
    names     of voices, by their numbers here
    """

    run: str = field(default_factory=lambda: secrets.token_urlsafe(6))
    start: int = 0
    text: str = ""
    language: str | None = None
    speaking: bool = False
    second: str = ""
    second_speaker: int | None = None
    speakers: list[int | None] = field(default_factory=lambda: [None])
    names: dict[int, str] = field(default_factory=dict)
    _voices: int = 0  # so many were heard
    _voices_before: int = 0  # in earlier sessions: nobody knows which of them speak in this one as well
    _growing: dict[int | None, _Growing] = field(default_factory=lambda: {None: _Growing()})  # by channel
    _messages: dict[int, str] = field(default_factory=dict)  # of this moment, by the position they begin at

    @property
    def end(self) -> int:
        """The position after the last character."""
        return self.start + len(self.text)

    def begin(self, language: str | None, channels: Iterable[int | None] = (None,)) -> None:
        """Begin a session, or one for each of these channels, numbered from 1: their samples count from 0."""
        self._end_paragraph()
        self._growing = {channel: _Growing() for channel in channels}
        self.speaking, self.language, self.second, self.second_speaker = True, language, "", None
        self._voices_before = self._voices
        self._changed()

    def join(self, channel: int | None) -> None:
        """Begin another session of one channel; the others go on."""
        self._growing[channel], self.speaking = _Growing(), True
        self._changed()

    def name(self, names: Mapping[int, str]) -> bool:
        """Name voices of this session, by their numbers in it, and no others. Returns whether that is new."""
        before, earlier = self.names, self._voices_before
        self.names = {number: name for number, name in before.items() if number <= earlier}
        self.names |= {earlier + number: name for number, name in names.items() if name}
        self._changed()
        return before != self.names

    def leave(self, channel: int | None = None) -> None:
        """End a session; its text stays."""
        self._growing.pop(channel, None)
        if not self._growing:
            self._end_paragraph()
            self.speaking = False
        self._changed()

    def take(self, entries: Iterable[Entry], channel: int | None = None) -> bool:
        """Take what a session says. Returns whether there is anything new to read."""
        before, growing = self._state, self._growing.get(channel)
        if growing is None:  # it has left
            return False
        for entry in entries:
            match entry:
                case Confirmed(words=words):
                    self._append(words, growing, channel)
                case Hypothesis(words=words):
                    if words and words[0].start - growing.heard >= _PAUSE and self._is_last(channel):
                        self._end_paragraph()
                    growing.guess = words
                case TurnEnd():
                    growing.guess = ()
                case Language(language=language):
                    self.language = language
                case Translation(text=text, speaker=speaker) | Correction(text=text, speaker=speaker):
                    self.second, self.second_speaker = text, self._number(speaker, channel)
                case End() | Error(fatal=True):
                    self.leave(channel)
        changed = before != self._state
        if changed:
            self._changed()
        return changed

    @property
    def _state(self) -> tuple[object, ...]:
        return self.end, self._guess, self.language, self.speaking, self.second, self.second_speaker

    @property
    def _guess(self) -> str:
        """The guesses of all; first that of whoever said the last words, which it follows."""
        several = sorted(self._growing.items(), key=lambda one: not self._is_last(one[0]))
        return "".join(word.text for _, growing in several for word in growing.guess)

    def _is_last(self, channel: int | None) -> bool:
        """True if the last paragraph is this channel's, or may be."""
        return channel is None or self.speakers[-1] == self._voices_before + channel

    def message(self, run: str, position: int) -> tuple[int, str]:
        """Write what a reader lacks who has everything up to a position of a run, as JSON; without a place here, all
        that is kept. Returns the position after it and the message, which is the same for all readers in one place.
        """
        if run != self.run or not self.start <= position <= self.end:
            position = self.start
        if (known := self._messages.get(position)) is None:
            known = self._messages[position] = self._write(position)
        return self.end, known

    def _write(self, position: int) -> str:
        values: dict[str, Any] = {
            "type": "text",
            "run": self.run,
            "start": position,
            "end": self.end,
            "text": self.text[position - self.start :],
            "guess": self._guess,
            "language": self.language,
            "speaking": self.speaking,
            "second": self.second,
        }
        if any(self.speakers):
            speakers = self.speakers[-1 - values["text"].count("\n") :]
            known = {number: self.names.get(number, speaker_name(number)) for number in self.speakers if number}
            values |= {"speakers": speakers, "names": known, "second_speaker": self.second_speaker}
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))

    def _append(self, words: tuple[Word, ...], growing: _Growing, channel: int | None) -> None:
        paragraph = self.text[self.text.rfind("\n") + 1 :]
        added = ""
        for word in words:
            speaker = self._number(word.speaker, channel)
            most = _LONG if ends_sentence(paragraph) else 3 * _LONG
            is_other = speaker != self.speakers[-1] and (channel is not None or not goes_on(word.text))
            if paragraph and (is_other or len(paragraph) > most or word.start - growing.heard >= _PAUSE):
                added, paragraph = added + "\n", ""
                self.speakers.append(None)
            if not paragraph:
                self.speakers[-1] = speaker
            self._voices = max(self._voices, speaker or 0)
            text = word.text.replace("\n", " ")  # where a paragraph ends is for us to say
            text = text if paragraph else text.lstrip()
            added, paragraph = added + text, paragraph + text
            growing.heard = max(growing.heard, word.end)
        self.text += added
        # The next guess may come later, and says nothing of these words.
        growing.guess = tuple(word for word in growing.guess if word.start >= growing.heard)
        self._shorten()

    def _number(self, speaker: int | None, channel: int | None) -> int | None:
        """The number here of a session's voice, or of its channel."""
        number = channel or speaker
        return None if number is None else self._voices_before + number

    def _end_paragraph(self) -> None:
        if self.text and not self.text.endswith("\n"):
            self.text += "\n"
            self.speakers.append(None)

    def _shorten(self) -> None:
        """Drop whole paragraphs, a fifth of the text at once: it is copied for that."""
        if len(self.text) <= _KEPT:
            return
        cut = self.text.find("\n", _KEPT // 5) + 1 or len(self.text) - _KEPT
        del self.speakers[: self.text.count("\n", 0, cut)]
        self.text, self.start = self.text[cut:], self.start + cut

    def _changed(self) -> None:
        self._messages.clear()
