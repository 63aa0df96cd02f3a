"""The network between a server and NATS, for tests: it can be slow, hold everything back, and be cut."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from fake_remote import stop_accepting
from nats_server import Nats


@dataclass
class Wire:
    """A port that leads to NATS; `delay` is in seconds, each way; `sent` bytes went there. Runs in its own thread."""

    nats: Nats
    port: int = 0
    delay: float = 0.0
    sent: int = 0
    _ends: set[asyncio.StreamWriter] = field(default_factory=set)
    _held: list[Callable[[], None]] | None = None  # deliveries that wait for `release`
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _server: asyncio.Server = field(init=False)
    _over: asyncio.Event = field(init=False)

    @property
    def address(self) -> str:
        """As `--journal` takes it."""
        return f"nats://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Connections break, and new ones are refused, until `mend`."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def mend(self) -> None:
        """As before."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def hold(self) -> None:
        """What is sent from now on comes only after `release`, however busy the machine is."""
        self._held = []

    def release(self) -> None:
        """All that was held back comes now, in order, and what follows as before."""
        self._loop.call_soon_threadsafe(self._let_go)

    def _let_go(self) -> None:
        held, self._held = self._held or [], None
        for deliver in held:
            deliver()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        await stop_accepting(self._server)
        for end in list(self._ends):
            end.transport.abort()
            end.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.nats.port)
            self._ends.add(back)
            await asyncio.gather(self._carry(reader, back, True), self._carry(there, writer))
            self._ends.discard(back)
        finally:
            writer.close()
            self._ends.discard(writer)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, counted: bool = False) -> None:
        """Every piece comes `delay` later than it was sent; the order stays."""
        due = 0.0
        with suppress(OSError):
            while piece := await source.read(65_536):
                self.sent += len(piece) if counted else 0
                deliver = partial(self._deliver, target, piece)
                if self._held is not None:
                    self._held.append(deliver)
                    continue
                due = max(due, self._loop.time() + self.delay)
                self._loop.call_at(due, deliver)
        target.close()

    def _deliver(self, target: asyncio.StreamWriter, piece: bytes) -> None:
        if not target.is_closing():
            target.write(piece)

    async def _live(self, ready: threading.Event) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        await self._listen()
        ready.set()
        await self._over.wait()
        await self._cut()
        while self._ends:
            await asyncio.sleep(0.01)

    def _run(self, ready: threading.Event) -> None:
        asyncio.run(self._live(ready))


@contextmanager
def wire_to(nats: Nats) -> Iterator[Wire]:
    """Runs until the end of the block."""
    wire, ready = Wire(nats), threading.Event()
    thread = threading.Thread(target=wire._run, args=(ready,), name="wire")
    thread.start()
    ready.wait()
    try:
        yield wire
    finally:
        wire._loop.call_soon_threadsafe(wire._over.set)
        thread.join()
