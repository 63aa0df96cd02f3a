"""The loop of `transcribe`, `listen` and `demo`: audio blocks in, a session's events out to all watchers.

Knows pace and interrupts; knows nothing of files, terminals or formats.
"""

import queue
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from whispertide.audio.file import rechunk
from whispertide.channels import ChannelSessions
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.meter import Meter
from whispertide.cli.translations import finish_translations, make_room
from whispertide.errors import AudioError
from whispertide.events import Confirmed, End, Event, Language, TurnEnd
from whispertide.formats.document import OtherText, Segmenter, TextSegment, other_text
from whispertide.session import Session
from whispertide.translation.channels import ChannelTranslating
from whispertide.translation.translating import Translating
from whispertide.types import SAMPLE_RATE, FloatArray

LIVE_BLOCK = SAMPLE_RATE // 10  # 0.1 s: how finely audio arrives

_POLL_S = 0.1  # how soon a wait for a microphone notices an interrupt


class Watcher:
    """Sees the run: a live view, a progress bar, a file of events. Each overrides the methods that it needs."""

    def event(self, event: Event) -> None:
        """Called after an event."""

    def lines(self, segments: Sequence[TextSegment]) -> None:
        """Called with the segments that have just been finished."""

    def tick(self, meter: Meter) -> None:
        """Called after each block."""


@dataclass(slots=True)
class PumpResult:
    """The confirmed segments so far, and how the run ended: `broken` is the error that ended the audio early."""

    segments: list[TextSegment] = field(default_factory=list)
    language: str | None = None
    interrupted: bool = False
    broken: AudioError | None = None
    others: list[OtherText] = field(default_factory=list)  # translations, corrections

    @property
    def complete(self) -> bool:
        """True if this is the transcript of the whole audio."""
        return not self.interrupted and self.broken is None


@dataclass(slots=True)
class Pump:
    """One run. Where channels are kept apart each has lines of its own. With `rest` an interrupt ends the audio (a
    microphone) rather than the work (a file): `rest` returns the audio that has arrived but was not taken yet, and the
    session is finished with it.
    """

    session: Session | ChannelSessions
    meter: Meter
    watchers: Sequence[Watcher] = ()
    rest: Callable[[], FloatArray] | None = None
    result: PumpResult = field(default_factory=PumpResult)
    translating: Translating | ChannelTranslating | None = None
    _segmenters: dict[int | None, Segmenter] = field(default_factory=lambda: defaultdict(Segmenter))  # by channel
    _interrupts: Interrupts = field(default_factory=Interrupts)
    _ends: list[End] = field(default_factory=list)  # while they wait for translations
    _seq: Counter[int | None] = field(default_factory=Counter)  # by channel

    def run(self, blocks: Iterable[FloatArray], interrupts: Interrupts) -> PumpResult:
        """Push all of `blocks`, then finish. An interrupt, or audio that breaks off, ends the run early.

        Raises `AudioError` where there was no audio at all.
        """
        self._interrupts = interrupts
        try:
            self._push_all(iter(blocks), interrupts)
            self._finish()
        except KeyboardInterrupt:
            self._close()
            self.result.interrupted = True
        self._end_lines()
        return self.result

    def close(self) -> PumpResult:
        """End the run after an error, and return the result so far."""
        self._close()
        self._end_lines()
        self.result.interrupted = True
        return self.result

    def _close(self) -> None:
        self.session.close()
        self._take(self.session.drain())  # of the rounds before the one that has failed, or was given up
        if self.translating is not None:
            self.translating.close()

    def _push_all(self, blocks: Iterator[FloatArray], interrupts: Interrupts) -> None:
        try:
            while not interrupts.pressed:
                # What `rest` gives must not be lost to an interrupt in the middle of fetching it.
                with interrupts.waiting() if self.rest is None else nullcontext():
                    block = next(blocks, None)
                if block is not None:
                    self._push(block)
                elif not interrupts.pressed:  # else the decoder took that for the end of its input
                    return
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            if self.rest is None:
                raise
            self._push(self.rest())
        except AudioError as error:
            # Ctrl-C ends the program that writes a pipe, too, which looks like audio that breaks off.
            if interrupts.pressed and self.rest is None:
                raise KeyboardInterrupt from error
            if self.meter.samples == 0:
                raise
            self.result.broken = error

    def _push(self, block: FloatArray) -> None:
        if self.meter.live:  # else what comes out would depend on how fast this machine is
            self._take(self.session.collect())
        if not len(block):
            return
        self.meter.audio(len(block))
        self._take(self.session.push(block))
        if self.translating is not None and not self.meter.live:
            make_room(self.translating, self._interrupts, self._tell)
        for watcher in self.watchers:
            watcher.tick(self.meter)

    def _finish(self) -> None:
        if self.meter.samples == 0 and self.rest is None:
            raise AudioError("there is no audio in it: it is empty")
        self._take(self.session.finish())
        if self.translating is not None and self._ends:
            finish_translations(self.translating, self._interrupts, self._tell, live=self.meter.live)
            for end in self._ends:
                self._tell(end)

    def _take(self, events: Iterable[Event]) -> None:
        translating = self.translating
        for event in events:
            if translating is not None:
                translating.take(event)
            if translating is not None and isinstance(event, End):
                self._ends.append(event)  # the last of all events
            else:
                self._tell(event)
        if translating is not None:
            for event in translating.ready():
                self._tell(event)

    def _tell(self, event: Event) -> None:
        if self.translating is not None:  # whose events have no numbers
            event = replace(event, seq=self._seq[event.channel])
            self._seq[event.channel] += 1
        self.meter.event(event)
        for watcher in self.watchers:
            watcher.event(event)
        if isinstance(event, Confirmed):
            self._lines(self._segmenters[event.channel].push(event.words))
        elif isinstance(event, TurnEnd) and not event.eager:
            self._lines(self._segmenters[event.channel].end_turn())
        elif isinstance(event, Language):
            self.result.language = event.language
        elif (other := other_text(event)) is not None:
            self.result.others.append(other)

    def _end_lines(self) -> None:
        for segmenter in self._segmenters.values():
            self._lines(segmenter.end_turn())

    def _lines(self, segments: Sequence[TextSegment]) -> None:
        if not segments:
            return
        self.result.segments += segments
        for watcher in self.watchers:
            watcher.lines(segments)


class Arrivals:
    """Audio as it arrives, read by a thread of its own: each block is all the audio since the last one.

    So a session that was busy gets one larger block, and not a queue of small ones that it never works off. While
    nothing comes there is an empty block now and then, so that their reader can look up.
    """

    def __init__(self, blocks: Iterable[FloatArray]) -> None:
        self._queue: queue.SimpleQueue[FloatArray | BaseException | None] = queue.SimpleQueue()
        self._ended: BaseException | None = None
        self._over = False
        # A daemon: a read from a pipe cannot be interrupted, and must not keep the program from ending.
        threading.Thread(target=self._read, args=(blocks,), name="audio-arrivals", daemon=True).start()

    def _read(self, blocks: Iterable[FloatArray]) -> None:
        try:
            for block in blocks:
                self._queue.put(block)
            self._queue.put(None)
        except BaseException as error:  # it belongs to whoever takes the blocks
            self._queue.put(error)

    def __iter__(self) -> Iterator[FloatArray]:
        while not self._over:
            yield self._collect(_POLL_S)
        if self._ended is not None:
            raise self._ended

    def rest(self) -> FloatArray:
        """The samples [n] that have arrived and were not taken (possibly none), without waiting."""
        return self._collect(0)

    def _collect(self, wait_s: float) -> FloatArray:
        parts: list[FloatArray] = []
        while not self._over:
            try:
                # Wait for the first part only: the others are taken as far as they are there.
                part = self._queue.get(timeout=wait_s) if wait_s and not parts else self._queue.get_nowait()
            except queue.Empty:
                break
            if isinstance(part, np.ndarray):
                parts.append(part)
            else:
                self._over, self._ended = True, part
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def at_full_speed(blocks: Iterable[FloatArray], step: int) -> Iterator[FloatArray]:
    """Yield audio as fast as it is taken, in the portions of a live run: rounds begin as they would there.

    `step` is how much new audio starts a round, in samples.
    """
    return rechunk(blocks, min(LIVE_BLOCK, step))


def at_live_pace(
    blocks: Iterable[FloatArray],
    *,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[FloatArray]:
    """Yield audio no faster than it would be spoken: each block holds all that has "arrived" since the last one.

    So a machine that falls behind gets larger blocks, as it would from a microphone. An `AudioError` comes after them.
    """
    arrived: list[FloatArray] = []
    samples = 0
    broken: AudioError | None = None
    began = clock()
    try:
        for block in rechunk(blocks, LIVE_BLOCK):
            due = began + (samples + len(block)) / SAMPLE_RATE
            if arrived and due > clock():
                yield np.concatenate(arrived)
                arrived = []
            if (wait := due - clock()) > 0:
                sleep(wait)
            arrived.append(block)
            samples += len(block)
    except AudioError as error:
        broken = error
    if arrived:
        yield np.concatenate(arrived)
    if broken is not None:
        raise broken
