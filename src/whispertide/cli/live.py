"""The live view: confirmed text plain, the guess after it dim, and a status line, redrawn in place.

Finished lines scroll into the terminal's own history, so a long session can be read back. Between two frames the
cursor rests at the *top* of what is redrawn: a terminal that reflows its lines on a resize takes the cursor along, so
drawing from there is right at any width (counting the lines up from the bottom, as rich.live does, is not).
Knows events and figures; knows nothing of audio or models.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from whispertide.cli.exit import wrapped
from whispertide.cli.hints import language_hint
from whispertide.cli.meter import Meter
from whispertide.cli.pump import Watcher
from whispertide.events import (
    Confirmed,
    Correction,
    End,
    Error,
    Event,
    Hypothesis,
    Language,
    Translation,
    TurnEnd,
    failure_of,
)
from whispertide.formats.document import PAUSE, TextSegment
from whispertide.types import Word, seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PARAGRAPH = 2 * PAUSE  # a silence that begins a new line on the screen
_FRAME_S = 0.1
# Each row is erased as a whole, so that a terminal that had wrapped it in a resize forgets that; what is below the
# last row is erased from there, because "erase all below" at the top of the screen begins a new page in tmux.
_ERASE_ROW, _ERASE_BELOW = "\x1b[2K", "\x1b[J"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # synchronised update: drawn at once, or ignored by older terminals


@dataclass(frozen=True, slots=True)
class _Row:
    """One screen row: `text[start:end]`; the next row begins at `after`."""

    start: int
    end: int
    after: int


def wrap(text: str, width: int) -> list[_Row]:
    """Break `text` into rows of at most `width` terminal cells, at spaces where possible, and at each newline."""
    from rich.cells import cell_len

    rows: list[_Row] = []
    start = at = cells = 0
    space = -1
    while at < len(text):
        if text[at] == "\n":
            rows.append(_Row(start, at, at + 1))
            start, cells, space = at + 1, 0, -1
        elif (wide := cell_len(text[at])) + cells > width and at > start:
            end = at if text[at] == " " else space if space > start else at
            after = end + (text[end] == " ")
            rows.append(_Row(start, end, after))
            at = start = after
            cells, space = 0, -1
            continue
        else:
            space = at if text[at] == " " else space
            cells += wide
        at += 1
    if start < len(text):
        rows.append(_Row(start, len(text), len(text)))
    return rows


@dataclass(slots=True)
class Captions:
    """The text on the screen that may still change: confirmed words that do not fill a row yet, and the guess."""

    tail: str = ""
    guess: str = ""
    _last_end: int = 0
    _fresh: bool = True

    def take(self, event: Event) -> None:
        """Take what an event says of the text."""
        match event:
            case Confirmed(words=words):
                self.confirm(words)
            case Hypothesis(words=words):
                self.suppose(words)
            case TurnEnd() | End():
                self.suppose(())
            case Translation() | Correction():
                self.translate(event)

    def confirm(self, words: Sequence[Word]) -> None:
        """Append confirmed words; a long silence before a word begins a new line."""
        for word in words:
            if not self._fresh and word.start - self._last_end >= PARAGRAPH:
                self.tail, self._fresh = self.tail + "\n", True
            self.tail += word.text.lstrip() if self._fresh else word.text
            self._fresh, self._last_end = False, word.end

    def suppose(self, words: Sequence[Word]) -> None:
        """Replace the guess."""
        text = "".join(word.text for word in words)
        self.guess = text.lstrip() if self._fresh else text

    def end_lines(self, segments: Sequence[TextSegment]) -> None:
        """Finish lines of the transcript. Nothing on the screen depends on that, but see `two_lines`."""

    def translate(self, event: Translation | Correction) -> None:
        """Show a translation, where there is a second line."""

    def take_finished(self, width: int) -> list[str]:
        """Remove and return the rows that nothing can change any more: confirmed text goes on after them."""
        finished = []
        rows = wrap(self.tail + self.guess, width)
        for row in rows:
            ended = row.after > row.end and self.tail[row.end : row.after] == "\n"
            if not ended and row.after >= len(self.tail.rstrip(" ")):
                break
            finished.append(self.tail[row.start : row.end])
        if finished:
            self.tail = self.tail[rows[len(finished) - 1].after :]
        return finished

    def drawn_finished(self, width: int) -> "list[Text]":
        """The same, as they are drawn."""
        from rich.text import Text

        return [Text(row) for row in self.take_finished(width)]

    def drawn(self, width: int) -> "list[Text]":
        """The rows that remain, as they are drawn."""
        from rich.text import Text

        return [Text.assemble(known, (guess, "dim italic")) for known, guess in self.rows(width)]

    def rows(self, width: int) -> list[tuple[str, str]]:
        """The rows that remain, as (confirmed, guess)."""
        text, known = self.tail + self.guess, len(self.tail)
        return [
            (text[row.start : min(row.end, known)], text[max(row.start, known) : row.end])
            if row.start < known
            else ("", text[row.start : row.end])
            for row in wrap(text, width)
        ]


def status_line(parts: Sequence[tuple[str, int]], width: int) -> str:
    """Join the texts of `parts`, without those of the highest rank if there is not enough room for all."""
    for limit in sorted({rank for _, rank in parts}, reverse=True):
        line = " · ".join(text for text, rank in parts if rank <= limit)
        if len(line) <= width:
            return line
    return line[:width]


def clock_text(secs: float) -> str:
    """Format seconds: "1:05" or "1:02:05"."""
    minutes, rest = divmod(int(secs), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def warning_of(error: Error) -> str:
    """A failure in mid-run as a line."""
    return f"warning: {failure_of(error)}"


@dataclass(slots=True)
class LiveView(Watcher):
    """Draws captions and status on `console`, ten times a second from a thread of its own, until `close`.

    `duration_s` is that of the whole audio where it is known.
    """

    console: "Console"
    meter: Meter
    model: str
    recipe: str
    duration_s: float | None = None
    captions: Captions = field(default_factory=Captions)
    _notes: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def open(self) -> "LiveView":
        """Start drawing."""
        self._thread = threading.Thread(target=self._redraw, name="live-view", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Draw the last frame, of confirmed text alone, and give the cursor back."""
        if self._thread is None or self._closed.is_set():
            return
        self._closed.set()
        self._thread.join()
        self._draw(last=True)

    def event(self, event: Event) -> None:
        """Take note; the next frame shows it."""
        with self._lock:
            self.captions.take(event)
            match event:
                case Language(language=language, probability=probability):
                    self._notes += filter(None, [language_hint(language, probability)])
                case Error():
                    self._notes.append(warning_of(event))

    def lines(self, segments: Sequence[TextSegment]) -> None:
        """Take note of finished lines."""
        with self._lock:
            self.captions.end_lines(segments)

    def note(self, message: str) -> None:
        """Print a line for the user, above the captions."""
        with self._lock:
            self._notes.append(message)

    def frame(self, *, last: bool = False) -> "tuple[list[Text], list[Text]]":
        """Return the rows that go into the history now, and those to be redrawn. Rows are one cell narrower than the
        terminal, because some terminals wrap at a full row.
        """
        from rich.text import Text

        width = max(8, self.console.size.width - 1)
        with self._lock:
            if last:
                self.captions.suppose(())
            notes = "\n".join(wrapped(note, width) for note in self._notes)
            finished = [Text(row, style="yellow") for row in notes.splitlines()]
            self._notes.clear()
            finished += self.captions.drawn_finished(width)
            rows = self.captions.drawn(width)
        if last:
            return finished + rows, []
        room = max(1, self.console.size.height - 2)
        return finished, [*rows[-room:], Text(status_line(self._status(), width), style="cyan")]

    def _status(self) -> list[tuple[str, int]]:
        """Texts with their ranks; 0 is the most important."""
        meter = self.meter
        position = clock_text(seconds(meter.samples))
        if self.duration_s:
            position += f" of {clock_text(self.duration_s)}"
        median = meter.median_latency
        parts = [(self.model, 2), (self.recipe, 5), (position, 0)]
        if meter.live:
            parts.append((f"lag {meter.lag:.1f} s", 1))
        if meter.live and median is not None:
            parts.append((f"confirmed after {median:.1f} s", 3))
        parts.append((f"CPU {meter.cpu_percent():.0f} %", 4))
        if meter.level:
            parts.append((f"quality lowered by {meter.level}", 1))
        return parts

    def _redraw(self) -> None:
        while not self._closed.wait(_FRAME_S):
            self._draw()

    def _draw(self, *, last: bool = False) -> None:
        with suppress(OSError):  # the terminal was closed; the run goes on, or is about to be ended by a signal
            self.console.file.write(self._drawing(last=last))
            self.console.file.flush()

    def _drawing(self, *, last: bool) -> str:
        finished, rows = self.frame(last=last)
        drawn = _BEGIN + _HIDE + "\r" + "".join(f"{_ERASE_ROW}{self._paint(row)}\n" for row in finished)
        # A resize may have been and not been told yet: then rows are cut, and going up by their number is still right.
        drawn += _NO_WRAP + "\n".join(_ERASE_ROW + self._paint(row) for row in rows) + _WRAP + _ERASE_BELOW
        if len(rows) > 1:
            drawn += f"\x1b[{len(rows) - 1}A"
        return f"{drawn}\r{_SHOW if last else ''}{_END}"

    def _paint(self, row: "Text") -> str:
        with self.console.capture() as drawn:
            self.console.print(row, no_wrap=True, crop=False, end="")
        return drawn.get()
