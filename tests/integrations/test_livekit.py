"""The plug-in's streams and recordings; skipped where LiveKit Agents is not installed (`make agents`)."""

import asyncio
import socket
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from served import TEXT, in_thread, keyed, served
from whispertide.server.options import Address
from whispertide.server.serving import Server

MISSING = "livekit-agents is not installed: make agents"
KEY = "a-secret-key"


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    pytest.importorskip("livekit.agents", reason=MISSING)
    from whispertide_agents import livekit

    return livekit


@pytest.fixture(scope="module")
def rtc() -> Any:
    return pytest.importorskip("livekit.rtc", reason=MISSING)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with in_thread(served(keyed(KEY))) as (server, _):
        yield server


def recogniser(plugin: Any, server: Server, **settings: Any) -> Any:
    return plugin.STT(url=f"ws://127.0.0.1:{server.port}", **{"api_key": KEY, **settings})


def frame(rtc: Any, seconds: float = 1.0, rate: int = 16_000, channels: int = 1) -> Any:
    samples = round(seconds * rate)
    return rtc.AudioFrame(bytes(2 * samples * channels), rate, channels, samples)


def plain(text: str) -> list[str]:
    return [word.strip(" ,.!").lower() for word in text.split()]


def texts(events: list[Any], kind: str) -> list[str]:
    return [word for event in events if event.type == kind for word in plain(event.alternatives[0].text)]


def test_a_stream_says_every_word_once(plugin: Any, rtc: Any, server: Server) -> None:
    async def talk() -> list[Any]:
        async with asyncio.timeout(60), recogniser(plugin, server).stream() as stream:
            for _ in range(11):
                stream.push_frame(frame(rtc))
            stream.end_input()
            return [event async for event in stream]

    events = asyncio.run(talk())
    assert texts(events, "final_transcript") == TEXT
    assert texts(events, "interim_transcript")
    kinds = [event.type for event in events if not event.type.endswith("transcript")]
    assert kinds[0] == "start_of_speech"
    assert "end_of_speech" in kinds
    used = sum(event.recognition_usage.audio_duration for event in events if event.recognition_usage)
    assert used == pytest.approx(11, abs=0.01)
    word = next(event for event in events if event.type == "final_transcript").alternatives[0].words[0]
    assert plain(word) == ["w0"]
    assert 0 <= word.start_time < word.end_time < 2


def test_a_flush_gives_the_words_and_the_stream_goes_on(plugin: Any, rtc: Any, server: Server) -> None:
    async def talk() -> tuple[list[Any], list[Any]]:
        async with asyncio.timeout(60), recogniser(plugin, server).stream() as stream:
            for _ in range(4):
                stream.push_frame(frame(rtc))
            stream.flush()
            first = []
            async for event in stream:
                first.append(event)
                if event.type == "end_of_speech" and texts(first, "final_transcript")[-1:] == ["w4"]:
                    break
            for _ in range(7):
                stream.push_frame(frame(rtc))
            stream.end_input()
            return first, [event async for event in stream]

    first, rest = asyncio.run(talk())
    assert texts(first, "final_transcript") + texts(rest, "final_transcript") == TEXT


def test_speech_that_may_be_over_goes_on(plugin: Any) -> None:
    """An eager end is a guess (docs/guides/turns.md), and an end of speech ends the user's turn."""
    heard = plugin._Heard("en")
    word = {"text": " Well", "start": 0.5, "end": 0.9, "probability": 0.9}
    ends = {"type": "turn_end", "at": 1.5, "end": 1.0, "confidence": 0.5}
    messages = [{"type": "confirmed", "at": 1.4, "words": [word]}, {**ends, "eager": True}, {**ends, "eager": False}]
    kinds = [[str(event.type.value) for event in heard.events(message)] for message in messages]
    assert kinds == [["start_of_speech", "final_transcript"], [], ["end_of_speech", "recognition_usage"]]


def test_a_whole_recording_of_another_rate(plugin: Any, rtc: Any, server: Server) -> None:
    async def recognise() -> Any:
        async with asyncio.timeout(60):
            return await recogniser(plugin, server).recognize([frame(rtc, 5.5, 48_000, 2), frame(rtc, 5.5, 48_000, 2)])

    event = asyncio.run(recognise())
    assert plain(event.alternatives[0].text) == TEXT
    assert event.request_id


def test_what_was_said_while_the_server_was_away_is_heard_once_it_is_back(plugin: Any, rtc: Any) -> None:
    """For longer than a session looks for it: LiveKit tries again with another one."""
    options = pytest.importorskip("livekit.agents", reason=MISSING).APIConnectOptions

    async def talk() -> list[Any]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = Address(port=free.getsockname()[1])
        stt = plugin.STT(url=f"ws://127.0.0.1:{address.port}")
        tried = asyncio.Event()
        stt.on("error", lambda _: tried.set())
        stream = stt.stream(conn_options=options(max_retry=5, retry_interval=0.2, timeout=0.2))
        async with asyncio.timeout(60), stream:
            for _ in range(5):
                stream.push_frame(frame(rtc))
            await tried.wait()
            for _ in range(6):
                stream.push_frame(frame(rtc))
            stream.end_input()
            async with served(address=address):
                return [event async for event in stream]

    events = asyncio.run(talk())
    assert texts(events, "final_transcript") == TEXT
    last = [event for event in events if event.type == "final_transcript"][-1].alternatives[0]
    assert 10 < last.end_time <= 11.5, "on the clock of all audio"


def test_a_key_that_is_refused_is_told_and_not_tried_again(plugin: Any, rtc: Any, server: Server) -> None:
    async def talk() -> None:
        async with asyncio.timeout(60), recogniser(plugin, server, api_key="another-key").stream() as stream:
            stream.push_frame(frame(rtc))
            async for _ in stream:
                pass

    with pytest.raises(Exception, match="the server answered 401"):
        asyncio.run(talk())
