"""The checks at the door: key, origin, how many connections there are, how often an address comes. No I/O."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from whispertide.server.access import Gatekeeper, offered_keys
from whispertide.server.options import Limits

_ADDRESSES = 10_000  # remembered; beyond it the one that came longest ago is forgotten


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to let somebody in: `status` None, else the HTTP status to refuse with.

    `message_first` is as if they had sent it first; `limit_s` is the most audio of a session that they may have.
    """

    owner: str = ""
    message_first: str = ""
    limit_s: float = math.inf
    status: int | None = None
    reason: str = ""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Throttle:
    """At most `per_minute` from each address, on average; a minute's worth may come at once. 0 = any number."""

    per_minute: int
    clock: Callable[[], float] = time.monotonic
    _seen: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def admits(self, address: str) -> bool:
        """Count a request from this address."""
        if not self.per_minute:
            return True
        now = self.clock()
        tokens, before = self._seen.pop(address, (float(self.per_minute), now))
        tokens = min(tokens + (now - before) * self.per_minute / 60, self.per_minute)
        self._seen[address] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._seen) > _ADDRESSES:
            self._seen.popitem(last=False)
        return tokens >= 1


class Door:
    """Decides about everybody who comes, by HTTP or WebSocket."""

    def __init__(self, gatekeeper: Gatekeeper, limits: Limits) -> None:
        self.gatekeeper = gatekeeper
        self.throttle = Throttle(limits.requests)
        self.inside = 0
        self._limit = limits.connections

    def check(
        self,
        headers: Mapping[str, str],
        query: Mapping[str, str],
        subprotocols: Sequence[str] = (),
        address: str = "",
        *,
        protocol: str = "",
    ) -> Verdict:
        """`headers` have lower-case names; `protocol` is that of a WebSocket, and empty for plain HTTP.

        The origin is checked for all that a page could do unseen.
        """
        if not self.throttle.admits(address):
            message = f"expected at most {self.throttle.per_minute} requests a minute; got more. Wait a while"
            return Verdict(status=429, reason="too_fast", message=message, headers={"retry-after": "60"})
        if not self.gatekeeper.allows_host(headers.get("host")):
            message = (
                f"expected to be called by address or as localhost; got {headers.get('host')}: "
                "the server can allow the name with --origin, or ask for API keys"
            )
            return Verdict(status=403, reason="host", message=message)
        if not self.gatekeeper.allows_origin(headers.get("origin"), headers.get("host")):
            message = (
                f"pages from {headers.get('origin')} may not connect; start the server with --origin to allow them"
            )
            return Verdict(status=403, reason="origin", message=message)
        offered = list(offered_keys(headers, query, subprotocols))
        if protocol and self.inside >= self._limit:
            message = f"expected at most {self._limit} connections at once; all are taken. Try later"
            return Verdict(status=503, reason="overloaded", message=message, headers={"retry-after": "5"})
        if protocol and (entry := self.gatekeeper.redeem(offered, protocol)) is not None:
            what, owner = entry
            return Verdict(owner, what.message, what.limit_s)
        known = self.gatekeeper.owner(offered)
        if known is None:
            message = "expected a valid API key, for example in the header `Authorization: Bearer KEY`"
            return Verdict(status=401, reason="key", message=message, headers={"www-authenticate": "Bearer"})
        return Verdict(known)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Count a connection while it lasts."""
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1
