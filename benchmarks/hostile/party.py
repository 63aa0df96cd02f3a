"""A process of hostile clients as the siege has it: let loose, called back, and asked what it did."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hostile.kinds import Force, Siege

LONGEST_S = 600.0
_BACK_S = 150.0  # to come back when it is called: some wait for an answer


@dataclass(frozen=True)
class Where:
    """What the hostile are told of the server."""

    port: int
    ports: Mapping[str, int]
    key: str
    material: str


@dataclass
class Party:
    """One kind's process. It ends with this one, because its standard input does."""

    process: asyncio.subprocess.Process

    async def attack(self, seconds: float) -> None:
        """Begin, for at most so long."""
        await self._say(str(seconds))

    async def called_back(self) -> dict[str, Any]:
        """End the attack; what it did. Empty if it does not come back."""
        await self._say("stop")
        assert self.process.stdout is not None
        with suppress(TimeoutError, ValueError):
            async with asyncio.timeout(_BACK_S):
                report: dict[str, Any] = json.loads(await self.process.stdout.readline())
                return report
        return {}

    async def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        with suppress(ConnectionError):
            self.process.stdin.write(f"{line}\n".encode())
            await self.process.stdin.drain()


@asynccontextmanager
async def parties(siege: Siege, where: Where) -> AsyncIterator[Sequence[Party]]:
    """A process for each kind. None attacks before it is told to."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(_party(force, where)) for force in siege]


@asynccontextmanager
async def _party(force: Force, where: Where) -> AsyncIterator[Party]:
    orders = json.dumps({"kind": force.name, "clients": force.clients, **asdict(where)})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hostile", orders),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        yield Party(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
