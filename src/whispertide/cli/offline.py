"""One offline run: a whole recording, window after window."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from whispertide.cli.interrupt import Interrupts
from whispertide.cli.job import Job
from whispertide.cli.output import Writer
from whispertide.cli.pump import Watcher
from whispertide.cli.watch import ProgressBar, TextLines, terminal
from whispertide.errors import AudioError
from whispertide.formats.document import Document
from whispertide.types import FloatArray, seconds


@dataclass(slots=True)
class OfflineJob(Job):
    """`framing` is how windows reach the encoder."""

    framing: str = "pad30"
    _samples: int = field(default=0, init=False)
    _began: float = field(default_factory=time.perf_counter, init=False)
    _first_s: float | None = field(default=None, init=False)
    _cpu: float = field(default_factory=time.process_time, init=False)
    as_it_comes: ClassVar = ("txt",)

    def hear(self, blocks: Iterable[FloatArray], writer: Writer) -> None:
        """Transcribe `blocks`; an interrupt keeps the segments that are done."""
        from whispertide.api import text_segment

        lines = TextLines(writer) if self.target.format == "txt" else Watcher()
        with Interrupts() as interrupts, self._bar() as show:

            def progress(done: int, _: int) -> None:
                self.done = done
                show(done)

            try:
                with interrupts.waiting():
                    for segment in self.transcriber.transcribe_segments(
                        self._whole(blocks), options=self.options, progress=progress, framing=self.framing
                    ):
                        self.heard.language = segment.language
                        self.heard.segments.append(text_segment(segment))
                        self._first_s = self._first_s or time.perf_counter() - self._began
                        lines.lines(self.heard.segments[-1:])
            except KeyboardInterrupt:
                self.heard.interrupted = True
            except AudioError:
                if not interrupts.pressed:
                    raise
            # What comes while the decoder calls back it takes for an error, or for the end, of its input.
            self.heard.interrupted = self.heard.interrupted or interrupts.pressed

    def _whole(self, blocks: Iterable[FloatArray]) -> Iterator[FloatArray]:
        """`blocks` up to where the audio breaks off: that error is kept, not raised, unless nothing came before it."""
        try:
            for block in blocks:
                self._samples += len(block)
                yield block
        except AudioError as error:
            if self._samples == 0:
                raise
            self.heard.broken = error
        if self._samples == 0:
            raise AudioError("there is no audio in it: it is empty")

    @contextmanager
    def _bar(self) -> Iterator[Callable[[int], None]]:
        """What is told how many samples are done: a bar on standard error where that is a terminal."""
        console = terminal(sys.stderr)
        if console is None or (sys.stdout.isatty() and self.target.path is None and self.target.format == "txt"):
            yield lambda _: None  # the lines that appear are progress enough
            return
        bar = ProgressBar(console, self.place + self.source, self.duration_s).open()
        try:
            yield lambda done: bar.show(seconds(done), time.perf_counter() - self._began)
        finally:
            bar.close()

    def document(self) -> Document:
        """What was heard, with the figures of the run."""
        wall = time.perf_counter() - self._began
        length = seconds(self._samples)
        return Document(
            tuple(self.heard.segments),
            language=self.language,
            duration=self._samples,
            model=self.transcriber.name,
            recipe="offline",
            source=self.source,
            complete=self.heard.complete,
            metrics={
                "audio_s": length,
                "wall_s": round(wall, 4),
                "real_time_factor": round(wall / length, 4) if length else None,
                "cpu_s": round(time.process_time() - self._cpu, 4),
                "first_text_s": None if self._first_s is None else round(self._first_s, 4),
            },
        )
