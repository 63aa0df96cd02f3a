"""Captions on the screen of channels that are kept apart: a line grows for each, and goes up when it is finished."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from whispertide.cli.live import Captions
from whispertide.cli.two_lines import TranslatedCaptions
from whispertide.events import Confirmed, Correction, End, Event, Hypothesis, Translation, TurnEnd
from whispertide.formats.document import TextSegment
from whispertide.formats.files import named
from whispertide.types import Word

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(slots=True)
class _Line:
    """The line of a channel that grows: confirmed words, and the guess after them."""

    words: list[Word] = field(default_factory=list)
    guess: tuple[Word, ...] = ()

    def drawn(self, channel: int, width: int) -> "list[Text]":
        known, guess = ("".join(word.text for word in words) for words in (self.words, self.guess))
        both = named((known + guess).strip(), channel)
        at = len(both) - len(guess if known else guess.lstrip())
        return Captions(tail=both[:at], guess=both[at:]).drawn(width)


@dataclass(slots=True)
class ChannelCaptions(TranslatedCaptions):
    """As `TranslatedCaptions`, each line with the number of its channel before it."""

    _growing: dict[int, _Line] = field(default_factory=lambda: defaultdict(_Line))

    def take(self, event: Event) -> None:
        """Take what an event of a channel says of its text."""
        if event.channel is None:
            return
        line = self._growing[event.channel]
        match event:
            case Translation() | Correction():
                self.translate(event)
            case Confirmed(words=words):
                line.words += words
            case Hypothesis(words=words):
                line.guess = words
            case TurnEnd() | End():
                line.guess = ()

    def suppose(self, words: Sequence[Word]) -> None:
        """Drop all guesses: only channels have some."""
        for line in self._growing.values():
            line.guess = ()

    def end_lines(self, segments: Sequence[TextSegment]) -> None:
        """Finish lines: their words are the first of those that were confirmed in their channel."""
        for segment in segments:
            if segment.speaker is not None:
                del self._growing[segment.speaker].words[: len(segment.words)]
            self._finished.add(named(segment.text.strip(), segment.speaker), segment.end, segment.speaker)

    def drawn(self, width: int) -> "list[Text]":
        """The rows of finished lines that remain, and of the lines that grow, in the order of their channels."""
        growing = [row for channel, line in sorted(self._growing.items()) for row in line.drawn(channel, width)]
        return self._finished.drawn(width) + growing
