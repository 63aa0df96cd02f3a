"""Views of a run besides the live one: text lines, event lines, a progress bar; and the choice among them.

Knows nothing of audio or models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from whispertide.cli.exit import say
from whispertide.cli.hints import language_hint
from whispertide.cli.live import clock_text, warning_of
from whispertide.cli.meter import Meter
from whispertide.cli.output import Target, Writer
from whispertide.cli.pump import Watcher
from whispertide.cli.translations import line_of
from whispertide.events import Error, Event, Language
from whispertide.formats.document import Document, TextSegment, other_text
from whispertide.formats.files import event_line, render_txt
from whispertide.types import seconds

if TYPE_CHECKING:
    from rich.console import Console

_ViewName = Literal["live on stdout", "live on stderr", "progress", "none"]


def choose_view(target: Target, *, live: bool, out_is_terminal: bool, err_is_terminal: bool) -> _ViewName:
    """Choose the view. The live view needs a terminal that carries no transcript of its own; on standard output it
    replaces plain text lines, since its finished lines are the transcript.
    """
    out_is_free = target.path is not None or target.format == "txt"
    if out_is_terminal and out_is_free and (live or target.path is None):
        return "live on stdout"
    if out_is_terminal and target.path is None and target.format == "jsonl":
        return "none"  # lines appear as they happen; a second drawing on the same screen would tear them
    if not err_is_terminal:
        return "none"
    return "live on stderr" if live else "progress"


def terminal(stream: Any) -> "Console | None":
    """Make a console on `stream` if it is a terminal that can redraw, else None."""
    if not stream.isatty():  # rich would also believe FORCE_COLOR
        return None
    from rich.console import Console

    console = Console(file=stream, highlight=False)
    return console if not console.is_dumb_terminal and not console.legacy_windows else None


@dataclass(slots=True)
class TextLines(Watcher):
    """Writes each finished segment as a line at once; on standard output also translations, when they come."""

    writer: Writer

    def event(self, event: Event) -> None:
        if self.writer.target.path is None and (other := other_text(event)):
            self.writer.write(line_of(other) + "\n")

    def lines(self, segments: Sequence[TextSegment]) -> None:
        self.writer.write(render_txt(Document(tuple(segments))))


@dataclass(slots=True)
class EventLines(Watcher):
    """Writes each event as a line of JSON at once."""

    writer: Writer

    def event(self, event: Event) -> None:
        self.writer.write(event_line(event))


class Warnings(Watcher):
    """Prints failures in mid-run, and a weak guess of the language, if there is no live view."""

    def event(self, event: Event) -> None:
        if isinstance(event, Error):
            say(warning_of(event))
        if isinstance(event, Language) and (hint := language_hint(event.language, event.probability)):
            say(hint)


class ProgressBar(Watcher):
    """A bar on standard error: audio done of the whole, speed, time left."""

    def __init__(self, console: "Console", label: str, duration_s: float | None) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task(label, total=duration_s, done="")

    def open(self) -> "ProgressBar":
        """Start drawing."""
        self._bar.start()
        return self

    def close(self) -> None:
        self._bar.stop()

    def show(self, done_s: float, wall_s: float) -> None:
        """Show seconds of audio done in wall seconds."""
        speed = f" · {done_s / wall_s:.1f}x real time" if wall_s > 0.5 else ""
        self._bar.update(self._task, completed=done_s, done=clock_text(done_s) + speed)

    def tick(self, meter: Meter) -> None:
        self.show(seconds(meter.samples), meter.wall)
