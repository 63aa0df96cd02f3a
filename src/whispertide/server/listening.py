"""Sockets that listen, and know whom they let in: so many connections at once, and so many from one address.

They count from the moment a connection is accepted, before TLS and before a request: whoever only connects and says
nothing is counted too. A connection too many is closed at once, without a line in the log. Knows no protocol.
"""

import contextlib
import errno
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

BACKLOG = 128  # connections that the system accepts before we do
HANDSHAKE_S = 5.0  # for TLS
_RESERVED = 128  # files that are no connections: models, the journal, uploads
_WANTED_FILES = 65_536
_TRIES = 8


@dataclass(slots=True)
class Admission:
    """How many connections are open. `most` at once; `per_address` of one address, 0: any number."""

    most: int
    per_address: int = 0
    open: Counter[str] = field(default_factory=Counter)

    def enter(self, address: str) -> bool:
        """Count a connection, if there is room for it."""
        if self.open.total() >= self.most or (self.per_address and self.open[address] >= self.per_address):
            return False
        self.open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """It is closed."""
        self.open[address] -= 1
        if not self.open[address]:
            del self.open[address]


class _Accepted(socket.socket):
    """A connection that says when it is closed."""

    left: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        # Taken off first: a socket may be closed more than once.
        left, self.left = self.left, None
        if left is not None:
            left()


class Listener(socket.socket):
    """A listening socket; asyncio accepts from it like from any other."""

    admission: Admission

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection that is let in. Raises `BlockingIOError` when no other waits."""
        while True:
            descriptor, address = self._accept()  # type: ignore[attr-defined]  # what `socket.accept` itself calls
            accepted = _Accepted(self.family, self.type, self.proto, fileno=descriptor)
            host = str(address[0])
            if self.admission.enter(host):
                accepted.left = partial(self.admission.leave, host)
                return accepted, address
            accepted.close()


def listen(host: str, port: int, admission: Admission) -> list[Listener]:
    """Listeners on every address that `host` is; port 0 is any free one, the same for all of them.

    Raises `OSError` if the port is taken or may not be used.
    """
    for _ in range(_TRIES):
        try:
            return _listeners(host, port, admission)
        except OSError as error:  # a port that is free on the first address may be taken on another
            if port or error.errno != errno.EADDRINUSE:
                raise
    return _listeners(host, port, admission)


def _listeners(host: str, port: int, admission: Admission) -> list[Listener]:
    """One try."""
    listeners: list[Listener] = []
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    missing = OSError(errno.EADDRNOTAVAIL, f"this machine has no address {host}")
    # Each once, since a name may stand for one address twice.
    for family, kind, protocol, _, address in dict.fromkeys(found):
        # With port 0 the first address gets any free one, and the others the same.
        place = (address[0], port or (listeners[0].getsockname()[1] if listeners else 0), *address[2:])
        try:
            one = _bound(Listener(family, kind, protocol), place)
            one.admission = admission
            listeners.append(one)
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # a family that is switched off
                continue
            for one in listeners:
                one.close()
            raise
    if not listeners:
        raise missing
    return listeners


def _bound(one: Listener, place: tuple[Any, ...]) -> Listener:
    try:
        # Or a server that starts again would have to wait for connections that are still closing.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if one.family == socket.AF_INET6:
            # Else it would take the IPv4 port too, and the listener for that could not be bound.
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(place)
    except OSError:
        one.close()
        raise
    one.setblocking(False)
    return one


def raise_file_limit() -> int:
    """Ask for as many open files as this process may have; returns for how many connections that is enough."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _WANTED_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems refuse what they say is allowed.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return max(1, soft - _RESERVED)
