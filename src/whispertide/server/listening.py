"""Listening sockets that admit connections: so many at once, and so many from one address.

They count from the moment a connection is accepted, before TLS and before a request: whoever only connects and says
nothing is counted too. Where there is no place left, a connection that the server waits for gives way to a new one, so
that whoever says nothing keeps nobody out. Only where all are at work is one too many closed at once, without a line in
the log. Knows no protocol.
"""

import asyncio
import contextlib
import errno
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from whispertide.server.addresses import party_of

BACKLOG = 128  # connections that the system accepts before we do
HANDSHAKE_S = 5.0  # for TLS
_RESERVED = 128  # files that are no connections: models, the journal, uploads
_WANTED_FILES = 65_536
_TRIES = 8
_REFUSED = 32  # connections that are closed at once in one turn of the event loop
_TURNS = 3  # of the event loop, from accepting a connection until its protocol has it


Peer = tuple[Any, ...]  # a socket's address, as the system has it: the host, the port, …


def _nothing() -> None:
    pass


def _no_wait(_: str) -> float:
    return 0.0


@dataclass(slots=True)
class Admission:
    """Limits on open connections: `most` at once, `per_address` of one address (`party_of`); 0: any number.

    A connection is idle while the server waits for its client: before a request, between two, and while an answer is
    not read. Of those the oldest of whoever has most gives way where a new one finds no place.

    wait_s   for how long a party gets none at all (`floods.Floods.wait_s`)
    """

    most: int
    per_address: int = 0
    wait_s: Callable[[str], float] = _no_wait
    over: bool = False  # nothing more is accepted
    open: Counter[str] = field(default_factory=Counter)
    _idle: dict[str, OrderedDict[Peer, Callable[[], None]]] = field(default_factory=dict)
    _busy: dict[Peer, Callable[[], None]] = field(default_factory=dict)

    async def end(self) -> None:
        """Accept nothing more, and wait for those that are just accepted: asyncio drops them, and leaves their sockets
        open, where their server closes before they have a protocol.
        """
        self.over = True
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def enter(self, peer: Peer, shut: Callable[[], None] = _nothing) -> bool:
        """Count a connection, idle until `at_work`, if there is room for it; `shut` takes it back."""
        party = party_of(str(peer[0]))
        if self.wait_s(party) > 0:
            return False
        if self.per_address and self.open[party] >= self.per_address and not self._give_way(party):
            return False
        if self.open.total() >= self.most and not self._give_way(self._greediest()):
            return False
        self.open[party] += 1
        self._idle.setdefault(party, OrderedDict())[peer] = shut
        return True

    def leave(self, peer: Peer) -> None:
        """Count a connection as closed, but for one that gave way before."""
        party = party_of(str(peer[0]))
        if self._taken_off(party, peer) is None:
            return
        self.open[party] -= 1
        if not self.open[party]:
            del self.open[party]

    def at_work(self, peer: Peer) -> None:
        """Mark a connection as busy: the server works for this client, or talks with it."""
        party = party_of(str(peer[0]))
        if peer in self._idle.get(party, ()):
            self._busy[peer] = self._taken_off(party, peer) or _nothing

    def wait(self, peer: Peer) -> None:
        """Mark a connection as idle: the server waits for this client."""
        shut = self._busy.pop(peer, None)
        if shut is not None:
            self._idle.setdefault(party_of(str(peer[0])), OrderedDict())[peer] = shut

    def _taken_off(self, party: str, peer: Peer) -> Callable[[], None] | None:
        idle = self._idle.get(party, OrderedDict())
        shut = idle.pop(peer, None) or self._busy.pop(peer, None)
        if not idle:
            self._idle.pop(party, None)
        return shut

    def _greediest(self) -> str:
        return max(self._idle, key=lambda party: len(self._idle[party]), default="")

    def _give_way(self, party: str) -> bool:
        """Close the connection of this party that has been idle for longest, if one is."""
        peer = next(iter(self._idle.get(party, ())), None)
        if peer is None:
            return False
        shut = self._idle[party][peer]
        self.leave(peer)  # it is as good as closed: its place is free now
        shut()
        return True


class _Accepted(socket.socket):
    """A connection that tells the admission when it is closed."""

    left: Callable[[], None] | None = None

    def give_way(self) -> None:
        """Shut the connection down, so that its reader sees the end."""
        self.left = None  # whoever has asked counts it as closed
        with contextlib.suppress(OSError):  # the client has left already
            self.shutdown(socket.SHUT_RDWR)

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
        """Accept the next connection that is admitted. Raises `BlockingIOError` if no other waits, and after many
        refusals: other sockets have their turn.
        """
        for _ in range(0 if self.admission.over else _REFUSED):
            descriptor, address = self._accept()  # type: ignore[attr-defined]  # what `socket.accept` itself calls
            accepted = _Accepted(self.family, self.type, self.proto, fileno=descriptor)
            if self.admission.enter(address, accepted.give_way):
                accepted.left = partial(self.admission.leave, address)
                return accepted, address
            accepted.close()
        raise BlockingIOError


def listen(host: str, port: int, admission: Admission) -> list[Listener]:
    """Listen on every address of `host`; port 0 is any free one, the same for all of them.

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
    """Try once."""
    listeners: list[Listener] = []
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    missing = OSError(errno.EADDRNOTAVAIL, f"this machine has no address {host}")
    # Each once, since a name may stand for one address twice.
    for family, kind, protocol, _, address in dict.fromkeys(found):
        # With port 0 the first address gets any free one, and the others the same.
        place = (address[0], port or (listeners[0].getsockname()[1] if listeners else 0), *address[2:])
        try:
            one = _bind(Listener(family, kind, protocol), place)
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


def _bind(one: Listener, place: tuple[Any, ...]) -> Listener:
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
    """Raise the limit of open files as far as this process may; returns the number of connections that it is enough
    for.
    """
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
