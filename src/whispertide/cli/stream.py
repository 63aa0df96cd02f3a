"""One streaming run: what `transcribe`, `listen` and `demo` share."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from whispertide.cli.exit import speaking_through
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.job import Job
from whispertide.cli.live import LiveView
from whispertide.cli.meter import Meter
from whispertide.cli.output import Writer
from whispertide.cli.pump import Pump, Watcher
from whispertide.cli.watch import EventLines, ProgressBar, TextLines, Warnings, choose_view, terminal
from whispertide.formats.document import Document
from whispertide.types import FloatArray

if TYPE_CHECKING:
    from whispertide.streaming.recipe import Recipe


@dataclass(slots=True, kw_only=True)
class StreamJob(Job):
    """With `rest` Ctrl-C is the normal end (a microphone), and what was heard up to then is the whole; see `Pump`."""

    recipe: "Recipe"
    live: bool
    rest: Callable[[], FloatArray] | None = None
    meter: Meter = field(init=False)
    as_it_comes: ClassVar = ("txt", "jsonl")

    def hear(self, blocks: Iterable[FloatArray], writer: Writer) -> None:
        """Push `blocks` into a session."""
        session = self.transcriber.session(self.recipe, options=self.options, live=self.live)
        if self.live:
            self.transcriber.warm_up()
        self.meter = Meter(self.live)
        pump = Pump(session, self.meter, rest=self.rest, heard=self.heard)
        try:
            with self._shown(pump, writer), Interrupts() as interrupts:
                pump.run(blocks, interrupts)
        except Exception:
            pump.close()
            raise
        finally:
            self.done = self.meter.samples

    @contextmanager
    def _shown(self, pump: Pump, writer: Writer) -> Iterator[None]:
        """Attach whatever writes and draws during the run."""
        out, err = terminal(sys.stdout), terminal(sys.stderr)
        name = choose_view(
            self.target, live=self.live, out_is_terminal=out is not None, err_is_terminal=err is not None
        )
        view: LiveView | ProgressBar | None = None
        if name == "progress" and err is not None:
            view = ProgressBar(err, self.place + self.source, self.duration_s)
        elif name != "none" and (console := out if name == "live on stdout" else err) is not None:
            view = LiveView(console, pump.meter, self.transcriber.name, self.recipe.name, self.duration_s)
        watchers: list[Watcher] = [Warnings()] if not isinstance(view, LiveView) else []
        if self.target.format == "jsonl":
            watchers.append(EventLines(writer))
        elif self.target.format == "txt" and not (name == "live on stdout" and self.target.path is None):
            watchers.append(TextLines(writer))
        if view is None:
            pump.watchers = watchers
            yield
            return
        pump.watchers = [*watchers, view.open()]
        speaker = speaking_through(view.note) if isinstance(view, LiveView) else nullcontext()
        try:
            with speaker:
                yield
        finally:
            view.close()

    def document(self) -> Document:
        """What was confirmed, with the figures of the run."""
        return Document(
            tuple(self.heard.segments),
            language=self.language,
            duration=self.meter.samples,
            model=self.transcriber.name,
            recipe=self.recipe.name,
            source=self.source,
            complete=self.heard.complete,
            metrics=self.meter.summary(),
        )
