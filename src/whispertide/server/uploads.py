"""Whole files, transcribed in threads of lower priority, one at a time or a few, next to the live sessions.

A file's audio is decoded here and never trusted: it may be short and hold days, or be no audio at all.
"""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import BinaryIO

from whispertide.api import Transcriber
from whispertide.audio.apart import file_channels
from whispertide.audio.file import count_seconds, decode_blocks, duration_of
from whispertide.channels import in_order
from whispertide.errors import AudioError, TruncatedAudioError, WhispertideError
from whispertide.options import MOST_CHANNELS, DecodeOptions
from whispertide.server.counting import counting
from whispertide.server.priority import lower_priority
from whispertide.types import FloatArray, OfflineSegment, seconds, to_samples

_NICE = 10
_PADDED_S = 1.0  # by encoders: packets may say a little more than they hold
_ARRIVING = 4  # as many files may come in at once, in multiples of those that may wait: they lie on the disk


class BusyError(Exception):
    """Too many files wait already."""


class TooLongError(WhispertideError):
    """The audio is longer than allowed. No `AudioError`: audio before one of those is transcribed."""


class TranscriptionJob:
    """One file to transcribe, with `multichannel` each of its channels by itself: then the limit is for all of them
    together. `samples` is the length of its audio so far, `warning` an error that ended it.
    """

    def __init__(
        self,
        transcriber: Transcriber,
        file: BinaryIO,
        options: DecodeOptions,
        limit_s: float,
        *,
        multichannel: bool = False,
    ) -> None:
        self.transcriber = transcriber
        self.multichannel = multichannel
        self.samples = 0
        self.warning = ""
        self._file = file
        self._options = options
        self._limit_s = limit_s
        self._channels = 1  # that are heard
        self._stop = threading.Event()

    async def segments(self, thread: Executor) -> AsyncGenerator[OfflineSegment, None]:
        """Yield the segments as they are done, in a thread that is this job's alone. Raises the errors of
        `Transcriber.transcribe_segments`, and `TooLongError`.
        """
        found = self._heard_apart() if self.multichannel else self._heard_whole()
        step = partial(asyncio.get_running_loop().run_in_executor, thread)
        try:
            # With a default, because a future cannot raise StopIteration.
            while (segment := await step(next, found, None)) is not None:
                yield segment
        finally:
            self._stop.set()
            await step(int)  # what was under way has ended

    def check_length(self) -> None:
        """Raises `TooLongError` for a file whose header promises too much audio and that holds it. Other errors are
        found when it is decoded.
        """
        at = self._file.tell()
        with contextlib.suppress(AudioError):
            stated_s = duration_of(self._file) or 0.0
            self._file.seek(at)
            if self.multichannel:
                self._channels = len(file_channels(self._file, most=MOST_CHANNELS))
            if stated_s > self._most_s:  # one that is cut off may have less
                self._count()
        self._file.seek(at)

    def _count(self) -> None:
        """Before anything is heard: its features would take minutes and much memory."""
        at, most_s = self._file.tell(), self._most_s + _PADDED_S
        if count_seconds(self._file, most_s) > most_s:
            raise self._too_long()
        self._file.seek(at)

    @property
    def _most_s(self) -> float:
        return self._limit_s / self._channels

    def _too_long(self) -> TooLongError:
        remedy = "Split it; a file that was cut off and states its old length must be written again"
        each = f", in each of {self._channels} channels" if self._channels > 1 else ""
        expected = f"expected at most {self._most_s:g} s of audio in a file{each}"
        return TooLongError(f"{expected}; this one has more. {remedy}")

    def _heard_whole(self) -> Iterator[OfflineSegment]:
        self._count()
        yield from self._heard(decode_blocks(self._file))

    def _heard_apart(self) -> Iterator[OfflineSegment]:
        """Transcribe one channel after the other; the segments come at the end, in the order of their times."""
        channels, heard = file_channels(self._file, most=MOST_CHANNELS), list[list[OfflineSegment]]()
        self._channels = len(channels)
        self._count()
        for channel in channels:
            heard.append([])
            for segment in self._heard(channel):
                if self._stop.is_set():
                    return
                heard[-1].append(segment)
        yield from in_order(heard)

    def _heard(self, blocks: Iterable[FloatArray]) -> Iterator[OfflineSegment]:
        return self.transcriber.transcribe_segments(self._intact(blocks), options=self._options)

    def _intact(self, blocks: Iterable[FloatArray]) -> Iterator[FloatArray]:
        """The audio, as far as it is intact."""
        limit, self.samples = to_samples(self._most_s), 0
        try:
            for block in blocks:
                if self._stop.is_set():
                    return
                self.samples += len(block)
                if self.samples > limit:  # its packets say less than they hold
                    raise self._too_long()
                yield block
        except TruncatedAudioError as error:
            self.warning = str(error)

    @property
    def duration_s(self) -> float:
        return seconds(self.samples)


class _Queues:
    """Queues of parties for a few places: only the first jobs of each party compete with those of the others."""

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._turn = asyncio.Semaphore(at_once)
        self._lines: dict[str, asyncio.Semaphore] = {}
        self._parties: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def turn(self, party: str) -> AsyncIterator[None]:
        """Wait for the turn of this party, and keep it."""
        line = self._lines.setdefault(party, asyncio.Semaphore(self._at_once))
        with counting(self._parties, party):
            try:
                async with line, self._turn:
                    yield
            finally:
                # The last of its party; else others of it stand in this line.
                if self._parties[party] == 1:
                    del self._lines[party]


class Uploads:
    """The queue of files: one is transcribed, or `at_once`; others wait or are still on their way, more are refused.
    `most` are transcribed or wait, so many for each that is transcribed at once.

    Places are shared by party: none can hold all of them, and of many files of one only the first (`at_once`)
    stand in line with those of the others. A party is an API key, or an address if there are no keys.
    """

    def __init__(self, most: int, at_once: int = 1) -> None:
        self.waiting: Counter[str] = Counter()
        self._arriving: Counter[str] = Counter()
        self._most = most * at_once
        self._lines = _Queues(at_once)
        self._free = [_thread("upload") for _ in range(at_once)]
        self._checks = _Queues()
        self._checker = _thread("check")

    @contextlib.contextmanager
    def receiving(self, party: str = "") -> Iterator[None]:
        """Hold a place while a file comes in. Raises `BusyError` if there is no room for it to wait, or too many come
        already.
        """
        self._check(self.waiting, party, self._most)
        with self._place(self._arriving, party, _ARRIVING * self._most):
            yield

    async def check(self, job: TranscriptionJob, party: str = "") -> None:
        """Check the length of one job at a time: to count packets takes a second. Also raises `BusyError`."""
        in_thread = partial(asyncio.get_running_loop().run_in_executor, self._checker)
        with self._place(self._arriving, party, _ARRIVING * self._most):
            async with self._checks.turn(party):
                try:
                    await in_thread(job.check_length)
                finally:
                    await in_thread(int)  # what was under way has ended

    async def run(self, job: TranscriptionJob, party: str = "") -> AsyncGenerator[OfflineSegment, None]:
        """Yield the job's segments, once it is its turn. Raises `BusyError` at once if there is no room to wait."""
        with self._place(self.waiting, party, self._most):
            async with (
                self._lines.turn(party),
                self._thread() as thread,
                contextlib.aclosing(job.segments(thread)) as segments,
            ):
                async for segment in segments:
                    yield segment

    @contextlib.asynccontextmanager
    async def _thread(self) -> AsyncIterator[Executor]:
        """Borrow a thread that no other job has: waiting for it is waiting for the job alone."""
        thread = self._free.pop()
        try:
            yield thread
        finally:
            self._free.append(thread)

    @contextlib.contextmanager
    def _place(self, places: Counter[str], party: str, most: int) -> Iterator[None]:
        self._check(places, party, most)
        with counting(places, party):
            yield

    def _check(self, places: Counter[str], party: str, most: int) -> None:
        share = most - most // 4  # the rest is for the others
        if places.total() >= most or places[party] >= share:
            raise BusyError(f"expected at most {share} files of one client at once, {most} in all; try later")


def _thread(name: str) -> Executor:
    """A thread of lower priority than live sessions."""
    return ThreadPoolExecutor(1, name, partial(lower_priority, _NICE))


def join_text(segments: Iterable[OfflineSegment]) -> str:
    return "".join(segment.text for segment in segments).strip()
