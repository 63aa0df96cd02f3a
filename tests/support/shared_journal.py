"""Clients of servers with a journal, their own or one that they share in NATS, for the tests."""

import asyncio
import shutil
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from nats_server import Nats
from nats_wire import Wire
from served import SECONDS, Client, limited
from whispertide.events import Event
from whispertide.server.journal import Journal
from whispertide.server.options import ServerOptions
from whispertide.server.serving import Server


def shared(nats: Nats | Wire, **limits: Any) -> ServerOptions:
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


def back(one: Client, last: int | None = None) -> str:
    if last is None:
        last = one.events[-1].seq if one.events else -1
    return f"?session={one.said('session')[0]['session']}&last_seq={last}"


async def status(server: Server) -> str:
    async with httpx.AsyncClient(trust_env=False) as web:
        answer = await web.get(f"http://127.0.0.1:{server.port}/readyz")
        return f"{answer.status_code} {answer.json()['status']}"


async def until_ready(server: Server) -> None:
    """A busy machine alone may make an answer late for a moment; it must not stay so."""
    async with asyncio.timeout(60):
        while await status(server) != "200 ready":
            await asyncio.sleep(0.05)


def journaled(folder: Path, **limits: Any) -> ServerOptions:
    return replace(limited(**limits), journal=str(folder))


def copied(folder: Path, copy: Path) -> None:
    """What a kill at this moment would leave: the journal may go on while it is copied, its mark must not be ahead.

    Copied again where SQLite moved its log into the database meanwhile and began another: half of each is what no kill
    leaves. The first bytes of a log tell it from any other.
    """
    copy.mkdir()

    def log(place: Path) -> bytes:
        file = place / "journal.sqlite3-wal"
        return file.read_bytes()[:32] if file.is_file() else b""

    before = None
    while before is None or before != log(copy):
        before = log(folder)
        files = sorted(folder.glob("journal.sqlite3*"), key=lambda file: (not file.name.endswith("-mark"), file.name))
        for file in files:
            with suppress(FileNotFoundError):
                shutil.copy(file, copy)


def written(journal: object) -> "Future[bool]":
    """Is done when all is written that the journal was given until now."""
    done: Future[bool] = Future()
    assert isinstance(journal, Journal)
    journal._submit([], done.set_result)
    return done
