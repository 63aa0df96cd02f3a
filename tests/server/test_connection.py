"""One connection by itself, with a transport that does what the test wants."""

import asyncio
import json
from typing import Any

import pytest

from served import KnowingModel, limited
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.connection import Connection
from whispertide.server.hub import Hub
from whispertide.server.observers import Observer
from whispertide.server.protocols.base import WireProtocol
from whispertide.server.protocols.deepgram import DeepgramProtocol
from whispertide.server.protocols.native import NativeProtocol
from whispertide.server.protocols.openai_realtime import OpenAIRealtimeProtocol
from whispertide.server.protocols.wyoming import Frame, WyomingProtocol, encode
from whispertide.server.restore import look_up
from whispertide.server.transport import GoneError
from whispertide.session import Session
from wire_conversation import opening


class Leaving:
    """A client that sends one message, and is gone when it is told the next thing."""

    def __init__(self, message: str) -> None:
        self.messages = [message]
        self.told = 0

    async def receive(self) -> str:
        if self.messages:
            return self.messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: str | bytes) -> None:
        self.told += 1
        if self.told > 1:
            raise GoneError

    async def close(self, code: int, reason: str) -> None:
        pass


def test_a_session_is_looked_up_for_nobody_who_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader is between two messages when the writer finds out: nobody waits for the answer any more."""

    async def run() -> None:
        hub = Hub({"nano.en": KnowingModel()}, get_recipe("whisper-streaming"), limited())  # type: ignore[dict-item]
        asked, given_up = asyncio.Event(), asyncio.Event()

        async def look_up(session: str, owner: str) -> None:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()

        async def between_messages(connection: Connection) -> None:
            await asked.wait()
            connection.problem("bad_request", "so that the writer has something to say", fatal=False)
            await asyncio.Event().wait()

        hub.look_up = look_up
        monkeypatch.setattr(Connection, "_wait_for_room", between_messages)
        transport: Any = Leaving('{"type":"resume","session":"another server\'s"}')
        await Connection(hub, NativeProtocol(opening()), transport, "").run()
        assert given_up.is_set()

    asyncio.run(asyncio.wait_for(run(), 30))


class Flood:
    """A client that sends these messages, all at once, and then nothing."""

    def __init__(self, messages: list[str | bytes]) -> None:
        self.messages = messages[::-1]
        self.code = 0

    async def receive(self) -> str | bytes:
        if self.messages:
            return self.messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: str | bytes) -> None:
        pass

    async def close(self, code: int, reason: str) -> None:
        self.code = code


PER_S = 500  # pieces that a connection may send, and four seconds' worth at once
APPEND = '{"type":"input_audio_buffer.append","audio":"AAAA"}'
CHUNK = encode(Frame("audio-chunk", {"rate": 16_000, "width": 2, "channels": 1}, bytes(2)))


@pytest.mark.parametrize(
    ("kind", "messages", "cost"),
    [
        pytest.param(NativeProtocol, [bytes(2)] * 4_000, 4_000, marks=pytest.mark.slow),
        (NativeProtocol, [bytes(2**20)] * 10, 10 * (32 * 5 + 32 * 10)),
        (NativeProtocol, ['{"type":"ack","seq":0,"why":"' + "x" * 2**20 + '"}'] * 10, 10 * 513),
        pytest.param(WyomingProtocol, [CHUNK * 200] * 20, 4_000, marks=pytest.mark.slow),
    ],
    ids=["tiny", "large", "text", "many in one"],
)
async def test_what_comes_is_paid_for(
    kind: type[WireProtocol], messages: list[str | bytes], cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is cut off for it: whoever sends more than is usual is read more slowly."""
    hub = Hub({"nano.en": KnowingModel()}, get_recipe("whisper-streaming"), limited(messages=1000, inbox_s=10**6))  # type: ignore[dict-item]
    hub.scheduler.wake = lambda live: None  # type: ignore[method-assign]
    monkeypatch.setattr("whispertide.server.hub._INBOX", 10**6)
    loop, sleep, waited = asyncio.get_running_loop(), asyncio.sleep, 0.0

    async def skipped(seconds: float) -> None:
        nonlocal waited
        waited += seconds
        await sleep(0)

    # Nobody waits in this test: the clock is moved on instead.
    monkeypatch.setattr(asyncio, "sleep", skipped)
    began, clock = loop.time(), loop.time
    monkeypatch.setattr(loop, "time", lambda: began + waited)
    transport: Any = Flood(messages)
    serving = asyncio.create_task(Connection(hub, kind(opening()), transport, "").run())
    while transport.messages:
        await sleep(0)
    for _ in range(100):
        await sleep(0)
    assert not transport.code
    assert waited == pytest.approx((cost - 4 * PER_S) / PER_S, rel=0.1)
    monkeypatch.setattr(loop, "time", clock)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


class Unhurried:
    """A client that reads slowly: each message, and the close frame, take it a moment. It sends these messages."""

    def __init__(self, *messages: str | bytes, every_s: float = 0.01) -> None:
        self.messages = list(messages)
        self.every_s = every_s
        self.told: list[str] = []
        self.code = 0

    async def receive(self) -> str | bytes:
        await asyncio.sleep(self.every_s if self.messages else 60)
        return self.messages.pop(0)

    async def send(self, message: str | bytes) -> None:
        await asyncio.sleep(0.1)
        self.told.append(str(message))

    async def close(self, code: int, reason: str) -> None:
        await asyncio.sleep(0.1)
        self.code = self.code or code  # nothing follows a close frame


async def test_a_client_that_reads_slowly_is_told_why_it_is_closed() -> None:
    """The connection reads no more, but it has not said everything yet."""
    hub = Hub({"nano.en": KnowingModel()}, get_recipe("whisper-streaming"), limited(idle_s=0.1))  # type: ignore[dict-item]
    transport: Any = Unhurried()
    await asyncio.wait_for(Connection(hub, NativeProtocol(opening()), transport, "").run(), 30)
    assert [json.loads(message)["type"] for message in transport.told] == ["hello", "problem"]
    assert transport.code == 4000


async def test_a_client_that_still_speaks_has_its_last_words_when_the_server_stops() -> None:
    hub = Hub({"nano.en": KnowingModel()}, get_recipe("whisper-streaming"), limited())  # type: ignore[dict-item]
    transport: Any = Unhurried(*['{"type":"keepalive"}'] * 100)
    connection = Connection(hub, NativeProtocol(opening()), transport, "")
    serving = asyncio.create_task(connection.run())
    await asyncio.sleep(0.05)
    connection.shut_down()
    await asyncio.wait_for(serving, 30)
    assert [json.loads(message)["type"] for message in transport.told] == ["hello", "problem"]
    assert transport.code == 1012


class Elsewhere:
    """A journal in which every session has moved to another server, and was over there."""

    async def owns(self, session: str) -> bool:
        return False

    async def claim(self, session: str, owner: str) -> None:
        return None


async def test_a_connection_whose_session_has_moved_is_closed_when_its_client_comes_back_here() -> None:
    """It was left open, without a session, and its client told that it is finishing."""
    hub = Hub({"nano.en": KnowingModel()}, get_recipe("whisper-streaming"), limited())  # type: ignore[dict-item]
    await hub.start()
    transport: Any = Unhurried('{"type":"start"}', *['{"type":"keepalive"}'] * 1000)
    serving = asyncio.create_task(Connection(hub, NativeProtocol(opening()), transport, "").run())
    async with asyncio.timeout(30):
        while not hub.sessions:
            await asyncio.sleep(0.01)
    (live,) = hub.sessions.values()
    live.observers.add(live, "journal", Observer)
    journal: Any = Elsewhere()
    await look_up(hub, journal, live.id, "")
    await asyncio.wait_for(serving, 30)
    assert transport.code == 4001
    assert not hub.sessions
    await hub.stop()


@pytest.mark.parametrize(
    ("kind", "messages"),
    [(NativeProtocol, ['{"type":"start"}']), (DeepgramProtocol, []), (OpenAIRealtimeProtocol, [APPEND])],
)
async def test_a_defect_is_no_normal_end(kind: type[WireProtocol], messages: list[str]) -> None:
    """Whether the session begins with the connection or with a message: 1000 would say that all is well."""

    def broken(*_: object, **__: object) -> Session:
        raise ZeroDivisionError("a defect")

    model = KnowingModel()
    model.session = broken  # type: ignore[method-assign]
    hub = Hub({"nano.en": model}, get_recipe("whisper-streaming"), limited(idle_s=1))  # type: ignore[dict-item]
    transport: Any = Unhurried(*messages)
    query = {} if kind is NativeProtocol else {"encoding": "linear16", "sample_rate": "16000"}
    await asyncio.wait_for(Connection(hub, kind(opening(**query)), transport, "").run(), 30)
    assert transport.code == 1011
