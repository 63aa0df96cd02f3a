"""Several servers share a journal in NATS: a client goes on at whichever, and nothing is lost or said twice."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nats", reason="the extra `fleet` is not installed")

from nats.js.errors import KeyNotFoundError
from websockets.exceptions import ConnectionClosed

from nats_server import Nats
from served import SILENCE, TEXT, KnowingModel, client, complete, served, text_of
from shared_journal import accepted, back, finish_talk, in_order, shared, status
from slow_rows import slow_but
from whispertide.errors import OptionError
from whispertide.events import Event
from whispertide.server.nats_journal import NatsJournal
from whispertide.server.nats_records import Record, read_record
from whispertide.server.options import Access
from whispertide.server.serving import drain


@pytest.mark.parametrize("said", slow_but([12_800, 60_800, 64_000], 60_800))
async def test_a_client_goes_on_at_another_server(nats: Nats, said: int) -> None:
    """The first server lives, and does not know that its client is elsewhere; it is refused, and says so."""
    async with served(shared(nats)) as (first, hub), served(shared(nats)) as (second, _), client(first) as one:
        await one.send(bytes(2 * said))
        await accepted(one, said)
        (live,) = hub.sessions.values()
        async with client(second, back(one)) as again:
            started = await again.until("session")
            assert started["received"] == said
            before = list(one.events)
            with suppress(ConnectionClosed):  # by what it wrote last it may have learned it already
                await one.send(SILENCE)  # the old server gets more of it
            assert await one.rest() == 4001
            assert one.said("problem")[-1]["kind"] == "taken_over"
            assert live.id not in hub.sessions
            await finish_talk(again, started["received"])
    events = in_order(before, again.events)
    assert complete(events)
    assert text_of(events) == TEXT
    assert one.events == events[: len(one.events)], "a server that does not have the session says nothing new"


@pytest.mark.slow
async def test_to_and_fro(nats: Nats) -> None:
    """The first server still has the session as it was when its client comes back to it."""
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


@pytest.mark.parametrize("said", slow_but([12_800, 60_800], 60_800))
async def test_a_draining_server_hands_over(nats: Nats, said: int) -> None:
    """At once, though it still waits for somebody else; and it takes nothing back from where the session went on."""
    async with (
        served(shared(nats)) as (first, hub),
        served(shared(nats)) as (second, _),
        client(first) as one,
        client(first) as other,
    ):
        await other.send(SILENCE)
        await accepted(other, 16_000)
        await one.send(bytes(2 * said))
        await accepted(one, said)
        session = one.said("session")[0]["session"]
        slow = next(live for live in hub.sessions.values() if live.id != session)
        slow.queued_at = 0.0  # as a session that is not in the journal and still has rounds to run
        hub.scheduler.suspend = lambda live: setattr(live, "suspended", True)  # type: ignore[method-assign]
        task = asyncio.create_task(drain(hub))
        assert await one.rest() == 1012
        assert not task.done()
        assert await status(first) == "503 draining"
        async with client(second, back(one)) as again:
            started = await again.until("session")
            assert started["received"] == said
            async with client(first, back(one)) as wrong:
                assert await wrong.rest() == 1012
            await finish_talk(again, said)
        slow.queued_at = None
        await task
    events = in_order(one.events, again.events)
    assert complete(events)
    assert text_of(events) == TEXT


async def test_leases_are_given_back(nats: Nats) -> None:
    async with served(shared(nats)) as (second, hub):
        async with served(shared(nats)) as (first, _), client(first) as one:
            await one.send(SILENCE)
            await accepted(one, 16_000)
            first.should_exit = True
            assert await one.rest() == 1012
        journal = hub.journal
        assert isinstance(journal, NatsJournal)
        with pytest.raises(KeyNotFoundError):
            await asyncio.wrap_future(journal._call(journal._stream._leases.get(one.said("session")[0]["session"])))
        async with client(second, back(one)) as again:
            await finish_talk(again, (await again.until("session"))["received"])
    events = in_order(one.events, again.events)
    assert complete(events)
    assert text_of(events) == TEXT


@pytest.mark.slow
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
    failing, written = "the journal cannot be written; its sessions are not durable", "the journal can be written again"
    assert lines[:2] == [failing, written]


async def test_without_its_store_the_session_is_given_up(nats: Nats, tmp_path: Path) -> None:
    """A stream that comes back empty is none to go on in: nothing may claim to be what it was."""
    async with served(shared(nats)) as (server, hub), client(server) as one:
        await one.send(SILENCE)
        await accepted(one, 16_000)
        nats.kill()
        nats.folder = tmp_path / "another"
        nats.start()
        await one.send(SILENCE)
        assert await one.rest() == 4001
        assert not hub.sessions


async def test_sessions_that_are_over_leave_nothing(nats: Nats) -> None:
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


@pytest.mark.slow
async def test_silence_does_not_fill_the_stream(nats: Nats) -> None:
    async with served(shared(nats), KnowingModel(())) as (server, hub), client(server) as one:
        for count in range(1, 61):
            await one.send(SILENCE)
            await accepted(one, 16_000 * count)
        journal = hub.journal
        assert isinstance(journal, NatsJournal)
        stream, left = journal._stream._js, 30 * 32_000
        async with asyncio.timeout(60):  # what is written may not have been heard yet
            while left >= 30 * 32_000:
                info = journal._call(stream.stream_info("whispertide-sessions"))
                left = (await asyncio.wrap_future(info)).state.bytes


async def test_nobody_else_resumes_it(nats: Nats) -> None:
    async with served(shared(nats)) as (server, _), client(server, "?session=unknown&last_seq=-1") as one:
        assert await one.rest() == 4004


async def test_nobody_else_takes_it_from_its_server(nats: Nats) -> None:
    """Whoever knows the id and has another key is told nothing, and the session stays where it is."""
    options = replace(shared(nats), access=Access(("my-own-key", "another-key")))
    mine: dict[str, Any] = {"additional_headers": {"Authorization": "Bearer my-own-key"}}
    other: dict[str, Any] = {"additional_headers": {"Authorization": "Bearer another-key"}}
    async with (
        served(options) as (first, _),
        served(options) as (second, hub),
        client(first, **mine) as one,
    ):
        await one.send(SILENCE)
        await accepted(one, 16_000)
        for server in (first, second):
            async with client(server, back(one), **other) as thief:
                assert await thief.rest() == 4004
        assert not hub.sessions
        await finish_talk(one, 16_000)
    assert complete(one.events)
    assert text_of(one.events) == TEXT


def test_no_nats_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.server.nats_stream._CONNECT_S", 0.1)
    with pytest.raises(OptionError, match="expected NATS with JetStream"):
        NatsJournal("nats://127.0.0.1:1")


def test_records_are_cut_into_messages() -> None:
    record = Record("step", {"taken": 3}, bytes(range(256)) * 8_000)
    pieces = record.pieces()
    assert len(pieces) == 4
    assert read_record(b"".join(pieces)) == record
