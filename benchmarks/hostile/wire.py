"""Sockets of hostile clients: they send what they like, and read along only where they are told to."""

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from websockets.frames import Frame, Opcode

from hostile.assault import Assault

SOURCE = "127.0.0.2"  # hostile clients have an address of their own, as they would elsewhere
_LOOK_S = 0.1
_SOME = 2**16
_CLOSE = 0x88  # first byte of a server's close frame


class Wire:
    """A connection to the server. What comes is counted and forgotten, but for how it ends."""

    def __init__(self, assault: Assault, port: int, source: str, buffer: int) -> None:
        self.assault, self.reads = assault, True
        self.socket = socket.socket()
        try:
            if buffer:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            self.socket.bind((source, 0))
            self.socket.settimeout(5.0)
            self.socket.connect(("127.0.0.1", port))
        except BaseException:
            self.socket.close()
            raise
        assault.tally["connections"] += 1
        self.socket.setblocking(False)

    def write(self, data: bytes) -> None:
        """Send all of it, unless the attack is over. Raises `OSError` where the server closes."""
        view = memoryview(data)
        while view and self.assault.going:
            _, can_write, _ = select.select([self.socket] if self.reads else [], [self.socket], [], _LOOK_S)
            self.read()
            if can_write:
                with suppress(BlockingIOError):
                    sent = self.socket.send(view[:_SOME])
                    self.assault.tally["bytes"] += sent
                    view = view[sent:]

    def read(self) -> bytes:
        """What is there; nothing where this client does not read. Raises `OSError` where the server has closed."""
        if not self.reads:
            return b""
        try:
            came = self.socket.recv(_SOME)
        except BlockingIOError:
            return b""
        self._note_the_end(came)
        if not came:
            raise ConnectionAbortedError("the server closed")
        return came

    def until(self, sign: bytes, patience_s: float = 30.0, *, stays: bool = False) -> bytes:
        """What comes, until `sign` is in it or the attack is over, if the client does not stay for the answer even so.
        Raises `OSError`: the server closed, or is slow.
        """
        came, late = b"", time.monotonic() + patience_s
        while sign not in came and (stays or self.assault.going):
            if time.monotonic() > late:
                raise TimeoutError("no answer")
            select.select([self.socket], [], [], _LOOK_S)
            came += self.read()
        return came

    def close(self) -> None:
        """Leave."""
        self.socket.close()

    def _note_the_end(self, came: bytes) -> None:
        at = came.rfind(_CLOSE)
        if 0 <= at < len(came) - 3 and came[at + 1] == len(came) - at - 2:
            self.assault.met[f"close {int.from_bytes(came[at + 2 : at + 4])}"] += 1


@contextmanager
def connection(assault: Assault, port: int = 0, source: str = SOURCE, buffer: int = 0) -> Iterator[Wire]:
    """A connection to the server's port for HTTP, or another; `buffer` bytes may wait unread, about."""
    wire = Wire(assault, port or assault.port, source, buffer)
    try:
        yield wire
    finally:
        wire.close()


@contextmanager
def websocket(
    assault: Assault, path: str = "/ws", key: str | None = None, source: str = SOURCE, buffer: int = 0
) -> Iterator[Wire]:
    """The same after the handshake of a WebSocket, with the hostile client's key or another."""
    with connection(assault, source=source, buffer=buffer) as wire:
        shake_hands(wire, path, key)
        yield wire


def shake_hands(wire: Wire, path: str, key: str | None = None) -> None:
    """Make a WebSocket of a connection. Raises `ConnectionRefusedError` where the server wants none."""
    wire.write(
        request(
            "GET",
            path,
            wire.assault.key if key is None else key,
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Version: 13",
        )
    )
    status = wire.until(b"\r\n\r\n")[9:12].decode("ascii", "replace")
    if wire.assault.going and status != "101":
        wire.assault.met[f"HTTP {status}"] += 1
        raise ConnectionRefusedError(status)


def request(method: str, path: str, key: str, *headers: str, body: bytes = b"") -> bytes:
    """The bytes of an HTTP request."""
    length = [f"Content-Length: {len(body)}"] if body else []
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {key}", *headers, *length]
    return "\r\n".join((*lines, "", "")).encode() + body


def frame(opcode: Opcode, data: bytes = b"", *, fin: bool = True) -> bytes:
    """A WebSocket frame as a client sends it."""
    return Frame(opcode, data, fin).serialize(mask=True)
