"""Addresses where everybody who knows one may read a session's captions: their keys, their viewers, their limits.

A broadcast has a key of its own, which is in the address, and a secret, which its speaker keeps. The key is the
secret's hash: whoever has the secret gets the same address again, for the next session and after a restart, and nobody
else can speak there or end it. Lives in the event loop; knows no sockets.
"""

import asyncio
import base64
import contextlib
import hashlib
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from whispertide.server.captions import Captions
from whispertide.server.client import STOPPING
from whispertide.server.counting import counting
from whispertide.server.floods import Floods
from whispertide.server.live import LiveSession
from whispertide.server.observers import Observer, Step
from whispertide.server.options import ServerOptions
from whispertide.server.outbox import Entry

# The codes and reasons with which viewers are closed.
REVOKED = 4003, "the speaker ended this address"
EXPIRED = 1001, "nobody has spoken here for a while; ask the speaker for the address again"
STOPPED = 1012, STOPPING
FAILED = 1011, "the server made a mistake with these captions; ask the speaker to share them again"
_SECRET = re.compile(r"[A-Za-z0-9_-]{22,64}")
_KEY = 18  # bytes of the hash: 24 characters
_PER_SESSION = 2  # so many broadcasts as a key may have sessions; then the one that was left first gives way
_LINGERS_S = 3600.0  # without a session


class CrowdedError(Exception):
    """No place is left for another viewer; the message says of what."""


@dataclass(slots=True, eq=False)
class Broadcast:
    """One address.

    owner    whose API key opened it
    sessions that speak there now, by their ids: one, which has no channel, or one for each channel, from 1
    closed   the code and the reason with which its viewers are closed, once it is over
    changed  is set when there is something new to read; then another event takes its place
    """

    key: str
    owner: str
    left_at: float
    captions: Captions = field(default_factory=Captions)
    sessions: dict[str, int | None] = field(default_factory=dict)
    closed: tuple[int, str] | None = None
    viewers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Tell the viewers."""
        before, self.changed = self.changed, asyncio.Event()
        before.set()


class Broadcasts(Observer[LiveSession]):
    """All broadcasts of a server. They follow the sessions that speak there.

    Viewers have connections of their own: of one broadcast `Limits.viewers`, of all of them four times as many, in
    equal shares for each API key. Of what an address may have, half may watch; so whoever speaks from there finds a
    place.
    """

    def __init__(self, options: ServerOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._options = options
        self._open: dict[str, Broadcast] = {}  # by key
        self._by_session: dict[str, Broadcast] = {}
        self._of_owner: Counter[str] = Counter()  # viewers
        self._of_party: Counter[str] = Counter()
        self.floods = Floods(bool(options.limits.per_address), clock)

    @property
    def viewers(self) -> int:
        """The number of all viewers."""
        return self._of_owner.total()

    def find(self, key: str) -> Broadcast | None:
        return self._open.get(key)

    def open(self, owner: str, secret: str | None = None) -> tuple[str, Broadcast]:
        """Open a broadcast, or find the one of this secret. Returns the secret, a new one if none was given.

        Raises `ValueError` for a secret that could be guessed, and for that of another owner.
        """
        if secret is not None and not _SECRET.fullmatch(secret):
            raise ValueError("expected a secret of 22 to 64 letters, digits, - and _, made at random; got another")
        secret = secret or secrets.token_urlsafe(32)
        key = _key_of(secret)
        found = self._open.get(key)
        if found is None:
            self._make_room(owner)
            found = self._open[key] = Broadcast(key, owner, self._clock())
        elif found.owner != owner:
            raise ValueError("expected a secret of this API key; got that of another")
        return secret, found

    def attach(self, broadcast: Broadcast, sessions: Sequence[str], language: str | None = None) -> None:
        """Let a session speak there, or one for each channel, in place of those before. A channel whose session stays
        goes on, and so do the numbers of all; else they are others than before.
        """
        now = _channels_of(sessions)
        if broadcast.sessions == now:
            return
        stay = dict(broadcast.sessions.items() & now.items())
        for session in (broadcast.sessions.keys() | now.keys()) - stay.keys():
            self.detach(session)
        if stay:
            for _, channel in now.items() - stay.items():
                broadcast.captions.join(channel)
        else:
            broadcast.captions.begin(language, now.values())
        broadcast.sessions = now
        self._by_session |= dict.fromkeys(now, broadcast)
        broadcast.wake()

    def name(self, broadcast: Broadcast, names: Mapping[int, str]) -> None:
        """Name voices of the session that speaks there, by their numbers in it."""
        if broadcast.captions.name(names):
            broadcast.wake()

    def detach(self, session: str) -> None:
        """Take a session away: it is over, or speaks elsewhere."""
        broadcast = self._by_session.pop(session, None)
        if broadcast is not None:
            broadcast.captions.leave(broadcast.sessions.pop(session))
            broadcast.left_at = self._clock()
            broadcast.wake()

    def told(self, live: LiveSession, step: Step) -> None:
        """Take what a session says."""
        self.take(live.id, step.entries)

    def closed(self, live: LiveSession) -> None:
        """Take a session away that is over."""
        self.detach(live.id)

    def dropped(self, live: LiveSession) -> None:
        """Close the broadcast of a session: what it says cannot be taken."""
        broadcast = self._by_session.get(live.id)
        if broadcast is not None:
            self._close(broadcast, FAILED)

    def take(self, session: str, entries: Iterable[Entry]) -> None:
        """Take these entries of a session."""
        broadcast = self._by_session.get(session)
        if broadcast is not None and broadcast.captions.take(entries, broadcast.sessions[session]):
            broadcast.wake()

    def revoke(self, owner: str, secret: str) -> bool:
        """End a broadcast: its address opens nothing any more. Returns whether there was one."""
        found = self._open.get(_key_of(secret))
        if found is None or found.owner != owner:
            return False
        self._close(found, REVOKED)
        return True

    def sweep(self) -> None:
        """Close what nobody has spoken in for an hour."""
        now = self._clock()
        for one in list(self._open.values()):  # a copy: closing takes them out
            if not one.sessions and now - one.left_at > _LINGERS_S:
                self._close(one, EXPIRED)

    def stop(self) -> None:
        """Close all: the server stops."""
        for one in list(self._open.values()):  # a copy: closing takes them out
            self._close(one, STOPPED)

    @contextlib.contextmanager
    def viewing(self, broadcast: Broadcast, party: str) -> Iterator[None]:
        """Count a viewer while they watch; `party` is where they come from (`addresses.party_of`).

        Raises `CrowdedError`.
        """
        limits = self._options.limits
        for count, most, whose in (
            (broadcast.viewers, limits.viewers, "of one session"),
            (self._of_owner[broadcast.owner], self._options.viewers_of_one, "with one API key"),
            (self._of_party[party], limits.per_address // 2 or limits.viewers, "from one address"),
        ):
            if count >= most:
                raise CrowdedError(f"expected at most {most} viewers {whose}; all places are taken. Try later")
        broadcast.viewers += 1
        try:
            with counting(self._of_owner, broadcast.owner), counting(self._of_party, party):
                yield
        finally:
            broadcast.viewers -= 1

    def _make_room(self, owner: str) -> None:
        """Close the broadcast of an owner with many that was left first, if another is to be opened."""
        own = [one for one in self._open.values() if one.owner == owner]
        if len(own) >= _PER_SESSION * self._options.sessions_of_one:
            self._close(min(own, key=lambda one: (bool(one.sessions), one.left_at)), EXPIRED)

    def _close(self, broadcast: Broadcast, ending: tuple[int, str]) -> None:
        del self._open[broadcast.key]
        for session in broadcast.sessions:
            self._by_session.pop(session, None)
        broadcast.closed = ending
        broadcast.wake()


def _channels_of(sessions: Sequence[str]) -> dict[str, int | None]:
    """The channel of each session, from 1; None where there is one alone."""
    if len(sessions) == 1:
        return {sessions[0]: None}
    return {session: channel for channel, session in enumerate(sessions, 1)}


def _key_of(secret: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(secret.encode()).digest()[:_KEY]).decode()
