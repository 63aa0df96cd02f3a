"""How a server's process fares: memory, open files, processor time, log (Linux: /proc), and its answers to probes."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

_EVERY_S = 0.05
_PATIENCE_S = 5.0  # a probe that takes longer counts as so long
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Vitals:
    """At one moment. `waited_s` is what its threads waited for a core that somebody else had, together."""

    memory_mb: float
    most_mb: float  # ever
    files: int
    cpu_s: float
    waited_s: float
    log_kb: float


def vitals(pid: int) -> Vitals:
    """Of the process. Raises `OSError` where there is none, or no /proc."""
    folder = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    times = (folder / "stat").read_text().rsplit(")", 1)[1].split()
    return Vitals(
        int(status["VmRSS"].split()[0]) / 1024,
        int(status["VmHWM"].split()[0]) / 1024,
        sum(1 for _ in (folder / "fd").iterdir()),
        (int(times[11]) + int(times[12])) / _TICKS,
        sum(_waited_s(task) for task in (folder / "task").iterdir()),
        (folder / "fd" / "1").stat().st_size / 1024,
    )


def _waited_s(task: Path) -> float:
    """Of one thread (sched-stats of the kernel: time on a core and time waited for one, in nanoseconds)."""
    try:
        return int((task / "schedstat").read_text().split()[1]) / 1e9
    except OSError:  # it has just ended, or the kernel does not count
        return 0.0


@dataclass
class Probes:
    """Seconds that each answer took; `failed` had none, or another than 200."""

    took: list[float] = field(default_factory=list)
    failed: int = 0

    @property
    def p99(self) -> float:
        """All but one in a hundred took no longer."""
        ordered = sorted(self.took)
        return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] if ordered else 0.0


@asynccontextmanager
async def probed(port: int, path: str = "/healthz") -> AsyncIterator[Probes]:
    """Ask twenty times a second, each time over a connection of its own, whether or not the last one is answered."""
    probes, running = Probes(), set[asyncio.Task[None]]()

    async def ask() -> None:
        while True:
            running.add(task := asyncio.create_task(_probe(port, path, probes)))
            task.add_done_callback(running.discard)
            await asyncio.sleep(_EVERY_S)

    asking = asyncio.create_task(ask())
    try:
        yield probes
    finally:
        asking.cancel()
        await asyncio.gather(asking, *running, return_exceptions=True)


async def _probe(port: int, path: str, probes: Probes) -> None:
    began = time.perf_counter()
    answer = b""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
                answer = await reader.readline()
            finally:
                writer.close()
    except (TimeoutError, OSError):
        answer = b""
    ok = b" 200 " in answer
    probes.failed += not ok
    probes.took.append(time.perf_counter() - began if ok else _PATIENCE_S)
