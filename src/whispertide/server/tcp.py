"""Plain TCP: listeners for the protocols that need no HTTP (Wyoming, raw audio to lines), and all their I/O.

    listener = TcpListener(hub, WyomingProtocol, "127.0.0.1", 10300)
    port = await listener.start()
    ...
    await listener.stop()

These protocols have no place for an API key. Where keys are asked for, only programs on the same machine are served,
unless the listener trusts the network. Draining is the hub's affair: it knows these connections too.
"""

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from whispertide.server.access import Throttle, is_loopback
from whispertide.server.addresses import party_of
from whispertide.server.connection import Connection
from whispertide.server.hub import Hub
from whispertide.server.listening import BACKLOG, Admission, listen, raise_file_limit
from whispertide.server.protocols.base import Opening, ProtocolError, WireProtocol
from whispertide.server.transport import GoneError

log = logging.getLogger("whispertide.server")


_KEYLESS = "this port has no place for a key, and the server has keys: --trust-network opens it to other machines"
_REASONS = {
    "key": _KEYLESS,
    "overloaded": "expected fewer connections at once",
    "too_fast": "expected fewer connections of one address a minute (--max-requests)",
}
_PIECE = 16 * 1024
_PORTS = 4  # three over TCP, and that of HTTP
_ENDING = 128  # connections that gave their place away, and are not over yet
_MOST_NAMED = 1_000  # addresses that the log names as refused
_CLOSE_S = 1.0  # for the other side to read our last words and to close as well


def files_of_port() -> int:
    """The most connections of one port, so that all ports together never run out of files."""
    return max(1, raise_file_limit() // _PORTS)


class TcpTransport:
    """Bytes over one TCP connection; see `transport.Transport`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # `close` reads, too, and a stream does not allow two readers at once.
        self._reading = asyncio.Lock()
        self.first: Callable[[], None] = lambda: None  # called once the other side has said something

    async def receive(self) -> bytes:
        """Read at most 16 KiB. Raises `GoneError` at the end of the input."""
        try:
            async with self._reading:
                data = await self._reader.read(_PIECE)
        except OSError as error:
            raise GoneError from error
        if not data:
            raise GoneError
        self.first()
        return data

    async def send(self, message: str | bytes) -> None:
        """Send, waiting while the client does not read."""
        try:
            self._writer.write(message.encode() if isinstance(message, str) else message)
            await self._writer.drain()
        # asyncio raises RuntimeError for a write after the end of writing.
        except (OSError, RuntimeError) as error:
            raise GoneError from error

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Shut the sending side and read on until the client closes, or it might lose the last messages: a socket that
        closes with unread input resets the connection.
        """
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                self._writer.write_eof()
                async with self._reading:
                    while await self._reader.read(_PIECE):
                        pass

    async def release(self) -> None:
        """Give the socket back, by force if need be: a peer that does not read could hold it forever."""
        self._writer.close()
        try:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await self._writer.wait_closed()
        finally:
            self._writer.transport.abort()  # nothing, where it is closed


@dataclass(eq=False)
class TcpListener:
    """Serves one protocol on one port; port 0 is any free one.

    trusted  whether everybody who can reach the port may use it although the server asks for API keys elsewhere
    """

    hub: Hub
    protocol: type[WireProtocol]
    host: str = "127.0.0.1"
    port: int = 0
    trusted: bool = False
    _servers: list[asyncio.Server] = field(default_factory=list)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    _named: set[str] = field(default_factory=set)

    async def start(self) -> int:
        """Listen. Returns the port. Raises `OSError` if it is taken or may not be used."""
        self._throttle = Throttle(self.hub.options.limits.requests)
        limits = self.hub.options.limits
        most = min(limits.connections, files_of_port())
        self._admission = Admission(most, limits.per_address, self.hub.floods.wait_s)
        sockets = listen(self.host, self.port, self._admission)
        self.port = int(sockets[0].getsockname()[1])
        for one in sockets:
            self._servers.append(await asyncio.start_server(self._serve, sock=one, limit=_PIECE, backlog=BACKLOG))
        log.info("listening", extra={"protocol": self.protocol.name, "host": self.host, "port": self.port})
        if self._keeps_out and not is_loopback(self.host):
            log.warning("only this machine is served", extra={"protocol": self.protocol.name, "problem": _KEYLESS})
        return self.port

    @property
    def addresses(self) -> list[str]:
        """The addresses where it listens."""
        return [str(one.getsockname()[0]) for server in self._servers for one in server.sockets]

    async def stop(self) -> None:
        """Stop listening and cut the connections that are left (`serving.drain` comes first)."""
        await self._admission.end()
        for server in self._servers:
            server.close()
        if self._tasks:  # those that are closing already may finish
            await asyncio.wait(self._tasks, timeout=_CLOSE_S)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        transport = TcpTransport(reader, writer)
        try:
            await self._talk(transport, writer)
        except asyncio.CancelledError:  # by `stop`; asyncio would print it otherwise
            pass
        except Exception:
            log.exception("connection failed", extra={"protocol": self.protocol.name})
        finally:
            self._tasks.discard(task)
            with contextlib.suppress(asyncio.CancelledError):
                await transport.release()

    async def _talk(self, transport: TcpTransport, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        if reason := self._refusal(address):
            self._note(reason, address)
            return
        with contextlib.suppress(OSError):  # a peer that lost its power is found out in the end
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        opening = Opening(self.hub.info, secrets.token_urlsafe(16), at=time.time())
        try:
            conversation = self.protocol(opening)
        except ProtocolError as error:  # nothing in an empty opening can be wrong but what the server has
            self._note("bad_request", address, str(error))
            return
        if peer:
            transport.first = partial(self._admission.at_work, peer)
        await Connection(self.hub, conversation, transport, owner="", party=party_of(address)).run()

    @property
    def _keeps_out(self) -> bool:
        return bool(self.hub.options.access.keys) and not self.trusted

    def _note(self, reason: str, address: str, problem: str = "") -> None:
        """Count a connection that is refused, and log it; one for the lack of a key once for its machine."""
        self.hub.metrics.refused.labels(reason).inc()
        about = {"protocol": self.protocol.name, "address": address, "kind": reason}
        about["problem"] = _REASONS.get(reason, problem)
        if reason != "key":
            log.info("refused", extra=about)
        elif address not in self._named and len(self._named) < _MOST_NAMED:
            self._named.add(address)
            log.warning("refused", extra=about)

    def _refusal(self, address: str) -> str:
        """The reason to refuse this peer, or ""."""
        options = self.hub.options
        if self._keeps_out and not is_loopback(address):
            return "key"
        if len(self.hub.connections) >= options.limits.connections + _ENDING:
            return "overloaded"
        return "" if self._throttle.admits(address) else "too_fast"
