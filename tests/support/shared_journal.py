"""Clients of servers with a journal, their own or one that they share in NATS, for the tests."""

import asyncio
from dataclasses import replace
from typing import Any

import httpx

from nats_server import Nats
from nats_wire import Wire
from served import SECONDS, Client, limited
from whispertide.events import Event
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
