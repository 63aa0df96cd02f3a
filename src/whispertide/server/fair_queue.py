"""Fair queueing: workers' time is shared equally by API keys, and the share of a key by its sessions.

Fair queueing by virtual time (Goyal, Vin and Cheng, SIGCOMM 1996, section 2), by keys and within each by sessions.
Everyone has a tag, the time that was worked for them, and the least is next. Who comes back after a silence begins at
the least tag of those that have something to do: nothing is owed for the silence. So whoever needs less than their
share is next when a worker is free, however much the others want. Of one key's sessions those whose client is gone
come last.

Pure: the time of each step comes with the call.
"""

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class _Turn(Protocol):
    """A session as the queue sees it: its owner is an API key; `worked` is its tag, in seconds."""

    owner: str
    worked: float

    @property
    def is_parked(self) -> bool:
        """True if no client is connected to it."""


T = TypeVar("T", bound=_Turn)


@dataclass(slots=True)
class _Key:
    """An API key: its tag, and the least one of its sessions."""

    worked: float = 0.0
    least: float = 0.0


@dataclass(slots=True)
class FairQueue(Generic[T]):
    """Sessions that wait for a step. It keeps one tag for each key that the server knows, and nothing else of it."""

    _waiting: list[T] = field(default_factory=list)
    _at_work: list[T] = field(default_factory=list)
    _keys: dict[str, _Key] = field(default_factory=dict)
    _least: float = 0.0  # tag of a key

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def busy(self) -> list[T]:
        """The sessions that wait, and those that were taken."""
        return [*self._waiting, *self._at_work]

    def add(self, one: T) -> None:
        """Add a session that has work to do."""
        key = self._keys.setdefault(one.owner, _Key())
        # No credit for a silence: a key that comes back starts at the least tag.
        key.worked = max(key.worked, self._least)
        one.worked = max(one.worked, key.least)
        self._waiting.append(one)

    def take(self, *, of_idle_key: bool = False) -> T | None:
        """Remove and return the next entry; of equals the one that waits longest. None if nobody waits, or, with
        `of_idle_key`, if every waiting key has a session at work.
        """
        busy = {one.owner for one in self._at_work} if of_idle_key else set()
        one = min(
            (one for one in self._waiting if one.owner not in busy),
            key=lambda one: (self._keys[one.owner].worked, one.is_parked, one.worked),
            default=None,
        )
        if one is None:
            return None
        self._waiting.remove(one)
        self._at_work.append(one)
        return one

    def charge(self, one: T, seconds: float) -> None:
        """Charge a taken session for the seconds that it worked, and take it as done."""
        one.worked += seconds
        self._keys[one.owner].worked += seconds
        # While it counts among them: what it has come short by is not lost to it if it has more to do.
        self._advance(self._keys[one.owner], one.owner)
        self._at_work.remove(one)

    def remove(self, one: T) -> None:
        """Remove a session that waits."""
        self._waiting.remove(one)

    def clear(self) -> None:
        """Remove all sessions."""
        self._waiting.clear()

    def _advance(self, key: _Key, owner: str) -> None:
        self._least = max(self._least, min(self._keys[one.owner].worked for one in self.busy))
        present = [one.worked for one in self.busy if one.owner == owner and not one.is_parked]
        key.least = max([key.least, *([min(present)] if present else [])])
