"""NATS slow, full, and out of reach: captions go on, the client is told, and nothing is claimed that is not stored."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nats", reason="the extra `fleet` is not installed")

from nats_server import Disk, Nats, nats_server, small_disk
from nats_wire import Wire, wire_to
from served import SILENCE, TEXT, Client, client, complete, served, text_of
from shared_journal import accepted, back, finish_talk, in_order, shared, status, until_ready
from whispertide.events import Confirmed
from whispertide.server.hub import Hub
from whispertide.server.nats_journal import NatsJournal, _Writer
from whispertide.server.nats_records import Record
from whispertide.server.session_journal import UnreachableError


@pytest.fixture
def wire(nats: Nats) -> Iterator[Wire]:
    with wire_to(nats) as found:
        yield found


async def told_not_durable(one: Client) -> None:
    problem = await one.until("problem")
    assert (problem["kind"], problem["fatal"]) == ("not_durable", False)


async def new_words(one: Client) -> None:
    """Words that are confirmed from now on."""
    count = len(one.text)
    while len(one.text) == count:
        await one.until("confirmed")


def received(one: Client) -> int:
    return max((message["received"] for message in one.said("received")), default=0)


async def goes_on_elsewhere(one: Client, nats: Nats) -> None:
    """What was claimed is there: at another server the session is as whole as if nothing had been."""
    async with served(shared(nats)) as (second, _), client(second, back(one)) as again:
        before = list(one.events)
        await finish_talk(again, (await again.until("session"))["received"])
    events = in_order(before, again.events)
    assert complete(events)
    assert text_of(events) == TEXT


@pytest.mark.slow
async def test_a_journal_that_answers_late_costs_nothing(
    nats: Nats, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less late than is waited for: nobody is told of anything before it is stored, and nothing is amiss."""
    monkeypatch.setattr("whispertide.server.nats_stream._TRY_S", 10.0)  # a busy machine alone does not make it too late
    async with served(shared(wire)) as (server, _), client(server) as one:
        wire.delay = 0.15
        for count in range(1, 6):
            await one.send(SILENCE)
            await accepted(one, 16_000 * count)
        assert not one.said("problem")
        assert await status(server) == "200 ready"
        wire.delay = 0.0
        await goes_on_elsewhere(one, nats)


@pytest.mark.slow
async def test_a_journal_that_is_too_slow(nats: Nats, wire: Wire) -> None:
    """Its answers come, and in order, but not before they have been given up."""
    async with served(shared(wire)) as (server, _), client(server) as one:
        await one.send(SILENCE)
        await accepted(one, 16_000)
        wire.hold()
        await one.send(*[SILENCE] * 4)
        await told_not_durable(one)
        await new_words(one)
        assert received(one) == 16_000
        assert await status(server) == "503 journal cannot be written"
        wire.release()
        await accepted(one, 5 * 16_000)
        await until_ready(server)
        await goes_on_elsewhere(one, nats)


@pytest.mark.slow
def test_a_journal_that_is_full(tmp_path: Path) -> None:
    """JetStream may store no more; its operator gives it more room."""

    async def run(nats: Nats) -> None:
        async with served(replace(shared(nats), drain_s=0.5)) as (server, _), client(server) as one:
            sent = 0
            while not one.said("problem") and sent < 10:
                await one.send(SILENCE)
                sent += 1
                await one.until("received", "problem")
            assert one.said("problem")[0]["kind"] == "not_durable"
            stored = received(one)
            assert stored < 16_000 * sent
            words = len(one.text)
            await one.send(SILENCE, SILENCE)
            while len(one.text) == words:
                await one.until("confirmed")
            assert stored <= received(one) < 16_000 * (sent + 2), "a little may still have found room, never all"
            assert await status(server) == "503 journal cannot be written"
            nats.kill()
            nats.settings = ""
            nats.start()
            await accepted(one, 16_000 * (sent + 2))
            await goes_on_elsewhere(one, nats)

    with nats_server(tmp_path / "nats", "max_file_store: 100KB") as nats:
        asyncio.run(run(nats))


@pytest.mark.slow
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """Not a byte is left where NATS stores; somebody makes room and starts it again."""

    async def run(nats: Nats, disk: Disk) -> None:
        async with served(replace(shared(nats), drain_s=0.5)) as (server, _), client(server) as one:
            await one.send(SILENCE)
            await accepted(one, 16_000)
            disk.fill()
            sent = 1
            while not one.said("problem") and sent < 10:
                await one.send(SILENCE)
                sent += 1
                await one.until("received", "problem")
            assert one.said("problem")[0]["kind"] == "not_durable"
            stored = received(one)
            assert 16_000 <= stored < 16_000 * sent
            await one.send(SILENCE)
            await new_words(one)
            assert received(one) == stored
            assert await status(server) == "503 journal cannot be written"
            nats.kill()
            disk.filler.unlink()
            nats.start()
            await accepted(one, 16_000 * (sent + 1))
            assert await status(server) == "200 ready"
            await goes_on_elsewhere(one, nats)

    with small_disk(tmp_path / "disk", 4) as disk, nats_server(disk.folder, within=disk.within) as nats:
        asyncio.run(run(nats, disk))


async def test_the_network_is_cut_and_mended(nats: Nats, wire: Wire) -> None:
    async with served(shared(wire)) as (server, _), client(server) as one:
        await one.send(SILENCE)
        await accepted(one, 16_000)
        wire.cut()
        await one.send(*[SILENCE] * 4)
        await told_not_durable(one)
        await new_words(one)
        assert received(one) == 16_000
        assert await status(server) == "503 journal cannot be written"
        wire.mend()
        await accepted(one, 5 * 16_000)
        await goes_on_elsewhere(one, nats)


@pytest.mark.slow
async def test_a_server_that_is_cut_off_loses_its_session(nats: Nats, wire: Wire) -> None:
    """Its client goes on elsewhere; what the old server wrote meanwhile gets nowhere once it is back."""
    async with served(shared(wire)) as (first, hub), client(first) as one:
        await one.send(*[SILENCE] * 3)
        await accepted(one, 3 * 16_000)
        wire.cut()
        await one.send(SILENCE * 2)
        query = back(one)  # nothing that was said after the cut
        before = list(one.events)
        await told_not_durable(one)
        async with served(shared(nats)) as (second, _), client(second, query) as again:
            started = await again.until("session")
            assert started["received"] == 3 * 16_000
            wire.mend()
            assert await one.rest() == 4001
            assert one.said("problem")[-1]["kind"] == "taken_over"
            assert not hub.sessions
            await finish_talk(again, started["received"])
    events = in_order(before, again.events)
    assert complete(events)
    assert text_of(events) == TEXT


@pytest.mark.slow
async def test_what_was_said_while_cut_off_is_claimed_by_nobody(nats: Nats, wire: Wire) -> None:
    """A client that has an event which the journal lacks is not gone on with elsewhere."""
    async with served(replace(shared(wire), drain_s=0.5)) as (first, _), client(first) as one:
        await one.send(*[SILENCE] * 2)
        await accepted(one, 2 * 16_000)
        wire.cut()
        await one.send(*[SILENCE] * 4)
        await told_not_durable(one)
        while not any(isinstance(event, Confirmed) and event.at > 2 * 16_000 for event in one.events):
            await one.until("confirmed")
        async with served(shared(nats)) as (second, _), client(second, back(one)) as again:
            assert await again.rest() == 4005
            problem = again.said("problem")[-1]
            assert problem["kind"] == "ahead"
            assert problem["last_seq"] < one.events[-1].seq
        voided = [event for event in one.events if event.seq <= problem["last_seq"]]
        async with served(shared(nats)) as (second, _), client(second, back(one, problem["last_seq"])) as again:
            await finish_talk(again, (await again.until("session"))["received"])
    events = in_order(voided, again.events)
    assert complete(events)
    assert text_of(events) == TEXT


async def test_one_session_is_not_durable_while_others_are(nats: Nats) -> None:
    """What is written of another session says nothing of this one, whose client was told what is not written yet."""
    async with served(replace(shared(nats), drain_s=0.5)) as (server, hub), client(server) as one:
        await one.send(SILENCE)
        await accepted(one, 16_000)
        session = one.said("session")[0]["session"]
        journal = hub.journal
        assert isinstance(journal, NatsJournal)
        append, tried, mended = journal._stream.append, threading.Event(), threading.Event()

        async def first_one_fails(which: str, *arguments: Any) -> int:
            if which == session and not mended.is_set():
                if not tried.is_set():
                    tried.set()
                    raise UnreachableError("late")
                while not mended.is_set():
                    await asyncio.sleep(0.01)
            return await append(which, *arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(journal._stream, "append", first_one_fails)
            await one.send(*[SILENCE] * 4)
            await told_not_durable(one)
            await new_words(one)
            async with client(server) as other:
                await other.send(SILENCE)
                await accepted(other, 16_000)
                assert not journal.failing
                assert hub.outage(hub.sessions[session])
                # what it was told while the journal failed may be on its way to the journal
                while hub.outage(hub.sessions[other.said("session")[0]["session"]]):
                    await asyncio.sleep(0.01)
                assert hub.outage(hub.sessions[session])
            mended.set()
            await accepted(one, 5 * 16_000)
        while hub.outage(hub.sessions[session]):
            await asyncio.sleep(0.01)
        await goes_on_elsewhere(one, nats)


async def written(hub: Hub, one: Client) -> tuple[NatsJournal, _Writer]:
    """Its first second is in the journal: that, and what writes this session into it."""
    await one.send(SILENCE)
    await accepted(one, 16_000)
    journal = hub.journal
    assert isinstance(journal, NatsJournal)
    (writer,) = journal._writers.values()
    return journal, writer


async def test_a_session_that_is_over_keeps_no_audio_until_nats_is_back(nats: Nats) -> None:
    """Whoever opens and leaves sessions in an outage would fill the memory."""
    async with served(shared(nats)) as (server, hub), client(server) as one:
        journal, writer = await written(hub, one)
        nats.kill()
        await one.send(SILENCE)
        await told_not_durable(one)
        under_way = writer.under_way
        await one.send(*[SILENCE] * 8)
        async with asyncio.timeout(60):
            while len(writer.jobs) < under_way + 8:
                await asyncio.sleep(0.01)
            await one.send({"type": "abandon"})
            while writer.jobs[-1].record != Record("closed"):
                await asyncio.sleep(0.01)
        assert len(writer.jobs) == under_way + 1
        assert sum(job.row.stop - job.row.start for job in writer.jobs if job.row is not None) <= 16_000
        nats.start()
        async with asyncio.timeout(60):
            while journal._writers:
                await asyncio.sleep(0.01)
            left = 1
            while left:
                info = journal._call(journal._stream._js.stream_info("whispertide-sessions"))
                left = (await asyncio.wrap_future(info)).state.messages


async def test_what_an_earlier_writer_loses_ends_no_session_that_came_back(nats: Nats) -> None:
    async with served(shared(nats)) as (server, hub), client(server) as one:
        journal, writer = await written(hub, one)
        lost: list[str] = []
        journal.lost = lost.append

        async def lose(each: _Writer) -> None:
            journal._lose(each, "another wrote")

        # In the journal's thread, as always. What that tells this one comes before the answer.
        await asyncio.wrap_future(journal._call(lose(replace(writer))))
        assert journal._writers == {writer.id: writer}
        assert not lost
        await asyncio.wrap_future(journal._call(lose(writer)))
        assert lost == [writer.id]
