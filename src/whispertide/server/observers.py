"""Those who follow a live session: recording, journal, metrics, traces, the broadcast of its captions.

They may take as long as they need to store a step, and may do no other harm: one that raises is dropped, and the
session goes on as if it had never been there.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from whispertide.server.outbox import Entry
from whispertide.server.protocols.base import Audio, Clear, Configure, Finish, Flush

log = logging.getLogger("whispertide.server")

Command = Audio | Configure | Clear | Flush | Finish  # of a client, to its session
S = TypeVar("S")  # a session
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one step of a session.

    rounds   computed: 0 or 1; `round_s` is what it took
    behind   samples of audio not looked at after it
    kept     nobody learns of the step before these are done
    waited_s how long its session waited for a worker before it, and `kept_s` for its journal after it
    """

    entries: Sequence[Entry] = ()
    more: bool = False
    rounds: int = 0
    round_s: float = 0.0
    behind: int = 0
    kept: "tuple[Future[None], ...]" = ()
    waited_s: float = 0.0
    kept_s: float = 0.0


class Observer(Generic[S]):
    """Follows sessions. Every call may be left out."""

    __slots__ = ()

    def put(self, live: S, command: Command) -> None:
        """Take a command in the event loop, before the session has it."""

    def step(self, live: S, taken: Sequence[Command], entries: Sequence[Entry]) -> "Future[None] | None":
        """Store a step in its worker thread, before any client learns of it. None: it is stored; else the session takes
        no other step until it is.
        """
        return None

    def told(self, live: S, step: Step) -> None:
        """Take a step in the event loop, once it is stored and its client can have it."""

    def acknowledged(self, live: S, seq: int) -> None:
        """Note that the client has the events up to `seq`."""

    def closed(self, live: S) -> None:
        """Forget a session that is over for good."""

    def dropped(self, live: S) -> None:
        """Follow this session no longer, in whatever thread one of these calls has failed."""
        self.closed(live)


@dataclass(slots=True)
class Observers(Generic[S]):
    """The observers of one session, by their names. Calls come from the event loop and from a worker thread.

    `dropped` are the names of those that have failed, and were not added again.
    """

    session: str
    dropped: set[str] = field(default_factory=set)
    _by_name: dict[str, Observer[S]] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def add(self, live: S, name: str, make: Callable[[], Observer[S]]) -> None:
        """Let another one follow, in place of one of this name."""
        try:
            self._by_name[name] = make()
            self.dropped.discard(name)
        except Exception as error:
            self._drop(live, name, error)

    def remove(self, name: str) -> None:
        """Let one follow no longer; it is not told."""
        self._by_name.pop(name, None)

    def put(self, live: S, command: Command) -> None:
        self._each(live, lambda observer: observer.put(live, command))

    def step(self, live: S, taken: Sequence[Command], entries: Sequence[Entry]) -> "tuple[Future[None], ...]":
        """Let all store a step; returns what is to be waited for."""
        kept = self._each(live, lambda observer: observer.step(live, taken, entries))
        return tuple(future for future in kept if future is not None)

    def told(self, live: S, step: Step) -> None:
        self._each(live, lambda observer: observer.told(live, step))

    def acknowledged(self, live: S, seq: int) -> None:
        self._each(live, lambda observer: observer.acknowledged(live, seq))

    def closed(self, live: S) -> None:
        self._each(live, lambda observer: observer.closed(live))

    def _each(self, live: S, call: Callable[[Observer[S]], T]) -> list[T]:
        results = []
        # A copy: the other thread may add one meanwhile.
        for name, observer in list(self._by_name.items()):
            try:
                results.append(call(observer))
            except Exception as error:  # whatever it is, the session has no part in it
                self._drop(live, name, error)
        return results

    def _drop(self, live: S, name: str, error: Exception) -> None:
        about = {"session": self.session}
        log.error("the %s of a session failed; it continues without it", name, extra=about, exc_info=error)
        self.dropped.add(name)
        observer = self._by_name.pop(name, None)
        if observer is None:
            return
        try:
            observer.dropped(live)
        except Exception:
            log.debug("the %s could not be closed", name, extra=about, exc_info=True)
