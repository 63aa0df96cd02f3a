"""One server that many tests in a row do bad things to: in a thread of its own, with every protocol that there is.

`errors` has what it logged as an error; `bystander` is a session of somebody else, who must not lose a word.
"""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from queue import Queue
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from served import KnowingModel, bystander, client, limited, logged_errors, say_every_word, settled
from watcher import Watcher
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.hub import Hub
from whispertide.server.options import ServerOptions
from whispertide.server.protocols.lines import JsonLinesProtocol, TextLinesProtocol
from whispertide.server.protocols.wyoming import WyomingProtocol
from whispertide.server.serving import Server, assemble, run_server
from whispertide.server.tcp import TcpListener

_VENDORS = ("/v1/realtime?intent=transcription", "/v1/listen", "/v3/ws?sample_rate=16000", "/", "/asr", "/v2/listen")
SOCKETS = ("/ws", *_VENDORS)
PORTS = ("wyoming", "lines", "json-lines")
every_socket = pytest.mark.parametrize("path", SOCKETS)


@dataclass
class Standing:
    """The server."""

    server: Server
    hub: Hub
    tcp: dict[str, int]
    watcher: Watcher
    errors: list[str]
    loop: asyncio.AbstractEventLoop

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call it in the server's thread."""
        self.loop.call_soon_threadsafe(function, *arguments)

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def sockets(self) -> list[Any]:
        """uvicorn's open connections."""
        return list(self.server.server_state.connections)

    def tasks(self) -> int:
        """How many tasks the event loop has."""
        counted: Queue[int] = Queue()
        self.call(lambda: counted.put(len(asyncio.all_tasks(self.loop))))
        return counted.get(timeout=60)

    def words(self) -> list[str]:
        """What the newest session confirmed."""
        return [word.strip(" ,.!").lower() for word in self.watcher.sessions[-1].text.split()]

    def bystander(self, headers: Mapping[str, str] | None = None) -> AbstractAsyncContextManager[None]:
        """Somebody else's session meanwhile: it says every word."""
        return bystander(self.server, headers)

    @asynccontextmanager
    async def hurried(self, **limits: Any) -> AsyncIterator[None]:
        """Who connects meanwhile has these limits. Somebody else came before: theirs do not change, however busy the
        machine is, and they say every word.
        """
        options = self.hub.options
        async with client(self.server) as good:
            await good.until("hello")  # from here on its limits are what they were
            self.hub.options = replace(options, limits=replace(options.limits, **limits))
            talk = asyncio.create_task(say_every_word(good))
            try:
                yield
            finally:
                self.hub.options = options
                await talk

    async def settled(self) -> None:
        """Until nobody is connected; what is left then is a leak."""
        await settled(self.server, self.hub)


@contextmanager
def standing(options: ServerOptions | None = None, model: Any = None) -> Iterator[Standing]:
    """Afterwards: it stopped by itself, and never logged an error."""
    ready, stop, made = threading.Event(), asyncio.Event(), list[Standing]()

    async def serve() -> None:
        models: dict[str, Any] = {"nano.en": model or KnowingModel()}
        hub, close = assemble(models, get_recipe("whisper-streaming"), options or limited())
        hub.floods.by_address = False  # the clients of all tests have one
        watcher = Watcher()
        hub.record = watcher.opened
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(run_server(hub))
            ports = {}
            for kind in (WyomingProtocol, TextLinesProtocol, JsonLinesProtocol):
                listener = TcpListener(hub, kind)
                ports[kind.name] = await listener.start()
                stack.push_async_callback(listener.stop)
            made.append(Standing(server, hub, ports, watcher, errors, asyncio.get_running_loop()))
            ready.set()
            await stop.wait()
        close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    with logged_errors() as errors:
        thread.start()
        try:
            assert ready.wait(60)
            yield made[0]
            assert thread.is_alive()
        finally:
            if made:
                made[0].call(stop.set)
            thread.join(60)
    assert not thread.is_alive()
    assert not errors, errors[0]


def frame(opcode: int, data: bytes, *, fin: bool = True, length: int | None = None) -> bytes:
    """A masked WebSocket frame; `length` may lie."""
    size = len(data) if length is None else length
    head = bytes([(0x80 if fin else 0) | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 2**16:
        head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return head + bytes(4) + data


# what makes each of `SOCKETS` open a session; nothing for those that have one from the beginning
OPENING = {"/": frame(1, b'{"uid":"u","language":"en"}'), "/ws": frame(2, bytes(640))}


async def connected(port: int, buffer: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection; `buffer` bytes of what the server says may wait on this side, about."""
    raw = socket.socket()
    if buffer:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    raw.connect(("127.0.0.1", port))
    return await asyncio.open_connection(sock=raw, limit=buffer or 2**16)


async def raw_socket(
    port: int, path: str = "/ws", buffer: int = 0
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A WebSocket whose frames the test makes by itself; the handshake is done."""
    reader, writer = await connected(port, buffer)
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    try:
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def until_closed(reader: asyncio.StreamReader, patience_s: float = 60.0) -> bytes:
    """What comes until the server closes."""
    read = b""
    async with asyncio.timeout(patience_s):
        try:
            while piece := await reader.read(2**16):
                read += piece
        except ConnectionError:
            pass
    return read


async def answers(
    town: Standing, path: str, *sent: str | bytes, until: str = "", patience_s: float = 0.05
) -> tuple[list[Any], int]:
    """What a client of this path gets, until the server closes (with this code, else 0), or nothing comes for a
    moment after a message with `until` in it.
    """
    heard: list[Any] = []
    async with connect(f"ws://127.0.0.1:{town.port}{path}", proxy=None) as connection:
        try:
            for message in sent:
                await connection.send(message)
            while True:
                async with asyncio.timeout(patience_s if until in str(heard) else 60):
                    heard.append(await connection.recv())
        except TimeoutError:
            return heard, 0
        except ConnectionClosed:
            return heard, connection.close_code or 0


async def tcp_answer(town: Standing, port: str, *sent: bytes, end: bool = True) -> bytes:
    """What a TCP port says to these bytes until it closes, which may be before all of them were sent; `end`: we close
    our sending side.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", town.tcp[port])
    try:
        with suppress(OSError):
            for data in sent:
                writer.write(data)
                await writer.drain()
            if end:
                writer.write_eof()
        return await until_closed(reader)
    finally:
        writer.transport.abort()
