"""A client that loses its connection comes back and has every word: those it said and those it was sent."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus

from served import (
    SECONDS,
    SILENCE,
    TEXT,
    client,
    complete,
    keyed,
    limited,
    served,
    text_of,
)
from whispertide.events import Event, TurnEnd
from whispertide.server.serving import Server

RATE = 16_000


async def talk(server: Server, cuts: list[tuple[int, int, bool]], portion: int = 9_600) -> list[Event]:
    """Say everything; the connection is lost after `cuts` messages out, that many milliseconds later. Some acknowledge
    just before.
    """
    total = round(SECONDS * RATE)
    seen: list[Event] = []
    query = ""
    for sends, pause_ms, acknowledges in [*cuts, (10**6, 0, False)]:
        async with client(server, query) as one:
            if not query:
                await one.send({"type": "start"})
            started = await one.until("session")
            sent = started["received"]
            reading = asyncio.create_task(one.rest())
            for _ in range(sends):
                if sent >= total:
                    break
                count = min(portion, total - sent)
                await one.send(bytes(2 * count))
                sent += count
            if sends == 10**6:
                await one.send({"type": "finish"})
                assert await reading == 1000
            await asyncio.sleep(pause_ms / 1000)
            if acknowledges and one.events:
                await one.send({"type": "ack", "seq": one.events[-1].seq})
                await asyncio.sleep(0.01)
            one.socket.transport.abort()
            await reading
        assert not {event.seq for event in seen} & {event.seq for event in one.events}
        seen += one.events
        query = f"?session={started['session']}&last_seq={seen[-1].seq if seen else -1}"
    return seen


async def test_a_client_that_comes_back_goes_on() -> None:
    async with served() as (server, _):
        events = await talk(server, [(4, 3, False), (6, 40, True), (2, 0, False)])
        assert complete(events)
        assert text_of(events) == TEXT


@pytest.mark.slow
@settings(max_examples=6)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 30), st.booleans()), max_size=4),
    st.sampled_from([3_200, 9_600, 16_000]),
)
def test_wherever_the_connection_is_lost(cuts: list[tuple[int, int, bool]], portion: int) -> None:
    async def run() -> None:
        async with served() as (server, _):
            events = await talk(server, cuts, portion)
            assert complete(events)
            assert text_of(events) == TEXT

    asyncio.run(run())


async def test_the_end_can_be_asked_for_again() -> None:
    async with served() as (server, hub):
        async with client(server) as one:
            await one.send(SILENCE, {"type": "finish"})
            assert await one.rest() == 1000
            session = one.said("session")[0]["session"]
        async with client(server, f"?session={session}&last_seq=-1") as again:
            assert await again.rest() == 1000
            assert again.events == one.events
            await asyncio.sleep(0)
        assert len(hub.sessions) == 1


@pytest.mark.parametrize("how", ["address", "message"])
async def test_coming_back_to_an_end_that_the_client_has(how: str) -> None:
    """It is told so, and the connection is closed, although no event is left that would do it."""
    async with served() as (server, hub):
        async with client(server) as one:
            await one.send(SILENCE, {"type": "finish"})
            assert await one.rest() == 1000
        session, last = one.said("session")[0]["session"], one.events[-1].seq
        for _ in range(2):
            async with client(server, f"?session={session}&last_seq={last}" if how == "address" else "") as again:
                if how == "message":
                    await again.send({"type": "resume", "session": session, "last_seq": last})
                assert await again.rest() == 4004
                (problem,) = again.said("problem")
                assert problem["kind"] == "unknown_session"
                assert problem["fatal"]
        assert not hub.sessions


async def test_a_client_that_is_ahead_is_told_what_to_go_on_after() -> None:
    """The journal was away, then the server died: the client has events that are nowhere else. The session lives on."""
    async with served() as (server, hub):
        async with client(server) as one:
            await one.send(*[SILENCE] * 3, {"type": "flush"})
            await one.until("flushed")
        last, session = one.events[-1].seq, one.said("session")[0]["session"]
        for _ in range(2):  # as often as it likes
            async with client(server, f"?session={session}&last_seq={last + 4}") as ahead:
                assert await ahead.rest() == 4005
                (problem,) = ahead.said("problem")
                assert (problem["kind"], problem["fatal"], problem["last_seq"]) == ("ahead", True, last)
                assert f"Resume with {last}" in problem["message"]
        assert session in hub.sessions
        async with client(server, f"?session={session}&last_seq={problem['last_seq']}") as again:
            started = await again.until("session")
            await again.send(bytes(round(SECONDS * 32_000) - 2 * started["received"]), {"type": "finish"})
            assert await again.rest() == 1000
        events = one.events + again.events
        assert complete(events)
        assert text_of(events) == TEXT


async def test_a_client_that_is_behind_is_told_what_to_go_on_after() -> None:
    """It acknowledged nothing for too long, or has lost what it had."""
    async with served(limited(unacked=2)) as (server, _):
        async with client(server) as one:
            await one.send(*[SILENCE] * 3, {"type": "flush"})
            await one.until("flushed")
        last, session = one.events[-1].seq, one.said("session")[0]["session"]
        async with client(server, f"?session={session}&last_seq=-1") as behind:
            assert await behind.rest() == 4006
            (problem,) = behind.said("problem")
            assert (problem["kind"], problem["fatal"]) == ("behind", True)
            assert -1 < problem["last_seq"] <= last
        async with client(server, f"?session={session}&last_seq={problem['last_seq']}") as again:
            assert (await again.until("session"))["resumed"]
            await again.send({"type": "finish"})
            assert await again.rest() == 1000
            assert again.events[0].seq > problem["last_seq"]  # a guess that another has replaced may be missing
            assert type(again.events[0]) is TurnEnd


async def test_what_is_acknowledged_is_forgotten() -> None:
    async with served() as (server, hub), client(server) as one:
        await one.send(SILENCE, {"type": "flush"})
        await one.until("flushed")
        (live,) = hub.sessions.values()
        assert len(live.outbox.entries) > 1
        await one.send({"type": "ack", "seq": one.events[-1].seq})
        async with asyncio.timeout(60):
            while list(live.outbox.entries) != ["flushed"]:
                await asyncio.sleep(0.01)


async def test_time_runs_out() -> None:
    async with served(limited(resume_s=0)) as (server, hub):
        async with client(server) as one:
            await one.send(SILENCE)
            session = (await one.until("session"))["session"]
            await one.until("speech_start")
        async with asyncio.timeout(60):
            while hub.sessions:
                await asyncio.sleep(0.05)
        async with client(server, f"?session={session}&last_seq=-1") as again:
            assert await again.rest() == 4004


async def test_a_client_that_said_nothing_leaves_nothing() -> None:
    async with served() as (server, hub):
        for _ in range(30):
            async with client(server) as one:
                await one.send({"type": "start"})
                await one.until("session")
                one.socket.transport.abort()
        async with asyncio.timeout(60):
            while hub.sessions or hub.connections:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("query", "code"), [("?session=nonsense", 4004), ("?session=SESSION&last_seq=500", 4005)], ids=["session", "events"]
)
async def test_resuming_what_is_not_there(query: str, code: int) -> None:
    async with served() as (server, _), client(server) as one:
        await one.send(SILENCE)
        session = (await one.until("session"))["session"]
        async with client(server, query.replace("SESSION", session)) as other:
            assert await other.rest() == code


@pytest.mark.parametrize("query", ["?session=x&last_seq=x", "?session=&last_seq=1", "?rate=0", "?format=mp3", "?vad=2"])
async def test_addresses_that_cannot_be(query: str) -> None:
    async with served() as (server, _):
        with pytest.raises(InvalidStatus) as refused:
            async with client(server, query):
                pass
        assert refused.value.response.status_code == 400
        assert b"expected" in refused.value.response.body


async def test_nobody_else_can_resume_a_session() -> None:
    mine: dict[str, Any] = {"additional_headers": {"Authorization": "Bearer my-own-key"}}
    other: dict[str, Any] = {"additional_headers": {"Authorization": "Bearer another-key"}}
    async with served(keyed("my-own-key", "another-key")) as (server, _):
        async with client(server, **mine) as one:
            await one.send(SILENCE)
            session = (await one.until("session"))["session"]
            await one.until("speech_start")
        query = f"?session={session}&last_seq=-1"
        async with client(server, query, **other) as thief:
            assert await thief.rest() == 4004
        async with client(server, query, **mine) as again:
            assert (await again.until("session"))["resumed"]


async def test_a_connection_that_is_dead_without_knowing_gives_way() -> None:
    async with served() as (server, _), client(server) as dead:
        await dead.send(SILENCE)
        session = (await dead.until("session"))["session"]
        async with client(server, f"?session={session}&last_seq=-1") as again:
            assert (await again.until("session"))["received"] == RATE
            await again.send({"type": "finish"})
            assert await again.rest() == 1000
        assert await dead.rest() == 4001


async def test_audio_before_the_server_said_where_to_go_on() -> None:
    async with served() as (server, _), client(server) as one:
        await one.send({"type": "resume", "session": "x", "last_seq": 0}, SILENCE)
        assert await one.rest() == 4004
