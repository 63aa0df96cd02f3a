"""One run from blocks of audio to its transcript: streamed as by `listen`, or a whole recording offline.

What was confirmed before an interrupt or an error is kept as a partial transcript.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from whispertide.api import Transcriber
from whispertide.atomic import printable
from whispertide.audio.whole import Recording
from whispertide.channels import ChannelSessions
from whispertide.cli.bundled import is_bundled_recording
from whispertide.cli.channel_captions import ChannelCaptions
from whispertide.cli.exit import ExitCode, code_for, say, speaking_through
from whispertide.cli.hints import EnglishOnly, english_hint, language_hint
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.live import LiveView, clock_text, warning_of
from whispertide.cli.meter import Meter
from whispertide.cli.output import Target, Writer
from whispertide.cli.pump import Pump, PumpResult, Watcher
from whispertide.cli.translations import ChosenTranslator, finish_translations, make_room
from whispertide.cli.two_lines import TwoLines
from whispertide.cli.watch import EventLines, ProgressBar, TextLines, Warnings, choose_view, terminal
from whispertide.errors import AudioError, OutputError
from whispertide.events import End, Error, Event
from whispertide.formats.document import Document, TextSegment, other_text
from whispertide.formats.files import get_format, json_line
from whispertide.formats.offline import OfflineRun
from whispertide.options import BUNDLED_MODEL, DEFAULT_MODEL, DecodeOptions, SubtitleOptions
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.translation.channels import ChannelTranslating
from whispertide.translation.recordings import take_segment
from whispertide.translation.translating import Translating
from whispertide.types import FloatArray, OfflineSegment, seconds


def warn_of_synthetic(transcriber: Transcriber, inputs: Sequence[str] = ()) -> None:
    """Warn that the bundled model is synthetic, for any audio but the bundled recording."""
    if transcriber.is_bundled and not (inputs and all(map(is_bundled_recording, inputs))):
        say(
            f"note: {BUNDLED_MODEL} was trained on synthetic speech; it is for demos and tests. "
            f"For real speech use --model {DEFAULT_MODEL}."
        )


@dataclass(slots=True)
class Job(ABC):
    """One run. `source` names the audio in messages and in JSON; `duration_s` is its length if it is known.

    targets     where the transcript goes, in one format each
    subtitles   how much a subtitle holds
    translator  translates what is confirmed
    place       of several inputs, before the name on the bar: "2/12 "
    result      the segments so far
    done        samples that were worked off
    interrupts  entered by `hear`, left when the transcript is in its place; if `pressed` then, no other input follows
    """

    transcriber: Transcriber
    options: DecodeOptions
    targets: Sequence[Target]
    source: str
    duration_s: float | None = None
    place: str = ""
    subtitles: SubtitleOptions = field(default_factory=SubtitleOptions, kw_only=True)
    translator: ChosenTranslator | None = field(default=None, kw_only=True)
    result: PumpResult = field(default_factory=PumpResult, init=False)
    done: int = field(default=0, init=False)
    interrupts: Interrupts = field(default_factory=Interrupts, init=False)
    as_it_comes: ClassVar[Sequence[str]]  # formats that are written while the run goes on

    def run(self, blocks: Iterable[FloatArray]) -> tuple[Document, ExitCode]:
        """Transcribe `blocks`; then the transcript is in its place, or on standard output.

        Raises `AudioError` where there was no audio, `OutputError`, and whatever the engine raises; what was confirmed
        before that is kept as a partial transcript.
        """
        writers = [Writer(target) for target in self.targets]
        others = self._other_writers()
        try:
            with ExitStack() as saved:
                try:
                    self.hear(blocks, writers, saved)
                except KeyboardInterrupt:
                    if not self.interrupts.pressed:  # before there was anything to lose
                        raise
                    self.result.interrupted = True
                except Exception:
                    self.result.interrupted = True
                    if self.result.segments:
                        self._save(writers, others)
                    raise
                document, place = self._save(writers, others)
        finally:
            for writer in (*writers, *(writer for writer, _ in others)):
                writer.discard()
        return document, self._conclude(place)

    @abstractmethod
    def hear(self, blocks: Iterable[FloatArray], writers: Sequence[Writer], saved: ExitStack) -> None:
        """Transcribe `blocks` into `result`; text that is written as it comes goes to `writers`. `interrupts` is
        entered into `saved`, before there is anything to lose.
        """

    @abstractmethod
    def document(self) -> Document:
        """The document so far."""

    @property
    def language(self) -> str | None:
        """The language of the speech: the option, the detected one, or the only one there is."""
        return self.transcriber.language_of(self.options, self.result.language)

    @property
    def only_english(self) -> bool:
        """True if the model was trained on English alone, on real voices."""
        return not self.transcriber.dims.is_multilingual and not self.transcriber.is_bundled

    def _other_writers(self) -> list[tuple[Writer, str | None]]:
        """The writers of translations, with their languages."""
        if self.translator is None:
            return []
        return [(Writer(target), language) for target, language in self.translator.targets(self.targets)]

    def _begin_translation(self, *, live: bool = False) -> Translating | None:
        if self.translator is None:
            return None
        apart = bool(self.translator.targets(self.targets))
        return self.translator.begin(self.transcriber, self.options, live=live, apart=apart)

    def _begin_translations(self, channels: int, *, live: bool = False) -> Translating | ChannelTranslating | None:
        """The translation of the session or recording, or of all channels."""
        each = [one for _ in range(channels or 1) if (one := self._begin_translation(live=live)) is not None]
        if not each or not channels:
            return each[0] if each else None
        return ChannelTranslating(each)

    def _save(self, writers: Sequence[Writer], others: Sequence[tuple[Writer, str | None]]) -> tuple[Document, str]:
        """Put the transcript in its places; returns it, and the paths."""
        # Where one Ctrl-C has ended the audio, the next ones must not cost all that was heard.
        with self.interrupts.holding():
            # Those of all channels in one order.
            document = replace(self.document(), others=tuple(sorted(self.result.others, key=lambda one: one.start)))
            texts = [(writer, document, self.as_it_comes) for writer in writers]
            texts += [(writer, document.other(language), ()) for writer, language in others]
            places, problems = list[str](), list[OutputError]()
            for writer, text, written in texts:
                try:
                    places.append(self._written(text, writer, written))
                except OutputError as error:  # of one format: the others may have room
                    problems.append(error)
        if problems:
            raise problems[0]
        return document, ", ".join(places)

    def _written(self, document: Document, writer: Writer, as_it_comes: Sequence[str]) -> str:
        """Put the transcript in one of its places; formats `as_it_comes` are written already. Returns the path."""
        form = writer.target.format
        if form == "json" and writer.target.shared:
            writer.write(json_line(document))
        elif form not in as_it_comes:
            writer.write(get_format(form, self.subtitles)(document))
        place = writer.finish(whole=not self.result.interrupted)
        return "standard output" if place is None else str(place)

    def _conclude(self, place: str) -> ExitCode:
        """Report an incomplete run; its exit code."""
        if self.result.interrupted:
            of = f" of {clock_text(self.duration_s)}" if self.duration_s else ""
            say(f"interrupted after {clock_text(seconds(self.done))}{of}; the confirmed text is in {place}")
            return ExitCode.INTERRUPTED
        if self.result.broken is not None:
            say(f"warning: {self.result.broken}")
            say(f"the transcript of the part that could be read is in {place}")
        if self.interrupts.pressed:  # when there was nothing left to hear
            say(f"interrupted; the transcript is in {place}")
            return ExitCode.INTERRUPTED
        return ExitCode.OK if self.result.broken is None else code_for(self.result.broken)


@dataclass(slots=True, kw_only=True)
class StreamJob(Job):
    """A run through a session; with `channels` each has one of its own, and blocks are [n, channels]. With `rest`
    Ctrl-C is the normal end (a microphone), and the audio up to then is the whole; see `Pump`.

    Where it is live, the model should be warm.
    """

    recipe: Recipe
    live: bool
    rest: Callable[[], FloatArray] | None = None
    channels: int = 0
    meter: Meter = field(init=False)
    as_it_comes: ClassVar = ("txt", "jsonl")

    def hear(self, blocks: Iterable[FloatArray], writers: Sequence[Writer], saved: ExitStack) -> None:
        """Push `blocks` into a session."""
        session = self._open()
        self.meter = Meter(self.live)
        translating = self._begin_translations(self.channels, live=self.live)
        pump = Pump(session, self.meter, rest=self.rest, result=self.result, translating=translating)
        saved.enter_context(self.interrupts)
        try:
            with self._shown(pump, writers):
                pump.run(blocks, self.interrupts)
        except BaseException:
            pump.close()
            raise
        finally:
            self.done = self.meter.samples
        if self.rest is not None:
            self.interrupts.pressed = False  # that was the end of the audio, as meant

    def _open(self) -> Session | ChannelSessions:
        about: dict[str, Any] = {"options": self.options, "live": self.live}
        if self.channels:
            return self.transcriber.channel_sessions(self.channels, self.recipe, **about)
        return self.transcriber.session(self.recipe, **about)

    @contextmanager
    def _shown(self, pump: Pump, writers: Sequence[Writer]) -> Iterator[None]:
        """Attach the writers and views of the run."""
        out, err = terminal(sys.stdout), terminal(sys.stderr)
        name = choose_view(
            self.targets[0], live=self.live, out_is_terminal=out is not None, err_is_terminal=err is not None
        )
        view: LiveView | ProgressBar | None = None
        if name == "progress" and err is not None:
            view = ProgressBar(err, self.place + self.source, self.duration_s)
        elif name != "none" and (console := out if name == "live on stdout" else err) is not None:
            view = LiveView(console, pump.meter, self.transcriber.name, self.recipe.name, self.duration_s)
            expected = 0 if self.translator is None else len(self.translator.options.targets)
            if self.channels:
                view.captions = ChannelCaptions(expected=expected)
            elif expected:
                view.captions = TwoLines(expected=expected)
        watchers: list[Watcher] = [Warnings()] if not isinstance(view, LiveView) else []
        if self.only_english:
            watchers.append(EnglishOnly(self.transcriber.name))
        for writer in writers:
            if writer.target.format == "jsonl":
                watchers.append(EventLines(writer))
            elif writer.target.format == "txt" and not (name == "live on stdout" and writer.target.path is None):
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
        """The confirmed text, with the figures of the run."""
        return Document(
            tuple(sorted(self.result.segments, key=lambda segment: segment.start)),  # those of all channels
            language=self.language,
            duration=self.meter.samples,
            model=printable(self.transcriber.name),
            recipe=self.recipe.name,
            source=self.source,
            complete=self.result.complete,
            metrics=self.meter.summary(),
        )


@dataclass(slots=True)
class OfflineJob(Job):
    """A run window by window. `framing` is how windows reach the encoder; None: as by openai/whisper and
    faster-whisper. `vad`: a voice gate finds the speech.
    """

    framing: str | None = None
    vad: bool = True
    run_over: OfflineRun = field(init=False)
    as_it_comes: ClassVar[Sequence[str]] = ("txt",)

    @property
    def apart(self) -> int:
        """The number of channels that are heard by themselves; 0: they are mixed."""
        return 0

    def hear(self, blocks: Iterable[FloatArray], writers: Sequence[Writer], saved: ExitStack) -> None:
        """Transcribe `blocks`; an interrupt keeps the segments that are done."""
        saved.enter_context(self.interrupts)
        as_they_come = [writer for writer in writers if writer.target.format in self.as_it_comes]
        texts, whole = [TextLines(writer) for writer in as_they_come], False
        translating = self._begin_translations(self.apart)

        def tell(event: Event) -> None:
            for one in texts:
                one.event(event)
            if isinstance(event, Error):
                say(warning_of(event))
            elif other := other_text(event):
                self.result.others.append(other)

        self.run_over = OfflineRun(Recording(blocks), self.result.segments)
        with self._bar() as show:
            try:
                with self.interrupts.waiting():
                    for segment in self.heard(show):
                        if not self.result.segments and (
                            hint := language_hint(segment.language, segment.language_probability)
                        ):
                            say(hint)
                        self.result.language = segment.language
                        self.run_over.add(TextSegment.of(segment))
                        for lines in texts:
                            lines.lines(self.result.segments[-1:])
                        if translating is not None:
                            take_segment(translating, segment)
                            make_room(translating, self.interrupts, tell)
                whole = not self.interrupts.pressed
                if translating is not None:
                    translating.take(End(0, self.done, self.done))
                    finish_translations(translating, self.interrupts, tell, live=False)
            except KeyboardInterrupt:
                self.result.interrupted = True
            except AudioError:
                if not self.interrupts.pressed:
                    raise
            finally:
                if translating is not None:
                    translating.close()
            self.result.broken = self.run_over.recording.broken
            # What comes while the decoder calls back it takes for an error, or for the end, of its input.
            self.result.interrupted = self.result.interrupted or (self.interrupts.pressed and not whole)

    def heard(self, show: Callable[[int], None]) -> Iterator[OfflineSegment]:
        """Transcribe the recording of `run_over`; `show` is called with how far that is, in samples."""

        def progress(done: int, _: int) -> None:
            self.done = done
            show(done)

        return self.transcriber.transcribe_segments(
            self.run_over.recording, options=self.options, progress=progress, framing=self.framing, vad=self.vad
        )

    @contextmanager
    def _bar(self) -> Iterator[Callable[[int], None]]:
        """Show a bar on standard error if that is a terminal. Yields its setter, in samples."""
        console = terminal(sys.stderr)
        target = self.targets[0]
        if console is None or (sys.stdout.isatty() and target.path is None and target.format == "txt"):
            yield lambda _: None  # the lines that appear are progress enough
            return
        bar = ProgressBar(console, self.place + self.source, self.duration_s).open()
        try:
            yield lambda done: bar.show(seconds(done), self.run_over.wall)
        finally:
            bar.close()

    def _conclude(self, place: str) -> ExitCode:
        """Report the same, and a hint if the whole text is unlikely."""
        if self.only_english and (hint := english_hint(self.result.segments, self.transcriber.name)):
            say(hint)
        return Job._conclude(self, place)

    def document(self) -> Document:
        """The transcript, with the figures of the run."""
        return self.run_over.document(
            language=self.language,
            model=self.transcriber.name,
            source=self.source,
            interrupted=self.result.interrupted,
        )
