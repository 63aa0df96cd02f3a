"""After a request that was refused, or failed, nothing of it is alive: neither its audio nor its file.

Python's collector of cycles is off meanwhile. It comes seldom where little is allocated, and an array of gigabytes
counts as one object. An error is the usual way to a cycle: it has a traceback, that the frames, and one of them the
error.
"""

import asyncio
import gc
import io
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest

from served import OfflineModel, limited, served, wav, web_client
from sounds import make_wav
from whispertide.audio.file import count_seconds, decode_blocks
from whispertide.errors import AudioError, GraphError, TruncatedAudioError
from whispertide.features import Features
from whispertide.server import rest as rest_module
from whispertide.server.uploads import TranscriptionJob
from whispertide.types import OfflineSegment

FAR = 10**6


class Watched(OfflineModel):
    """Makes features of all audio before it says a word, as the real one does, and knows which are alive."""

    def __init__(self, fails: Callable[[], Exception] | None = None, after: int = 0) -> None:
        super().__init__()
        self.fails, self.after = fails, after
        self.made: list[weakref.ref[Any]] = []
        self.begun, self.go = threading.Event(), threading.Event()
        self.go.set()

    def transcribe_segments(self, audio: Any, **settings: Any) -> Iterator[OfflineSegment]:
        kept: list[Any] = []

        def keeping() -> Iterator[Any]:
            for block in audio:
                kept.append(block)
                self.made.append(weakref.ref(block))
                yield block

        for number, segment in enumerate(super().transcribe_segments(keeping(), **settings)):
            self.begun.set()
            assert self.go.wait(60)
            if self.fails is not None and number >= self.after:
                raise self.fails()
            yield segment

    @property
    def alive(self) -> int:
        return sum(one() is not None for one in self.made)


@pytest.fixture(autouse=True)
def no_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(logging.getLogger("whispertide.server"), "disabled", True)  # pytest keeps what is logged
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list["weakref.ref[TranscriptionJob]"]:
    """Every file that was taken on."""
    found: list[weakref.ref[TranscriptionJob]] = []

    class Known(TranscriptionJob):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            found.append(weakref.ref(self))

    monkeypatch.setattr(rest_module, "TranscriptionJob", Known)
    return found


@asynccontextmanager
async def asked(model: OfflineModel, **limits: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Any]]:
    async with served(limited(**limits), model) as (server, hub), web_client(server) as client:
        yield client, hub


async def post(client: httpx.AsyncClient, data: bytes, **fields: str) -> httpx.Response:
    return await client.post("/v1/audio/transcriptions", files={"file": ("a.wav", data)}, data=fields)


async def gone(alive: Callable[[], int]) -> None:
    """Threads and callbacks may need a few turns to let go."""
    for _ in range(200):
        if not alive():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{alive()} are alive")


STREAMED = ("false", "true")


@pytest.mark.parametrize("stream", STREAMED)
@pytest.mark.parametrize(
    ("data", "make", "status"),
    [
        (wav(9), Watched, 413),
        (wav(3, promised=FAR), Watched, 200),
        (wav(4), lambda: Watched(lambda: AudioError("expected audio; got noise")), 400),
        (wav(4), lambda: Watched(lambda: GraphError("the graph failed")), 500),
        (wav(4), lambda: Watched(ZeroDivisionError), 500),
        (wav(4), lambda: Watched(lambda: GraphError("the graph failed"), after=1), 500),
        (wav(4), Watched, 200),
        (b"RIFF" + bytes(1000), Watched, 400),
    ],
    ids=["too-long", "cut-off", "no-audio", "failed", "defect", "failed-later", "fine", "nonsense"],
)
async def test_nothing_of_a_request_stays(
    data: bytes, make: Callable[[], Watched], status: int, stream: str, jobs: list["weakref.ref[TranscriptionJob]"]
) -> None:
    model = make()
    async with asked(model, upload_s=5) as (client, _):
        answer = await post(client, data, stream=stream)
        assert answer.status_code in (status, 200 if stream == "true" else status)
        await gone(lambda: model.alive + sum(job() is not None for job in jobs))
        assert jobs


@pytest.mark.parametrize(
    ("data", "fails", "status"),
    [(4, None, 413), (2, None, 200), (2, GraphError, 500), (0, None, 400)],
    ids=["too-long", "fine", "failed", "one-channel"],
)
async def test_nothing_of_channels_stays_that_were_heard_apart(
    data: float, fails: type[Exception] | None, status: int, jobs: list["weakref.ref[TranscriptionJob]"]
) -> None:
    model = Watched(fails)
    stereo = make_wav(np.zeros((round(16_000 * data), 2), np.float32), 16_000) if data else wav(2)
    async with asked(model, upload_s=5) as (client, _):
        assert (await post(client, stereo, multichannel="true")).status_code == status
        await gone(lambda: model.alive + sum(job() is not None for job in jobs))
        assert jobs


async def test_nothing_of_a_file_stays_whose_client_left(jobs: list["weakref.ref[TranscriptionJob]"]) -> None:
    model = Watched()
    model.go.clear()
    async with asked(model) as (client, _):
        waiting = asyncio.create_task(post(client, wav(4)))
        assert await asyncio.to_thread(model.begun.wait, 60)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        del waiting
        model.go.set()
        await gone(lambda: model.alive + sum(job() is not None for job in jobs))
        assert model.made


async def test_nothing_of_a_file_stays_that_the_server_gave_up(jobs: list["weakref.ref[TranscriptionJob]"]) -> None:
    model = Watched()
    model.go.clear()
    async with asked(model) as (client, hub):
        waiting = asyncio.create_task(post(client, wav(4)))
        assert await asyncio.to_thread(model.begun.wait, 60)
        hub.over.set()
        # The window under way is waited for.
        await asyncio.sleep(0)
        model.go.set()
        assert (await waiting).status_code in (200, 503)
        del waiting
        await gone(lambda: model.alive + sum(job() is not None for job in jobs))
        assert model.made


async def test_a_file_that_says_that_it_is_too_long_waits_for_nobody_and_is_not_decoded() -> None:
    model = Watched()
    model.go.clear()
    async with asked(model, upload_s=5) as (client, _):
        first = asyncio.create_task(post(client, wav(4)))
        assert await asyncio.to_thread(model.begun.wait, 60)
        before = len(model.made)
        answer = await post(client, wav(9))
        assert answer.status_code == 413
        assert "at most 5 s" in answer.json()["error"]["message"]
        assert len(model.made) == before
        model.go.set()
        assert (await first).status_code == 200


async def test_a_file_of_unknown_length_is_counted_before_anything_is_made_of_it() -> None:
    """FLAC that was written to a pipe does not say how long it is: its header has 0."""
    model = Watched()
    async with asked(model, upload_s=5) as (client, _):
        assert (await post(client, stating(flac(9), 0))).status_code == 413
        assert not model.made
        assert (await post(client, stating(flac(4), 0))).status_code == 200
        assert model.made


async def test_flac_that_states_too_much_is_refused_before_a_packet_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was cut off, and has less: it is told so."""
    read = 0

    def packet_s(*_: Any) -> float:
        nonlocal read
        read += 1
        return 0.1

    monkeypatch.setattr("whispertide.audio.track.Track._packet_s", packet_s)
    async with asked(Watched(), upload_s=5) as (client, _):
        answer = await post(client, stating(flac(2), 7))
        assert answer.status_code == 413
        assert "cut off" in answer.json()["error"]["message"]
        assert read == 0
        assert (await post(client, stating(flac(2), 6))).status_code == 200, "within the margin it is counted"
        assert read > 0


def test_flac_that_states_less_than_it_has_is_counted() -> None:
    assert count_seconds(io.BytesIO(stating(flac(9), 2)), 5) > 5
    assert count_seconds(io.BytesIO(stating(flac(2), 9)), 5) == pytest.approx(9)
    assert count_seconds(io.BytesIO(stating(flac(2), 9)), 60) == pytest.approx(2, abs=0.1)


def stating(data: bytes, seconds: int) -> bytes:
    """This FLAC file with another length in its STREAMINFO: 36 bits after the first 108 of that block (RFC 9639)."""
    at = data.index(b"fLaC") + 8 + 13
    whole = (data[at] & 0xF0) << 32 | seconds * 16_000
    return data[:at] + whole.to_bytes(5, "big") + data[at + 5 :]


def flac(seconds: int) -> bytes:
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="flac") as container:
        stream = container.add_stream("flac", rate=16_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, seconds * 16_000), np.int16), format="s16", layout="mono")
        frame.sample_rate = 16_000
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)
    return file.getvalue()


@pytest.mark.parametrize("seconds", [1, 7])
def test_counting_packets(seconds: int) -> None:
    assert count_seconds(io.BytesIO(wav(seconds)), 100) == pytest.approx(seconds)
    assert count_seconds(io.BytesIO(flac(seconds)), 100) == pytest.approx(seconds)
    assert 3 < count_seconds(io.BytesIO(stating(flac(seconds + 3), 0)), 3) < seconds + 3, "no further than it has to"
    assert count_seconds(io.BytesIO(wav(seconds, promised=FAR)), 100) == pytest.approx(seconds), "what is there"


def test_an_error_that_comes_after_the_audio_keeps_no_audio() -> None:
    def features() -> "weakref.ref[Any]":
        blocks = [weakref.ref(block) for block in decode_blocks(io.BytesIO(wav(3)))]
        assert not any(block() for block in blocks)
        made: list[weakref.ref[Any]] = []

        def watched() -> Iterator[Any]:
            for block in decode_blocks(io.BytesIO(wav(3, promised=FAR))):
                made.append(weakref.ref(block))
                yield block

        with pytest.raises(TruncatedAudioError):
            Features.of(watched(), 80)
        return made[-1]

    assert features()() is None
