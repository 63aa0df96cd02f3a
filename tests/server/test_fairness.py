"""What one client takes is not taken from the others: places, parked sessions, memory."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from served import SILENCE, Client, client, keyed, limited, served
from standing_server import frame, raw_socket, standing, until_closed
from whispertide.server import client_pace, connection
from whispertide.server.options import ServerOptions
from whispertide.server.protocols.wyoming import Frame, encode
from whispertide.server.serving import Server

FIRST, SECOND = "the-first-key", "the-second-key"


def bearer(key: str) -> dict[str, Any]:
    return {"additional_headers": {"Authorization": f"Bearer {key}"}}


async def opened(stack: AsyncExitStack, server: Server, key: str, seconds: int = 1, query: str = "") -> Client:
    """A client with a session, or one that was refused."""
    one = await stack.enter_async_context(client(server, query, **bearer(key)))
    if not query:
        await one.send(*[SILENCE] * seconds)
    await one.until("session", "problem")
    return one


def refused(one: Client) -> bool:
    return any(problem["kind"] == "overloaded" for problem in one.said("problem"))


def session(one: Client) -> str:
    return str(one.said("session")[0]["session"])


@pytest.mark.parametrize(("per_owner", "most"), [(0, 2), (3, 3), (1, 1)])
async def test_one_key_cannot_hold_every_place(per_owner: int, most: int) -> None:
    options = keyed(FIRST, SECOND, sessions=4, per_owner=per_owner)
    async with served(options) as (server, _), AsyncExitStack() as stack:
        mine = [await opened(stack, server, FIRST) for _ in range(most + 1)]
        assert [refused(one) for one in mine] == [False] * most + [True]
        assert not refused(await opened(stack, server, SECOND))


def test_without_keys_everybody_is_one() -> None:
    assert limited(sessions=7).sessions_of_one == 7
    assert ServerOptions().sessions_of_one == 64
    many = keyed(*(f"key-number-{n}" for n in range(100)))
    assert many.sessions_of_one == 1


async def test_a_session_that_is_resumed_needs_a_place() -> None:
    """With one place: who comes back waits until it is free, and loses nothing by that."""
    async with served(keyed(FIRST, sessions=1)) as (server, hub), AsyncExitStack() as stack:
        async with client(server, **bearer(FIRST)) as one:
            await one.send(SILENCE, SILENCE)
            await one.until("session")
            await one.until("speech_start")
        query = f"?session={session(one)}&last_seq=-1"
        other = await opened(stack, server, FIRST)
        assert refused(await opened(stack, server, FIRST, query=query))
        assert sum(live.parked_at is None for live in hub.sessions.values()) == 1
        await other.send({"type": "abandon"})
        assert await other.rest() == 1000
        again = await opened(stack, server, FIRST, query=query)
        assert again.said("session")[0]["resumed"]


async def test_a_dead_connection_does_not_count_against_its_own_session() -> None:
    async with served(keyed(FIRST, sessions=1)) as (server, _), AsyncExitStack() as stack:
        dead = await opened(stack, server, FIRST)
        again = await opened(stack, server, FIRST, query=f"?session={session(dead)}&last_seq=-1")
        assert again.said("session")[0]["resumed"]


async def test_parked_sessions_of_one_key_do_not_displace_those_of_another() -> None:
    async with served(keyed(FIRST, SECOND, sessions=2)) as (server, hub):
        async with client(server, **bearer(SECOND)) as theirs:
            await theirs.send(SILENCE)
            await theirs.until("speech_start")
        for _ in range(6):  # each with more audio than theirs
            async with client(server, **bearer(FIRST)) as mine:
                await mine.send(SILENCE, SILENCE, SILENCE)
                await mine.until("speech_start")
            await asyncio.sleep(0.05)
        assert session(theirs) in hub.sessions
        assert len(hub.sessions) == 1 + 4


async def test_sessions_that_have_ended_displace_none_that_goes_on() -> None:
    async with served(keyed(FIRST, sessions=1)) as (server, hub):
        async with client(server, **bearer(FIRST)) as cut_off:
            await cut_off.send(SILENCE)
            await cut_off.until("speech_start")
        for _ in range(5):  # each with more audio, and nobody has said that the end was heard
            async with client(server, **bearer(FIRST)) as done:
                await done.send(SILENCE, SILENCE, {"type": "finish"})
                assert await done.rest() == 1000
        assert session(cut_off) in hub.sessions
        assert len(hub.sessions) == 4


FLOODS = {
    "wyoming": encode(Frame("describe", {})) * 1_000,
    "/v1/realtime?intent=transcription": frame(2, b"garbage") * 1_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("where", FLOODS)
@pytest.mark.parametrize("per_second", [20, 10**9], ids=["counted", "not counted"])
def test_replies_that_nobody_reads_do_not_fill_the_memory(
    where: str, per_second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no text message counts too; and where nothing counted, no more would be read than is answered."""
    monkeypatch.setattr(connection, "_QUEUED", 50_000)
    monkeypatch.setattr(client_pace, "_PACE", 10**9)  # a client that floods is read slowly: the kernel takes much first
    most = 0

    async def talk(town: Any) -> bytes:
        nonlocal most
        if where == "wyoming":
            reader, writer = await asyncio.open_connection("127.0.0.1", town.tcp["wyoming"], limit=1024)
        else:
            reader, writer = await raw_socket(town.port, where, buffer=4096)
        left = 1 if per_second == 20 else 200
        async with asyncio.timeout(60):
            while left or (per_second != 20 and most <= 50_000):
                if left:
                    writer.write(FLOODS[where])
                    left -= 1
                await asyncio.sleep(0.005)
                most = max([most, *(one._replies.size for one in [*town.hub.connections])])
        said = await until_closed(reader) if per_second == 20 else b""
        writer.transport.abort()
        return said

    with standing(replace(limited(messages=per_second, stall_s=60.0), drain_s=1.0)) as town:
        said = asyncio.run(talk(town))
    if per_second == 20:
        assert where == "wyoming" or b"expected at most 20 messages a second" in said
        assert most < 1_000_000
    else:
        assert 50_000 < most < 10_000_000, "as much as one piece of input can ask for"
