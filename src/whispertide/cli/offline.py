"""One offline run: a whole recording, window after window, to a transcript in its place."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from whispertide.cli.exit import ExitCode
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.job import conclude, language_of, opened, save
from whispertide.cli.output import Target, Writer
from whispertide.cli.pump import Heard, Watcher
from whispertide.cli.watch import ProgressBar, TextLines, terminal
from whispertide.errors import AudioError
from whispertide.formats.document import Document, TextSegment
from whispertide.options import DecodeOptions
from whispertide.types import FloatArray, seconds

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.decoding.longform import OfflineSegment

RECIPE = "offline"  # what stands in place of a recipe's name
AS_IT_COMES = ("txt",)  # formats that are written while the run goes on


@dataclass(slots=True)
class Tolerant:
    """Audio up to where it breaks off: the error is kept, not raised, unless nothing came before it."""

    blocks: Iterable[FloatArray]
    samples: int = 0
    broken: AudioError | None = None

    def __iter__(self) -> Iterator[FloatArray]:
        try:
            for block in self.blocks:
                self.samples += len(block)
                yield block
        except AudioError as error:
            if self.samples == 0:
                raise
            self.broken = error
        if self.samples == 0:
            raise AudioError("there is no audio in it: it is empty")


@dataclass(slots=True)
class OfflineJob:
    """One run. `source` names the audio in messages and in JSON; `duration_s` is its length where that is known.

    `framing` is how windows reach the encoder.
    """

    transcriber: "Transcriber"
    options: DecodeOptions
    target: Target
    source: str
    duration_s: float | None = None
    framing: str = "pad30"
    place: str = ""  # of several, before the name on the bar: "2/12 "
    _heard: Heard = field(default_factory=Heard)
    _done: int = 0
    _began: float = field(default_factory=time.perf_counter)
    _first_s: float | None = None
    _cpu: float = field(default_factory=time.process_time)

    def run(self, blocks: Iterable[FloatArray]) -> tuple[Document, ExitCode]:
        """Transcribe `blocks`; an interrupt keeps the segments that are done. Raises as `StreamJob.run` does."""
        audio = Tolerant(blocks)
        with opened(self.target) as writer:
            try:
                self._transcribe(audio, writer)
            except Exception:
                if self._heard.segments:
                    self._heard.interrupted = True
                    save(writer, self.target, self._document(audio), whole=False, as_it_came=AS_IT_COMES)
                raise
            self._heard.broken = audio.broken
            document = self._document(audio)
            place = save(writer, self.target, document, whole=not self._heard.interrupted, as_it_came=AS_IT_COMES)
        return document, conclude(self._heard, place, done=self._done, duration_s=self.duration_s)

    def _transcribe(self, audio: Tolerant, writer: Writer) -> None:
        lines = TextLines(writer) if self.target.format == "txt" else Watcher()
        with Interrupts() as interrupts, self._bar() as show:

            def progress(done: int, _: int) -> None:
                self._done = done
                show(done)

            try:
                with interrupts.waiting():
                    for segment in self.transcriber.transcribe_segments(
                        audio, options=self.options, progress=progress, framing=self.framing
                    ):
                        self._heard.language = segment.language
                        self._heard.segments.append(_text_segment(segment))
                        self._first_s = self._first_s or time.perf_counter() - self._began
                        lines.lines(self._heard.segments[-1:])
            except KeyboardInterrupt:
                self._heard.interrupted = True
            except AudioError:
                if not interrupts.pressed:
                    raise
            # What comes while the decoder calls back it takes for an error, or for the end, of its input.
            self._heard.interrupted = self._heard.interrupted or interrupts.pressed

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

    def _document(self, audio: Tolerant) -> Document:
        wall = time.perf_counter() - self._began
        length = seconds(audio.samples)
        return Document(
            tuple(self._heard.segments),
            language=language_of(self.transcriber, self.options, self._heard.language),
            duration=audio.samples,
            model=self.transcriber.name,
            recipe=RECIPE,
            source=self.source,
            complete=self._heard.complete,
            metrics={
                "audio_s": length,
                "wall_s": round(wall, 4),
                "real_time_factor": round(wall / length, 4) if length else None,
                "cpu_s": round(time.process_time() - self._cpu, 4),
                "first_text_s": None if self._first_s is None else round(self._first_s, 4),
            },
        )


def _text_segment(segment: "OfflineSegment") -> TextSegment:
    scores = {
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob,
        "temperature": segment.temperature,
    }
    return TextSegment(segment.span.start, segment.span.end, segment.text, segment.words, scores)
