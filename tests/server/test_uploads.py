"""Whose turn it is with a file: shares and lines, without HTTP and without audio."""

import asyncio
import io
import threading
import wave
from collections.abc import AsyncGenerator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from whispertide.api import Transcriber
from whispertide.audio.whole import Recording
from whispertide.options import DecodeOptions
from whispertide.server.uploads import BusyError, TooLongError, TranscriptionJob, Uploads
from whispertide.types import FloatArray


@dataclass
class SlowJob:
    """Is done when it may, and notes that."""

    name: str
    done: list[str]
    may: asyncio.Event

    async def segments(self, _: object) -> AsyncGenerator[Any, None]:
        await self.may.wait()
        self.done.append(self.name)
        yield self.name


async def worked(uploads: Uploads, job: SlowJob, party: str) -> None:
    async for _ in uploads.run(cast(TranscriptionJob, job), party):
        pass


async def test_a_file_that_is_too_long_is_refused_before_any_of_it_is_heard() -> None:
    """Though of a recording that breaks off what came before is transcribed."""
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((1, 2, 16_000, 0, "NONE", ""))
        wav.writeframes(bytes(2 * 16_000 * 5))
    file.seek(0)

    def heard(blocks: Iterable[FloatArray], **_: Any) -> Iterator[str]:
        yield f"{sum(map(len, Recording(blocks)))} samples"

    transcriber = cast(Transcriber, SimpleNamespace(transcribe_segments=heard))
    with ThreadPoolExecutor(1) as thread:
        segments = TranscriptionJob(transcriber, file, DecodeOptions(), limit_s=3).segments(thread)
        with pytest.raises(TooLongError, match="at most 3 s of audio"):
            await anext(segments)


async def test_one_client_cannot_take_all_places() -> None:
    uploads, done, may = Uploads(8), list[str](), asyncio.Event()
    mine = [asyncio.create_task(worked(uploads, SlowJob("mine", done, may), "a")) for _ in range(7)]
    await asyncio.sleep(0)
    assert uploads.waiting == {"a": 6}
    may.set()
    await worked(uploads, SlowJob("theirs", done, may), "b")
    results = await asyncio.gather(*mine, return_exceptions=True)
    assert [type(result) for result in results].count(BusyError) == 1
    assert not uploads.waiting


def test_clients_take_turns() -> None:
    async def run() -> list[str]:
        uploads, done, may = Uploads(8), list[str](), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for name in ("a1", "a2", "a3", "a4", "b1", "b2"):
                tasks.create_task(worked(uploads, SlowJob(name, done, may), name[0]))
                await asyncio.sleep(0)
            may.set()
        assert not uploads._lines._lines
        return done

    assert asyncio.run(run()) == ["a1", "b1", "a2", "b2", "a3", "a4"]


@pytest.mark.parametrize("at_once", [1, 2, 3, 20])
def test_so_many_are_transcribed_at_once(at_once: int) -> None:
    """Also those of one client. Each has a thread of its own, which it gives back."""

    async def run() -> tuple[int, int]:
        uploads, running, threads, most = Uploads(8, at_once), 0, set[object](), 0

        class Counted:
            async def segments(self, thread: object) -> AsyncGenerator[Any, None]:
                nonlocal running, most
                running += 1
                most = max(most, running)
                threads.add(thread)
                await asyncio.sleep(0)
                running -= 1
                yield None

        async with asyncio.TaskGroup() as tasks:
            for _ in range(6 * at_once):
                tasks.create_task(worked(uploads, cast(Any, Counted()), "a"))
        return most, len(threads)

    assert asyncio.run(run()) == (at_once, at_once)


def test_with_several_at_once_clients_still_take_turns() -> None:
    async def run() -> list[str]:
        uploads, done, may = Uploads(8, 2), list[str](), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for name in ("a1", "a2", "a3", "a4", "b1"):
                tasks.create_task(worked(uploads, SlowJob(name, done, may), name[0]))
                await asyncio.sleep(0)
            may.set()
        return done

    assert asyncio.run(run()) == ["a1", "a2", "b1", "a3", "a4"]


def test_files_that_dribble_in_leave_places_for_others() -> None:
    uploads = Uploads(1)
    with uploads.receiving("a"), uploads.receiving("a"), uploads.receiving("a"):
        with pytest.raises(BusyError), uploads.receiving("a"):
            pass
        with uploads.receiving("b"):
            pass
    with uploads.receiving("a"):
        pass


class Checked:
    """Is looked at in the thread for that, when it may be."""

    def __init__(self, name: str, seen: list[str], may: threading.Event) -> None:
        self.name, self.seen, self.may = name, seen, may

    def check_length(self) -> None:
        self.seen.append(f"{self.name} begins")
        self.may.wait(30)
        self.seen.append(f"{self.name} ends")


async def test_lengths_are_counted_one_at_a_time_and_parties_take_turns() -> None:
    """To count packets takes a second of computing: four at once would take as many cores from live sessions."""
    uploads, seen, may = Uploads(8), list[str](), threading.Event()
    async with asyncio.TaskGroup() as tasks:
        for name in ("a1", "a2", "a3", "b1"):
            tasks.create_task(uploads.check(cast(TranscriptionJob, Checked(name, seen, may)), name[0]))
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert len(seen) <= 1
        may.set()
    assert seen == [f"{name} {what}" for name in ("a1", "b1", "a2", "a3") for what in ("begins", "ends")]
    assert not uploads._checks._lines


async def test_a_check_that_is_given_up_has_ended() -> None:
    """Its file is closed then."""
    uploads, seen, may = Uploads(8), list[str](), threading.Event()
    task = asyncio.create_task(uploads.check(cast(TranscriptionJob, Checked("a", seen, may)), "a"))
    while not seen:
        await asyncio.sleep(0.001)
    task.cancel()
    asyncio.get_running_loop().call_later(0.01, may.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["a begins", "a ends"]
