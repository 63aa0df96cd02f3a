"""Captions on the screen with a second line: under each finished line of the transcript its translation.

Lines wait at the bottom of the screen for their translations, a few of them; with more the oldest goes up into the
terminal's history without, and its translation follows when it comes.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from whispertide.cli.live import Captions, wrap
from whispertide.cli.translations import line_of
from whispertide.events import Correction, Translation
from whispertide.formats.document import TextSegment, other_text
from whispertide.formats.files import named
from whispertide.types import Word

if TYPE_CHECKING:
    from rich.text import Text

_WAITING = 3  # lines without their translation that are kept
_STYLE = "green"


@dataclass(slots=True)
class _Pair:
    """A line of the transcript that ends at a sample, and what came of it; `text` is "" where it has gone up before.
    `channel` is its own where channels are apart.
    """

    text: str
    end: int
    channel: int | None = None
    others: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FinishedLines:
    """Lines of the transcript that are finished, until they go up. `expected` translations and corrections come of each
    line, or of several together; 0: none, and it goes up at once.
    """

    expected: int
    _pairs: deque[_Pair] = field(default_factory=deque)

    def add(self, text: str, end: int, channel: int | None = None) -> None:
        """Take a line that ends at a sample."""
        self._pairs.append(_Pair(text, end, channel))

    def translate(self, event: Translation | Correction) -> None:
        """Put a translation under the line of its channel where it ends; lines before that have theirs in it."""
        other = other_text(event)
        assert other is not None
        own = (pair for pair in self._pairs if pair.channel == event.channel)
        found = next((pair for pair in own if pair.end >= other.end), None)
        if found is None or found.end != other.end:
            found = _Pair("", other.end, event.channel)
            self._pairs.appendleft(found)
        found.others.append(line_of(other))

    def drawn_done(self, width: int) -> "list[Text]":
        """Remove and return the rows that nothing can change any more."""
        rows: list[Text] = []
        while self._pairs and (self._is_done(self._pairs[0]) or len(self._pairs) > _WAITING):
            rows += _rows(self._pairs.popleft(), width)
        return rows

    def drawn(self, width: int) -> "list[Text]":
        """The rows that remain."""
        return [row for pair in self._pairs for row in _rows(pair, width)]

    def _is_done(self, pair: _Pair) -> bool:
        own = (other for other in self._pairs if other.channel == pair.channel)
        later = (other for other in own if other.end >= pair.end and other is not pair)
        enough = len(pair.others) >= (self.expected if pair.text else 1)
        return enough or any(len(other.others) >= self.expected for other in later)


@dataclass(slots=True)
class TranslatedCaptions(Captions):
    """As `Captions`, of lines under which translations stand: `expected` of each line, or of several together."""

    expected: int = 0
    _finished: FinishedLines = field(init=False)

    def __post_init__(self) -> None:
        self._finished = FinishedLines(self.expected)

    def translate(self, event: Translation | Correction) -> None:
        """Put a translation under the line where it ends."""
        self._finished.translate(event)

    def drawn_finished(self, width: int) -> "list[Text]":
        """Remove and return the rows of finished lines that nothing can change any more."""
        return self._finished.drawn_done(width)


@dataclass(slots=True)
class TwoLines(TranslatedCaptions):
    """Captions of one speaker, or of all in one line."""

    _words: list[Word] = field(default_factory=list)  # of the line that grows

    def confirm(self, words: Sequence[Word]) -> None:
        """Append confirmed words to the line that grows."""
        self._words += words
        self._write()

    def end_lines(self, segments: Sequence[TextSegment]) -> None:
        """Finish lines: their words are the first of those that were confirmed."""
        for segment in segments:
            del self._words[: len(segment.words)]
            self._finished.add(named(segment.text.strip(), segment.speaker), segment.end)
        self._write()

    def drawn(self, width: int) -> "list[Text]":
        """The rows that remain."""
        return self._finished.drawn(width) + Captions.drawn(self, width)

    def _write(self) -> None:
        self.tail = "".join(word.text for word in self._words).lstrip()
        self._fresh = not self.tail


def _rows(pair: _Pair, width: int) -> "list[Text]":
    from rich.text import Text

    rows = [Text(pair.text[row.start : row.end]) for row in wrap(pair.text, width)]
    for other in pair.others:
        rows += [Text(other[row.start : row.end], style=_STYLE) for row in wrap(other, width)]
    return rows
