"""A million frames that are nearly right, to every protocol of one server, next to a session that must lose no word.

The server has a process of its own (`fuzz_server`), so that the memory that is measured is the server's alone.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed, WebSocketException

from campaign.frames import SOCKETS, Kind, pcm, websocket_frame, wyoming_frame
from campaign.fuzz_server import PORTS
from campaign.lines import Line
from campaign.scenario import Runner, Scenario
from served import TEXT, bystander
from standing_server import raw_socket

CONVERSATIONS = 24  # of a seed, at once
FRAMES = 80  # of a conversation, where the server does not end it before
SERVER: Sequence[str] = (sys.executable, "-m", "campaign.fuzz_server")
STATE_S = 90.0  # until all connections are gone
PATIENCE_S = 120.0  # with a machine that is busy otherwise
TRY_LATER = 1013


class Target:
    """The server, by the ports that it named."""

    def __init__(self, ports: dict[str, int]) -> None:
        self.ports = ports

    @property
    def port(self) -> int:
        """That of HTTP and WebSockets."""
        return self.ports["http"]

    async def state(self) -> dict[str, Any]:
        """What it says of itself, when nobody is connected to it any more."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports["state"])
        try:
            state: dict[str, Any] = json.loads(await asyncio.wait_for(reader.read(), STATE_S))
            return state
        finally:
            writer.close()


@contextmanager
def target() -> Iterator[Target]:
    """A server that runs meanwhile."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(SERVER, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdout is not None
        try:
            yield Target(json.loads(process.stdout.readline()))
        finally:
            process.kill()


@contextmanager
def fuzzed(_: Path) -> Iterator[Runner]:
    """One server for all seeds."""
    with target() as server:
        frames = 0

        def run(seed: int) -> Line:
            nonlocal frames
            line, began = Line("fuzz", seed, words=len(TEXT), sessions=1), time.monotonic()
            try:
                line.figures["cut_off"], state = _asked_again(server, seed)
                line.harm, frames = state["frames"] - frames, state["frames"]
                line.rss_mb = state["rss_mb"]
                line.problem = "".join(f"logged: {error[:1000]}" for error in state["errors"][:1])
            except (AssertionError, EOFError, OSError, ValueError, WebSocketException) as error:
                line.problem = f"the bystander or the server: {type(error).__name__}: {str(error)[:300]}"
            line.wall_s = round(time.monotonic() - began, 3)
            return line

        yield run


def _asked_again(server: Target, seed: int) -> tuple[int, dict[str, Any]]:
    """A seed's conversations; anew where the machine is so busy that the server takes no session for the moment."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return asyncio.run(_conversations(server, random.Random(f"fuzz {seed}")))
        except ConnectionClosed as error:
            if error.rcvd is None or error.rcvd.code != TRY_LATER or time.monotonic() > until:
                raise
            time.sleep(1)


async def _conversations(server: Target, dice: random.Random) -> tuple[int, dict[str, Any]]:
    """Returns how many of them the server ended, and what it says after all."""
    async with bystander(server):
        talks = [_converse(server, random.Random(dice.random())) for _ in range(CONVERSATIONS)]
        ended = await asyncio.gather(*talks)
    return sum(ended), await server.state()


async def _converse(server: Target, dice: random.Random) -> bool:
    where = dice.randrange(len(SOCKETS) + len(PORTS))
    kind = SOCKETS[where] if where < len(SOCKETS) else None
    port = "" if kind else PORTS[where - len(SOCKETS)]
    if kind is not None:
        reader, writer = await raw_socket(server.port, kind.path)
        writer.write(kind.opens)
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[port])
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
    "mutated conversations in eight protocols to one server, next to a session that counts its words",
    "frames",
    2_000_000,
    fuzzed,
    share=1.5,
    steady=True,
)
