"""A million frames that are nearly right, to every protocol of one server, next to a session that must lose no word."""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

from campaign.frames import SOCKETS, Kind, pcm, websocket_frame, wyoming_frame
from campaign.lines import Line, resident_mb
from campaign.scenario import Runner, Scenario
from served import TEXT, limited
from standing_server import PORTS, Standing, raw_socket, standing
from whispertide.server.connection import Connection

CONVERSATIONS = 24  # of a seed, at once
FRAMES = 80  # of a conversation, where the server does not end it before


class Counter:
    """How many messages got as far as a protocol: WebSocket messages, or pieces of a TCP stream."""

    count = 0

    def counted(self, connection: Connection, message: str | bytes) -> None:
        """In place of `Connection._receive`."""
        self.count += 1
        _RECEIVE(connection, message)


_RECEIVE = Connection._receive


@contextmanager
def fuzzed(_: Path) -> Iterator[Runner]:
    """One server for all seeds."""
    limits = limited(idle_s=10, stall_s=10, resume_s=0.2, messages=10**6, connections=200, sessions=100)
    counter = Counter()
    with mock.patch.object(Connection, "_receive", lambda *each: counter.counted(*each)), standing(limits) as town:
        town.hub.record = None  # it would remember all sessions

        def run(seed: int) -> Line:
            line, began, before = Line("fuzz", seed), time.monotonic(), counter.count
            try:
                cut = asyncio.run(_conversations(town, random.Random(f"fuzz {seed}")))
                line.words, line.sessions = len(TEXT), 1
                line.harm = counter.count - before
                line.figures["cut_off"] = cut
            except (AssertionError, TimeoutError, OSError) as error:
                line.problem = f"the bystander or the server: {type(error).__name__}: {str(error)[:300]}"
            if town.errors:
                line.problem += f" logged: {town.errors[0][:1000]}"
                town.errors.clear()
            line.rss_mb, line.wall_s = round(resident_mb(), 1), round(time.monotonic() - began, 3)
            return line

        yield run


async def _conversations(town: Standing, dice: random.Random) -> int:
    """Returns how many of them the server ended."""
    async with town.bystander():
        talks = [_converse(town, random.Random(dice.random())) for _ in range(CONVERSATIONS)]
        ended = await asyncio.gather(*talks)
    await town.settled()
    return sum(ended)


async def _converse(town: Standing, dice: random.Random) -> bool:
    where = dice.randrange(len(SOCKETS) + len(PORTS))
    kind = SOCKETS[where] if where < len(SOCKETS) else None
    port = "" if kind else PORTS[where - len(SOCKETS)]
    if kind is not None:
        reader, writer = await raw_socket(town.port, kind.path)
        writer.write(kind.opens)
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", town.tcp[port])
    try:
        with suppress(ConnectionError):
            for _ in range(FRAMES):
                if reader.at_eof() or reader.exception() is not None:
                    return True
                writer.write(_frame(kind, port, dice))
                await asyncio.wait_for(writer.drain(), 20)
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(2**16), 0.0005)
            return False
        return True
    finally:
        writer.transport.abort()


def _frame(kind: Kind | None, port: str, dice: random.Random) -> bytes:
    if kind is not None:
        return websocket_frame(kind, dice)
    return wyoming_frame(dice) if port == "wyoming" else pcm(dice)


FUZZ = Scenario(
    "fuzz",
    "mutated conversations in eight protocols to one server, beside a session that counts its words",
    "frames",
    1_000_000,
    fuzzed,
    share=1.5,
    steady=True,
)
