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
class Captions:
    """The text so far. Paragraphs end with a line feed; of a very long text the first paragraphs are gone.

    run       a name for this text: a position in another one means nothing here
    start     the position of the first character that is kept
    language  of the newest words, if it is known
    speaking  whether a session goes on
    second    the newest translation, or correction: the second line
    speakers  the number of the voice of each paragraph, None where nobody knows; each session has numbers of its own
    names     of voices, by their numbers here
    """

    run: str = field(default_factory=lambda: secrets.token_urlsafe(6))
    start: int = 0
    text: str = ""
    language: str | None = None
    speaking: bool = False
    second: str = ""
    speakers: list[int | None] = field(default_factory=lambda: [None])
    names: dict[int, str] = field(default_factory=dict)
    _voices: int = 0  # so many were heard
    _voices_before: int = 0  # in earlier sessions: nobody knows which of them speak in this one as well
    _guess: tuple[Word, ...] = ()
    _heard: int = 0  # the sample where the last word of this session ends
    _messages: dict[int, str] = field(default_factory=dict)  # of this moment, by the position they begin at

    @property
    def end(self) -> int:
        """The position after the last character."""
        return self.start + len(self.text)

    def begin(self, language: str | None) -> None:
        """Begin a session: its samples count from 0."""
        self._end_paragraph()
        self.speaking, self.language, self._heard, self.second = True, language, 0, ""
        self._voices_before = self._voices
        self._changed()

    def name(self, names: Mapping[int, str]) -> bool:
        """Name voices of this session, by their numbers in it, and no others. Returns whether that is new."""
        before, earlier = self.names, self._voices_before
        self.names = {number: name for number, name in before.items() if number <= earlier}
        self.names |= {earlier + number: name for number, name in names.items() if name}
        self._changed()
        return before != self.names

    def leave(self) -> None:
        """End the session; its text stays."""
        self._end_paragraph()
        self.speaking = False
        self._changed()

    def take(self, entries: Iterable[Entry]) -> bool:
        """Take what a session says. Returns whether there is anything new to read."""
        before = self._state
        for entry in entries:
            match entry:
                case Confirmed(words=words):
                    self._append(words)
                case Hypothesis(words=words):
                    if words and words[0].start - self._heard >= _PAUSE:
                        self._end_paragraph()
                    self._guess = words
                case TurnEnd():
                    self._guess = ()
                case Language(language=language):
                    self.language = language
                case Translation(text=text) | Correction(text=text):
                    self.second = text
                case End() | Error(fatal=True):
                    self.leave()
        changed = before != self._state
        if changed:
            self._changed()
        return changed

    @property
    def _state(self) -> tuple[object, ...]:
        return self.end, self._guess, self.language, self.speaking, self.second

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
            "guess": "".join(word.text for word in self._guess),
            "language": self.language,
            "speaking": self.speaking,
            "second": self.second,
        }
        if any(self.speakers):
            speakers = self.speakers[-1 - values["text"].count("\n") :]
            known = {number: self.names.get(number, speaker_name(number)) for number in self.speakers if number}
            values |= {"speakers": speakers, "names": known}
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))

    def _append(self, words: tuple[Word, ...]) -> None:
        paragraph = self.text[self.text.rfind("\n") + 1 :]
        added = ""
        for word in words:
            speaker = None if word.speaker is None else self._voices_before + word.speaker
            most = _LONG if ends_sentence(paragraph) else 3 * _LONG
            is_other = speaker != self.speakers[-1] and not goes_on(word.text)
            if paragraph and (is_other or len(paragraph) > most or word.start - self._heard >= _PAUSE):
                added, paragraph = added + "\n", ""
                self.speakers.append(None)
            if not paragraph:
                self.speakers[-1] = speaker
            self._voices = max(self._voices, speaker or 0)
            text = word.text.replace("\n", " ")  # where a paragraph ends is for us to say
            text = text if paragraph else text.lstrip()
            added, paragraph = added + text, paragraph + text
            self._heard = max(self._heard, word.end)
        self.text += added
        # The next guess may come later, and says nothing of these words.
        self._guess = tuple(word for word in self._guess if word.start >= self._heard)
        self._shorten()

    def _end_paragraph(self) -> None:
        self._guess = ()
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
