"""The client that the plug-ins share, with a real server: whatever happens to connections, every word comes once."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.utils import accept_key

from served import SECONDS, SILENCE, TEXT, KnowingModel, keyed, limited, served
from whispertide.server.hub import Hub
from whispertide_agents.session import Session, SessionError

KEY = "a-secret-key"


def words(messages: list[dict[str, Any]]) -> list[str]:
    said = [word for message in messages if message["type"] == "confirmed" for word in message["words"]]
    return [word["text"].strip(" ,.!").lower() for word in said]


async def heard(session: Session) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        return [message async for message in session]


async def until(session: Session, kind: str) -> list[dict[str, Any]]:
    """Read up to a message of this type."""
    messages = []
    async with asyncio.timeout(60):
        async for message in session:
            messages.append(message)
            if message["type"] == kind:
                break
    return messages


async def cut(hub: Hub) -> None:
    """Break every connection."""
    for connection in list(hub.connections):
        await connection.transport._socket.close(1011)  # type: ignore[attr-defined]


async def test_every_word_comes_and_then_the_end() -> None:
    async with served() as (server, _):
        session = Session(f"http://127.0.0.1:{server.port}/", rate=16_000)
        for _ in range(11):
            session.send(SILENCE[:15_999])  # cut anywhere, even in a sample
            session.send(SILENCE[15_999:])
        session.finish()
        messages = await heard(session)
        assert messages[0]["type"] == "session"
        assert words(messages) == TEXT
        assert messages[-1]["type"] == "end"
        assert messages[-1]["duration"] == SECONDS
        await session.aclose()


async def test_a_flush_is_answered_and_the_session_goes_on() -> None:
    async with served() as (server, _):
        session = Session(f"ws://127.0.0.1:{server.port}", rate=16_000)
        session.send(SILENCE * 4)
        session.flush()
        first = await until(session, "flushed")
        assert words(first) == TEXT[: len(words(first))]
        assert words(first)[-1] == "w4", "all that was said in four seconds"
        session.send(SILENCE * 7)
        session.finish()
        assert words(first) + words(await heard(session)) == TEXT
        await session.aclose()


@pytest.mark.parametrize("resume_s", [60.0, 0.0], ids=["resumed", "forgotten"])
async def test_a_connection_that_breaks_costs_no_word(resume_s: float) -> None:
    """Also where the server has forgotten the session: another one hears what was not confirmed."""
    async with served(limited(resume_s=resume_s)) as (server, hub):
        session = Session(f"ws://127.0.0.1:{server.port}", rate=16_000)
        session.send(SILENCE * 5)
        first = await until(session, "confirmed")
        await cut(hub)
        if not resume_s:
            for live in list(hub.sessions.values()):
                hub.drop(live)
        session.send(SILENCE * 6)
        session.finish()
        rest = await heard(session)
        if resume_s:
            assert words(first) + words(rest) == TEXT
        else:  # this model says its words anew, at their times in the new session
            starts = [word["start"] for message in rest if message["type"] == "confirmed" for word in message["words"]]
            assert min(starts) >= first[-1]["words"][-1]["end"]
            assert rest[-1]["duration"] == pytest.approx(SECONDS, abs=0.01)
        await session.aclose()


async def test_after_a_session_that_was_too_long_for_the_server_another_follows_however_long_it_lasted() -> None:
    """Patience is for a server that is gone. This one was there to the end."""
    patience_s = 0.5
    async with served(limited(session_s=4)) as (server, _):
        session = Session(f"ws://127.0.0.1:{server.port}", rate=16_000, patience_s=patience_s)
        session.send(SILENCE * 3)
        await until(session, "session")
        await asyncio.sleep(2 * patience_s)
        session.send(SILENCE * 3)
        session.finish()
        assert (await heard(session))[-1]["duration"] == pytest.approx(6, abs=0.01)
        await session.aclose()


async def test_what_cannot_be_is_told() -> None:
    async with served(keyed(KEY)) as (server, _):
        address = f"ws://127.0.0.1:{server.port}"
        keyless = Session(address, rate=16_000)
        with pytest.raises(SessionError, match="the server answered 401") as refused:
            await heard(keyless)
        assert refused.value.is_lasting
        wrong = Session(address, rate=16_000, api_key=KEY, settings={"model": "nobody's"})
        with pytest.raises(SessionError, match=r"expected a model among nano\.en") as refused:
            await heard(wrong)
        assert refused.value.is_lasting
        for session in (keyless, wrong):
            await session.aclose()


async def test_a_server_that_is_not_there_is_told_after_a_while() -> None:
    session = Session("ws://127.0.0.1:9", rate=16_000, patience_s=0.0)
    with pytest.raises(SessionError, match=r"expected a whispertide server at ws://127\.0\.0\.1:9/ws") as absent:
        await heard(session)
    assert not absent.value.is_lasting
    await session.aclose()


@asynccontextmanager
async def unanswered() -> AsyncIterator[Session]:
    """A session whose server greets it and says nothing more."""
    connected = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        (key,) = re.findall(r"(?i)sec-websocket-key: (\S+)", head)
        upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade"
        writer.write(f"{upgrade}\r\nSec-WebSocket-Accept: {accept_key(key)}\r\n\r\n".encode())
        await reader.readexactly(10)  # its first message: it has taken our answer
        connected.set_result(writer.transport)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        session = Session(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", rate=16_000)
        transport = await connected
        yield session
        transport.abort()
        assert session._socket is not None
        await session._socket.wait_closed()


async def test_a_server_that_answers_no_more_does_not_hold_whoever_leaves() -> None:
    """An agent's pipeline waits for it."""
    async with unanswered() as session:
        began = asyncio.get_running_loop().time()
        await session.aclose()
        assert asyncio.get_running_loop().time() - began < 5


async def test_whoever_leaves_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide_agents.session._LEAVE_S", 60.0)
    async with unanswered() as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await session.aclose()


async def test_of_a_session_that_failed_the_last_minute_stays_for_another() -> None:
    """A caller may go on sending for hours."""
    session = Session("ws://127.0.0.1:9", rate=16_000, patience_s=0.0)
    session.send(SILENCE + b"\x01\x02")
    with pytest.raises(SessionError):
        await heard(session)
    assert session.unconfirmed == (0.0, SILENCE + b"\x01\x02")
    for _ in range(100):
        session.send(SILENCE)
    start_s, audio = session.unconfirmed
    assert start_s == pytest.approx(41.0, abs=0.001)
    assert len(audio) == 60 * len(SILENCE)
    await session.aclose()


async def test_what_is_confirmed_is_not_for_another_session() -> None:
    async with served() as (server, _):
        session = Session(f"ws://127.0.0.1:{server.port}", rate=16_000)
        session.send(SILENCE * 4)
        session.flush()
        last = [message for message in await until(session, "flushed") if message["type"] == "turn_end"][-1]
        session.send(SILENCE)
        start_s, audio = session.unconfirmed
        assert start_s == last["end"]
        assert len(audio) / len(SILENCE) == pytest.approx(5 - start_s)
        await session.aclose()


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://x", "ws://"])
async def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected the address of a whispertide server"):
        Session(url, rate=16_000)


async def test_it_can_be_left_at_any_time() -> None:
    async with served(model=KnowingModel()) as (server, hub):
        early = Session(f"ws://127.0.0.1:{server.port}", rate=16_000)
        await early.aclose()
        assert await heard(early) == []
        session = Session(f"ws://127.0.0.1:{server.port}", rate=16_000)
        session.send(SILENCE)
        await until(session, "session")
        await session.aclose()
        async with asyncio.timeout(60):
            while hub.sessions:  # the server does not wait for anybody
                await asyncio.sleep(0.01)
