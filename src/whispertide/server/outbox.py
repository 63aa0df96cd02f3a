"""Numbered events of a session in a ring, kept until its client has them, and the client's position in it.

Pure: it knows no sockets. The numbers on the wire are given here, because the server says things of its own
(`Intent`) between the session's events.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from whispertide.events import Confirmed, End, Error, Event, Hypothesis, TurnEnd

Mark = Literal["flushed", "cleared"]
Entry = Event | Mark


class EventsGoneError(LookupError):
    """The events after which a client wants to go on are not here.

    ahead     it has events that are not here, and not: some that it lacks are gone
    last_seq  what it can resume with all the same
    """

    def __init__(self, message: str, last_seq: int, *, ahead: bool) -> None:
        super().__init__(message)
        self.last_seq = last_seq
        self.ahead = ahead


@dataclass(slots=True)
class Outbox:
    """Entries in order; a mark stands after the events that it answers.

    next_seq  the number of the next event
    limit     entries kept; beyond it guesses that another guess has replaced are dropped, then the oldest entries
    """

    limit: int = 20_000
    next_seq: int = 0
    entries: deque[Entry] = field(default_factory=deque)
    ended: bool = False
    _sent: int = 0  # how many of `entries` the present connection has
    _lost: int = 0  # every event before this number may be missing
    _sent_end: int = 0  # no client has an event from this number on

    def restore(self, next_seq: int, entries: Sequence[Entry]) -> None:
        """Continue after a restart; the client may have received all events before this one. `entries` are those that
        it did not acknowledge; earlier ones are gone.
        """
        self.next_seq = self._sent_end = next_seq
        self._lost = next((entry.seq for entry in entries if isinstance(entry, Event)), next_seq)
        self.add(entries)

    def number(self, events: Iterable[Event]) -> list[Event]:
        """Give events the numbers that they have on the wire; they are not added yet."""
        numbered = [replace(event, seq=self.next_seq + index) for index, event in enumerate(events)]
        self.next_seq += len(numbered)
        return numbered

    def add(self, entries: Iterable[Entry]) -> None:
        """Add numbered events and marks."""
        for entry in entries:
            self.entries.append(entry)
            self.ended = self.ended or isinstance(entry, End) or (isinstance(entry, Error) and entry.fatal)
        if len(self.entries) > self.limit:
            self._thin()
        while len(self.entries) > self.limit:
            self._drop_oldest()

    @property
    def waiting(self) -> int:
        """The entries that the present connection does not have."""
        return len(self.entries) - self._sent

    def take(self, most: int) -> list[Entry]:
        """Take the next entries for the present connection."""
        taken = list(islice(self.entries, self._sent, self._sent + most))
        self._sent += len(taken)
        self._sent_end = max([self._sent_end, *(entry.seq + 1 for entry in taken if isinstance(entry, Event))])
        return taken

    def acknowledge(self, seq: int) -> None:
        """Drop events up to `seq`; those that were never sent stay, and so do marks after that event."""
        count = 0
        for index, entry in enumerate(islice(self.entries, self._sent)):
            if isinstance(entry, Event):
                if entry.seq > seq:
                    break
                count = index + 1
        for _ in range(count):
            self._drop_oldest()

    def forget_sent(self) -> None:
        """Drop sent events, for clients that do not acknowledge."""
        while self._sent:
            self._drop_oldest()

    def resume(self, last_seq: int) -> None:
        """Go back to the events after `last_seq`, for a client that comes back.

        Raises `EventsGoneError` if that leaves a gap, or if it has an event that was neither sent nor written here:
        after a crash the numbers from there on are given anew, to other events.
        """
        most = max(self._sent_end, self._lost)
        if not self._lost <= last_seq + 1 <= most:
            ahead = last_seq + 1 > most
            nearest = most - 1 if ahead else self._lost - 1
            void = f"events after {nearest} are unknown here" if ahead else f"events up to {nearest} are no longer kept"
            raise EventsGoneError(
                f"expected last_seq from {self._lost - 1} to {most - 1}; got {last_seq}: {void}. Resume with {nearest}",
                nearest,
                ahead=ahead,
            )
        # `acknowledge` looks at what was sent alone, so for a moment all of it counts as that.
        self._sent = len(self.entries)
        self.acknowledge(last_seq)
        self._sent = 0

    def _drop_oldest(self) -> None:
        entry = self.entries.popleft()
        # An entry that was never sent may go, too: then the count stays 0.
        self._sent = max(0, self._sent - 1)
        if isinstance(entry, Event):
            self._lost = entry.seq + 1

    def _thin(self) -> None:
        """Drop the guesses that a later entry has replaced: a client that reads on afterwards misses no word."""
        kept: deque[Entry] = deque()
        replaced, sent = False, self._sent
        # From the end: a later entry decides whether a guess is replaced.
        for index in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[index]
            if isinstance(entry, Hypothesis) and replaced:
                sent -= index < self._sent
                continue
            replaced = replaced or isinstance(entry, Hypothesis | Confirmed | TurnEnd)
            kept.appendleft(entry)
        self.entries, self._sent = kept, sent
