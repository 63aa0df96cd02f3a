"""Messages above the usual size: where they may be, and how many at once, or they could fill the memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class LargeMessages:
    """The connections that are amid one: `most` at once, others wait.

    times   how many times the usual size a message may have, by path; elsewhere once
    """

    times: Mapping[str, int] = field(default_factory=dict)
    most: int = 8
    holders: set[object] = field(default_factory=set)

    def times_in(self, head: bytes) -> int:
        """How many times the usual size messages may have, by the head of a request or its beginning."""
        _, _, rest = head.partition(b" ")
        return self.times.get(rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1"), 1)

    def admits(self, who: object) -> bool:
        """True if this connection may go on with its message, until it is `done`."""
        if len(self.holders) < self.most:
            self.holders.add(who)
        return who in self.holders

    def done(self, who: object) -> None:
        """It has no large message any more."""
        self.holders.discard(who)
