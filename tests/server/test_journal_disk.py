"""A journal's disk: full, slow, damaged, and not for ever larger."""

import asyncio
import logging
import os
import pickle
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from served import SECONDS, SILENCE, TEXT, KnowingModel, client, complete, served, text_of
from shared_journal import accepted, back, copied, finish_talk, in_order, journaled, status, until_ready, written
from whispertide.server.journal import Journal


class Disk:
    """A database on a disk that can be full."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self.full = False

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        if self.full and statement.startswith("INSERT"):
            raise sqlite3.OperationalError("database or disk is full")
        return self.database.execute(statement, values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)


def test_nothing_is_told_that_is_not_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While the disk is full sessions wait, and those that are not in the journal do not; afterwards all is there."""

    async def run() -> None:
        async with served(journaled(tmp_path / "journal")) as (server, hub), client(server) as one:
            journal = hub.journal
            assert isinstance(journal, Journal)
            disk = journal._database = Disk(journal._database)  # type: ignore[assignment]
            await one.send(*[SILENCE] * 2)
            await accepted(one, 32_000)
            await one.send({"type": "keepalive"})
            disk.full = True
            await one.send(*[SILENCE] * 5)
            async with client(server, path="/v1/listen?encoding=linear16&sample_rate=16000") as other:
                await other.send(*[SILENCE] * 4, {"type": "Finalize"})
                await other.until("Results")  # on the one worker that there is
            async with asyncio.timeout(60):
                while not journal.failing:  # a thread of its own has tried to write
                    await asyncio.sleep(0.01)
            assert await status(server) == "503 journal cannot be written"
            told = await one.until("problem")
            assert (told["kind"], told["fatal"]) == ("not_durable", False)
            assert "captions wait" in told["message"]
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    while True:
                        await one.until("received", "confirmed", "hypothesis")
            # What was written before may still come: it is about the first two seconds.
            assert all(message.get("at", 0) <= 2 for message in one.messages)
            assert max(message["received"] for message in one.said("received")) == 32_000
            copied(tmp_path / "journal", tmp_path / "killed")
            disk.full = False
            await accepted(one, 7 * 16_000)
            await until_ready(server)
            await finish_talk(one, 7 * 16_000)
            assert complete(one.events)
            assert one.text == TEXT
        async with served(journaled(tmp_path / "killed")) as (_, hub):
            assert list(hub.sessions) == [one.said("session")[0]["session"]]
            assert next(iter(hub.sessions.values())).safe == 32_000

    caplog.set_level(logging.WARNING)
    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records if "journal" in record.getMessage()]
    assert lines == ["the journal cannot be written; its sessions wait", "the journal can be written again"]


async def test_audio_that_was_here_but_not_written_is_not_taken_twice(tmp_path: Path) -> None:
    """A client that comes back is told where to go on once all that the server has of it is written."""
    async with served(journaled(tmp_path)) as (server, hub):
        journal = hub.journal
        assert isinstance(journal, Journal)
        disk = journal._database = Disk(journal._database)  # type: ignore[assignment]
        async with client(server) as one:
            await one.send(SILENCE)
            await accepted(one, 16_000)
            disk.full = True
            await one.send(*[SILENCE[:20_000]] * 3)
            (live,) = hub.sessions.values()
            while live.accepted < 46_000:
                await asyncio.sleep(0.01)
        async with client(server, back(one)) as again:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await again.until("session")
            assert live.safe == 16_000 < live.accepted
            disk.full = False
            told = (await again.until("session"))["received"]
            assert told == live.accepted
            await finish_talk(again, told)
        assert live.accepted == round(SECONDS * 16_000)
    events = in_order(one.events, again.events)
    assert complete(events)
    assert text_of(events) == TEXT


async def test_a_server_can_stop_while_the_journal_cannot_be_written(tmp_path: Path) -> None:
    options = replace(journaled(tmp_path), drain_s=0.5)
    async with served(options) as (server, hub), client(server) as one:
        journal = hub.journal
        assert isinstance(journal, Journal)
        await one.send(SILENCE)
        await accepted(one, 16_000)
        journal._database = Disk(journal._database)  # type: ignore[assignment]
        journal._database.full = True  # type: ignore[attr-defined]
        await one.send(*[SILENCE] * 5)
        server.should_exit = True
        assert await one.rest() == 1012


def stored(folder: Path) -> float:
    """Seconds of audio in a copy of a journal."""
    with closing(sqlite3.connect(folder / "journal.sqlite3")) as database:
        (samples,) = database.execute("SELECT SUM(stop - start) FROM commands").fetchone()
    return (samples or 0) / 16_000


async def test_silence_does_not_fill_the_disk(tmp_path: Path) -> None:
    async with served(journaled(tmp_path / "journal"), KnowingModel(())) as (server, hub), client(server) as one:
        for count in range(1, 61):
            await one.send(SILENCE)
            await accepted(one, 16_000 * count)
        (live,) = hub.sessions.values()
        async with asyncio.timeout(60):
            while live.unheard or live.running:  # what is written may not have been heard yet
                await asyncio.sleep(0.01)
        await asyncio.wrap_future(written(hub.journal))
        copied(tmp_path / "journal", tmp_path / "copy")
        assert one.events == []
        assert stored(tmp_path / "copy") < 10
        session = one.said("session")[0]["session"]
    async with served(journaled(tmp_path / "copy"), KnowingModel(())) as (_, hub):
        assert hub.sessions[session].accepted == 60 * 16_000


def test_an_old_journal_becomes_private(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    file = tmp_path / "journal.sqlite3"
    file.chmod(0o644)
    Journal(tmp_path).close()
    assert file.stat().st_mode & 0o777 == 0o600


async def test_sessions_that_are_over_leave_nothing(tmp_path: Path) -> None:
    async with served(journaled(tmp_path, resume_s=0)) as (server, hub):
        async with client(server) as one:
            await finish_talk(one, 0)
        async with asyncio.timeout(60):
            while hub.sessions:
                await asyncio.sleep(0.05)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database, database:
        for table in ("sessions", "commands", "entries", "states"):
            assert database.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,)


async def test_audio_that_is_not_needed_any_more_is_not_kept(tmp_path: Path) -> None:
    async with served(journaled(tmp_path)) as (server, _), client(server) as one:
        for _ in range(11):
            await one.send(SILENCE)
            await asyncio.sleep(0.02)
        await one.send({"type": "flush"})
        await one.until("flushed")
        copied(tmp_path, tmp_path / "copy")
        assert stored(tmp_path / "copy") <= 4


async def test_a_damaged_session_does_not_cost_the_others(tmp_path: Path) -> None:
    async with served(journaled(tmp_path)) as (server, hub):
        async with client(server) as one, client(server) as two:
            for each in (one, two):
                await each.send(SILENCE, SILENCE, {"type": "flush"})
                await each.until("flushed")
        sessions = [each.said("session")[0]["session"] for each in (one, two)]
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database, database:
        database.execute("UPDATE states SET data = ? WHERE session = ?", (pickle.dumps(os.system), sessions[0]))
    async with served(journaled(tmp_path)) as (server, hub):
        assert list(hub.sessions) == sessions[1:]
