"""One streaming run from blocks of audio to a transcript in its place: what `transcribe`, `listen` and `demo` share."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whispertide.cli.exit import ExitCode, speaking_through
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.job import conclude, language_of, opened, save
from whispertide.cli.live import LiveView
from whispertide.cli.meter import Meter
from whispertide.cli.output import Target, Writer
from whispertide.cli.pump import Pump, Watcher
from whispertide.cli.watch import EventLines, ProgressBar, TextLines, Warnings, choose_view, terminal
from whispertide.formats.document import Document
from whispertide.options import DecodeOptions
from whispertide.types import FloatArray

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.streaming.recipe import Recipe

AS_IT_COMES = ("txt", "jsonl")  # formats that are written while the run goes on


@dataclass(frozen=True, slots=True)
class StreamJob:
    """One run. `source` names the audio in messages and in JSON; `duration_s` is its length where that is known.

    With `rest` Ctrl-C is the normal end (a microphone), and what was heard up to then is the whole; see `Pump`.
    """

    transcriber: "Transcriber"
    recipe: "Recipe"
    options: DecodeOptions
    target: Target
    live: bool
    source: str
    vad: bool | None = None
    duration_s: float | None = None
    rest: Callable[[], FloatArray] | None = None
    place: str = ""  # of several, before the name on the bar: "2/12 "

    def run(self, blocks: Iterable[FloatArray]) -> tuple[Document, ExitCode]:
        """Transcribe `blocks`; afterwards the transcript is in its place, or on standard output.

        Raises `AudioError` where there was no audio, `OutputError`, and whatever the engine raises; what was confirmed
        before that is kept as a partial transcript.
        """
        session = self.transcriber.session(self.recipe, options=self.options, vad=self.vad, live=self.live)
        if self.live:
            self.transcriber.warm_up()
        pump = Pump(session, Meter(self.live), rest=self.rest)
        with opened(self.target) as writer:
            try:
                with self._shown(pump, writer), Interrupts() as interrupts:
                    pump.run(blocks, interrupts)
            except Exception:
                if pump.close().segments:
                    save(writer, self.target, self._document(pump), whole=False, as_it_came=AS_IT_COMES)
                raise
            document = self._document(pump)
            place = save(writer, self.target, document, whole=not pump.heard.interrupted, as_it_came=AS_IT_COMES)
        return document, conclude(pump.heard, place, done=document.duration, duration_s=self.duration_s)

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

    def _document(self, pump: Pump) -> Document:
        heard = pump.heard
        return Document(
            tuple(heard.segments),
            language=language_of(self.transcriber, self.options, heard.language),
            duration=pump.meter.samples,
            model=self.transcriber.name,
            recipe=self.recipe.name,
            source=self.source,
            complete=heard.complete,
            metrics=pump.meter.summary(),
        )
