"""Several servers share a journal in NATS: a client goes on at whichever, and nothing is lost or said twice."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("nats", reason="the extra `fleet` is not installed")

from nats_server import Nats, nats_server
from served import SECONDS, SILENCE, TEXT, Client, KnowingModel, client, complete, limited, served, text_of
from whispertide.errors import OptionError
from whispertide.events import Event
from whispertide.server.nats_journal import NatsJournal
from whispertide.server.nats_records import Record, read_record
from whispertide.server.options import ServerOptions
from whispertide.server.serving import Server


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Nats]:
    with nats_server(tmp_path / "nats") as running:
        yield running


def shared(nats: Nats, **limits: Any) -> ServerOptions:
    return replace(limited(**limits), journal=nats.address)


async def accepted(one: Client, samples: int) -> None:
    while not (told := one.said("received")) or told[-1]["received"] < samples:
        await one.until("received")


async def finish_talk(one: Client, received: int) -> None:
    total = round(SECONDS * 16_000)
    for start in range(received, total, 16_000):
        await one.send(bytes(2 * min(16_000, total - start)))
    await one.send({"type": "finish"})
    assert await one.rest() == 1000


def in_order(*parts: list[Event]) -> list[Event]:
    events = [event for part in parts for event in part]
    assert [event.seq for event in events] == list(range(len(events)))
    return events


def back(one: Client) -> str:
    last = one.events[-1].seq if one.events else -1
    return f"?session={one.said('session')[0]['session']}&last_seq={last}"


@pytest.mark.parametrize("said", [12_800, 60_800, 64_000])
def test_a_client_goes_on_at_another_server(nats: Nats, said: int) -> None:
    """The first server lives, and does not know that its client is elsewhere; it is refused, and says so."""

    async def run() -> None:
        async with served(shared(nats)) as (first, hub), served(shared(nats)) as (second, _), client(first) as one:
            await one.send(bytes(2 * said))
            await accepted(one, said)
            async with client(second, back(one)) as again:
                started = await again.until("session")
                assert started["received"] == said
                before = list(one.events)
                (live,) = hub.sessions.values()
                await one.send(SILENCE)  # the old server gets more of it
                assert await one.rest() == 4001
                assert one.said("problem")[-1]["kind"] == "taken_over"
                assert live.id not in hub.sessions
                await finish_talk(again, started["received"])
        events = in_order(before, again.events)
        assert complete(events)
        assert text_of(events) == TEXT
        assert one.events == events[: len(one.events)], "a server that does not have the session says nothing new"

    asyncio.run(run())


def test_to_and_fro(nats: Nats) -> None:
    """The first server still has the session as it was when its client comes back to it."""

    async def run() -> None:
        async with served(shared(nats)) as (first, _), served(shared(nats)) as (second, _):
            parts: list[list[Event]] = []
            query, at = "", 0
            for count in range(8):
                async with client((first, second)[count % 2], query) as one:
                    if count == 0:
                        await one.send({"type": "start"})
                    started = await one.until("session")
                    assert started["received"] == at
                    await one.send(SILENCE)
                    at += 16_000
                    await accepted(one, at)
                    parts.append(list(one.events))
                    last = sum(map(len, parts)) - 1
                    query = f"?session={started['session']}&last_seq={last}"
            async with client(first, query) as one:
                await finish_talk(one, (await one.until("session"))["received"])
                parts.append(one.events)
        events = in_order(*parts)
        assert complete(events)
        assert text_of(events) == TEXT

    asyncio.run(run())


async def status(server: Server) -> str:
    async with httpx.AsyncClient(trust_env=False) as web:
        answer = await web.get(f"http://127.0.0.1:{server.port}/readyz")
        return f"{answer.status_code} {answer.json()['status']}"


def test_captions_go_on_without_nats(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    """Its client is told that they are not durable, and of no audio received; later all is written."""
    caplog.set_level(logging.WARNING)

    async def run() -> None:
        async with served(shared(nats)) as (server, _), served(shared(nats)) as (second, _), client(server) as one:
            await one.send(SILENCE)
            await accepted(one, 16_000)
            nats.kill()
            await one.send(*[SILENCE] * 4)
            problem = await one.until("problem")
            assert (problem["kind"], problem["fatal"]) == ("not_durable", False)
            while not any(event.kind == "confirmed" for event in one.events):
                await one.until("confirmed", "hypothesis")
            assert max(message["received"] for message in one.said("received")) == 16_000
            assert await status(server) == "503 journal cannot be written"
            nats.start()
            await accepted(one, 5 * 16_000)
            assert await status(server) == "200 ready"
            async with client(second, back(one)) as again:
                before = list(one.events)
                await finish_talk(again, (await again.until("session"))["received"])
            assert await one.rest() == 4001, "it has nothing to write, and finds out by its lease"
        events = in_order(before, again.events)
        assert complete(events)
        assert text_of(events) == TEXT

    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records if "the journal" in record.getMessage()]
    failing, written = "the journal cannot be written; its sessions are not durable", "the journal is written again"
    assert lines[:2] == [failing, written]


def test_without_its_store_the_session_is_given_up(nats: Nats, tmp_path: Path) -> None:
    """A stream that comes back empty is none to go on in: nothing may claim to be what it was."""

    async def run() -> None:
        async with served(shared(nats)) as (server, hub), client(server) as one:
            await one.send(SILENCE)
            await accepted(one, 16_000)
            nats.kill()
            nats.folder = tmp_path / "another"
            nats.start()
            await one.send(SILENCE)
            assert await one.rest() == 4001
            assert not hub.sessions

    asyncio.run(run())


def test_sessions_that_are_over_leave_nothing(nats: Nats) -> None:
    async def run() -> None:
        async with served(shared(nats, resume_s=0)) as (server, hub), client(server) as one:
            await finish_talk(one, 0)
            async with asyncio.timeout(60):
                while hub.sessions:
                    await asyncio.sleep(0.05)
            journal = hub.journal
            assert isinstance(journal, NatsJournal)
            stream = journal._stream._js
            left = 1
            async with asyncio.timeout(60):
                while left:
                    info = journal._call(stream.stream_info("whispertide-sessions"))
                    left = (await asyncio.wrap_future(info)).state.messages

    asyncio.run(run())


def test_silence_does_not_fill_the_stream(nats: Nats) -> None:
    async def run() -> None:
        async with served(shared(nats), KnowingModel(())) as (server, hub), client(server) as one:
            for count in range(1, 61):
                await one.send(SILENCE)
                await accepted(one, 16_000 * count)
            journal = hub.journal
            assert isinstance(journal, NatsJournal)
            info = journal._call(journal._stream._js.stream_info("whispertide-sessions"))
            assert (await asyncio.wrap_future(info)).state.bytes < 30 * 32_000

    asyncio.run(run())


def test_nobody_else_resumes_it(nats: Nats) -> None:
    async def run() -> None:
        async with served(shared(nats)) as (server, _), client(server, "?session=unknown&last_seq=-1") as one:
            assert await one.rest() == 4004

    asyncio.run(run())


def test_no_nats_at_the_start() -> None:
    with pytest.raises(OptionError, match="expected NATS with JetStream"):
        NatsJournal("nats://127.0.0.1:1")


def test_records_are_cut_into_messages() -> None:
    record = Record("step", {"taken": 3}, bytes(range(256)) * 8_000)
    pieces = record.pieces()
    assert len(pieces) == 4
    assert read_record(b"".join(pieces)) == record
