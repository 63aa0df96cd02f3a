"""Access control: API keys, origins of web pages, rates and numbers of connections. No I/O but reading a key file."""

import base64
import contextlib
import hashlib
import hmac
import ipaddress
import math
import secrets
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from whispertide.errors import OptionError
from whispertide.server.addresses import party_of
from whispertide.server.bucket import Bucket
from whispertide.server.counting import counting
from whispertide.server.floods import Floods
from whispertide.server.guesses import Guesses
from whispertide.server.http_error import HttpError
from whispertide.server.late_refusals import LateRefusals
from whispertide.server.options import Access, ServerOptions
from whispertide.server.protocols.base import KEYS
from whispertide.server.recent import Recent
from whispertide.text_lines import read_lines

_MIN_KEY = 8
_TEMPORARY_PREFIX = "ek_"
# Keys that are remembered, and bytes of the settings that they open with: in equal shares for those who have real ones.
_TEMPORARY, _SETTINGS = 10_000, 16 * 2**20
_WRONG, _WRONG_PER_S = 20, 1 / 3  # keys of one address at once, and a second
# Where the clients of the protocols that are spoken here put their key, apart from `Authorization`.
_HEADERS = ("x-api-key", "api-key")
_MOST_OFFERED = 8  # the places of a key: three headers, three parameters, a subprotocol, and one to spare
# WebSockets in a browser cannot set headers; these subprotocols carry the key (OpenAI, Deepgram, and our own).
_KEY_PREFIX = "openai-insecure-api-key."
_KEY_FOLLOWS = ("token", "bearer")
_ENCODED_PREFIX = "whispertide.key."


def read_keys(environment: str | None, path: Path | None) -> tuple[str, ...]:
    """Keys from the value of an environment variable (separated by commas) and from a file (one a line; # begins a
    comment, first or after a space).

    Raises `OptionError` for a file that cannot be read or has no key, and for a key that is too short.
    """
    keys = [key.strip() for key in (environment or "").split(",")]
    if path is not None:
        try:
            found = read_lines(path)
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"expected a file of API keys, one per line; cannot read {path}: {error}") from error
        if not found:
            raise OptionError(f"expected at least one API key in {path}; got none. Write one per line")
        keys += found
    # Each once, in the order in which they were given.
    keys = list(dict.fromkeys(filter(None, keys)))
    if any(len(key) < _MIN_KEY for key in keys):
        raise OptionError(f"expected API keys of at least {_MIN_KEY} characters; got a shorter one. Choose longer keys")
    return tuple(keys)


def offered_keys(headers: Mapping[str, str], query: Mapping[str, str], subprotocols: Sequence[str] = ()) -> list[str]:
    """The keys in every place where a client may have put its own: bearer or "Token" or raw, other headers, the
    address, a subprotocol. No more than there are places: a thousand in one header would be so many guesses.
    """
    return list(islice(_offers(headers, query, subprotocols), _MOST_OFFERED))


def _offers(headers: Mapping[str, str], query: Mapping[str, str], subprotocols: Sequence[str]) -> Iterable[str]:
    if value := headers.get("authorization", "").strip():
        yield _in_header(value.split(None, 1)[-1])
    yield from (_in_header(headers[name]) for name in _HEADERS if name in headers)
    yield from (query[name] for name in KEYS if name in query)
    # Each with the one before it, which may say that it is a key.
    for before, name in zip(("", *subprotocols), subprotocols, strict=False):
        if name.startswith(_KEY_PREFIX):
            yield name.removeprefix(_KEY_PREFIX)
        elif name.startswith(_ENCODED_PREFIX):
            yield from _decode(name.removeprefix(_ENCODED_PREFIX))
        elif before.lower() in _KEY_FOLLOWS:
            yield name


def _in_header(value: str) -> str:
    """A key as its client wrote it: a header has bytes, of which starlette makes a character each."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _decode(text: str) -> Iterable[str]:
    """The key in base64url without padding: not every key is a subprotocol as it is. Nothing if it is none."""
    with contextlib.suppress(ValueError):  # no base64, or no text
        yield base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


@dataclass(frozen=True, slots=True)
class TemporaryKey:
    """A key that is good for a short time, made for a client that should not see the real one.

    protocol  the one whose connections it opens, by name
    message   as if they had sent it first
    once      good for one connection
    limit_s   the most audio of a session that it opens
    """

    protocol: str
    message: str = ""
    once: bool = False
    limit_s: float = math.inf


@dataclass(frozen=True, slots=True)
class _Issued:
    """A temporary key that was given out."""

    what: TemporaryKey
    owner: str
    until: float

    @property
    def size(self) -> int:
        return sys.getsizeof(self.what.message)


class Authenticator:
    """Compares keys in constant time, and origins. Temporary keys are forgotten when their time is over."""

    def __init__(self, access: Access, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._issued: dict[bytes, _Issued] = {}
        owners = max(1, len(access.keys))
        self._share, self._bytes = max(1, _TEMPORARY // owners), _SETTINGS // owners
        self._hashes = tuple(_digest(key) for key in access.keys)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in access.origins)

    @property
    def is_open(self) -> bool:
        """True if no key is asked for."""
        return not self._hashes

    def issue(self, owner: str, what: TemporaryKey, valid_s: float) -> tuple[str, float]:
        """Make a temporary key. Returns it and the end of its validity (seconds since 1970).

        The oldest of this owner give way where there are too many, or their settings are too much; the new one stays.
        """
        self._forget_old()
        key, until = _TEMPORARY_PREFIX + secrets.token_urlsafe(24), self._clock() + valid_s
        new = _Issued(what, owner, until)
        # A dictionary keeps its order, so the first is the oldest.
        own = deque((digest, one.size) for digest, one in self._issued.items() if one.owner == owner)
        size = new.size + sum(size for _, size in own)
        while own and (len(own) >= self._share or size > self._bytes):
            digest, freed = own.popleft()
            size -= freed
            del self._issued[digest]
        self._issued[_digest(key)] = new
        return key, until

    def _forget_old(self) -> None:
        now = self._clock()
        self._issued = {digest: one for digest, one in self._issued.items() if one.until > now}

    def redeem(self, offered: Iterable[str], protocol: str) -> tuple[TemporaryKey, str, str] | None:
        """Use up a temporary key for this protocol. Returns what it opens, its owner and the key."""
        self._forget_old()
        for key in offered:
            found = self._issued.get(_digest(key)) if key.startswith(_TEMPORARY_PREFIX) else None
            if found is not None and found.what.protocol == protocol:
                return found.what, found.owner, key
        return None

    def spend(self, key: str) -> None:
        """Mark a temporary key as used: from now on it opens nothing."""
        self._issued.pop(_digest(key), None)

    def owner(self, offered: Iterable[str]) -> str | None:
        """Name the owner of a right key among those offered (the same for the same key, and not the key); None if none
        is right.
        """
        if not self._hashes:
            return ""
        for key in offered:
            given = _digest(key)
            # all are compared, so that the time tells nothing about which one it was
            matches = [hmac.compare_digest(given, known) for known in self._hashes]
            if any(matches):
                return given.hex()[:16]
        return None

    def allows_host(self, host: str | None) -> bool:
        """True if a keyless server may be called by that name: an address, localhost, a name without a dot, or the host
        of an allowed origin.

        A browser sends no origin with a plain GET of the same site. A page that points its own name at this server
        (DNS rebinding) is the same site, and only the name tells.
        """
        if not self.is_open or host is None or "*" in self._origins:
            return True
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        known = {urlsplit(origin).hostname for origin in self._origins}
        return _is_own_name(name) or "." not in name or name in known

    def allows_origin(self, origin: str | None, host: str | None) -> bool:
        """True if a page from `origin` may connect: pages of this server, those allowed, and a request without an
        origin.

        A browser sends the origin and cannot lie about it; other programs send none. Where no key is asked for, the
        server must also have been called as `allows_host` says, or any page could point its own name at it.
        """
        if origin is None or "*" in self._origins or origin.rstrip("/").lower() in self._origins:
            return True
        try:
            same = host is not None and urlsplit(origin).netloc.lower() == host.lower() != ""
            return same and self.allows_host(host)
        except ValueError:
            return False


@dataclass(slots=True)
class Throttle:
    """At most `per_minute` from each address, on average; a minute's worth may come at once. 0 = any number. An `owner`
    of a key who is known there has as many of their own: others at the address, who guess keys, keep nobody out.
    """

    per_minute: int
    clock: Callable[[], float] = time.monotonic
    _left: Recent[tuple[str, str], Bucket] = field(default_factory=Recent)

    def admits(self, address: str, owner: str = "") -> bool:
        """Count a request from this address."""
        if not self.per_minute:
            return True
        name = party_of(address), owner
        self._left[name] = left = self._left.get(name) or Bucket(self.per_minute / 60, self.per_minute)
        # A request that is refused costs nothing, or whoever keeps trying would never be let in again.
        return left.spend(self.clock())


@dataclass(frozen=True, slots=True)
class Admitted:
    """A client that may connect, with the rights of its key.

    `message_first` is as if they had sent it first; `limit_s` is the most audio of a session that they may have;
    `once` is their key if it is good for one connection: it is to be spent when that stands.
    """

    owner: str = ""
    message_first: str = ""
    limit_s: float = math.inf
    once: str = ""


class AccessControl:
    """Checks every request, by HTTP or WebSocket.

    Of all connections with a protocol each key has an equal share, and each address three quarters of its own: what it
    asks by HTTP, such as whether the server lives, always finds a place.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        options: ServerOptions,
        clock: Callable[[], float] = time.monotonic,
        floods: Floods | None = None,
    ) -> None:
        """`floods` gives the seconds that a party has to wait before another connection."""
        limits = options.limits
        self._floods = floods or Floods(bool(limits.per_address), clock)
        self.authenticator = authenticator
        self.late = LateRefusals()
        self.throttle = Throttle(limits.requests)
        self.guesses = Guesses(_WRONG, _WRONG_PER_S, enabled=bool(limits.per_address), clock=clock)
        self.connections: Counter[str] = Counter()  # by key
        self._addresses: Counter[str] = Counter()
        self._limit = limits.connections
        self._share = options.connections_of_one
        self._of_address = limits.per_address - limits.per_address // 4

    def check(
        self,
        headers: Mapping[str, str],
        query: Mapping[str, str],
        subprotocols: Sequence[str] = (),
        address: str = "",
        *,
        protocol: str = "",
    ) -> Admitted:
        """`headers` have lower-case names; `protocol` is that of a WebSocket, and empty for plain HTTP.

        The origin is checked for all that a page could do unseen. Raises `HttpError`.
        """
        known, host, origin = self.authenticator, headers.get("host"), headers.get("origin")
        offered, party = offered_keys(headers, query, subprotocols), party_of(address)
        name = known.owner(offered) or ""
        # Whoever has only guessed a right key must not see it by this.
        self.check_rate(address, name if self.guesses.knows(party, name) else "")
        if not known.allows_host(host):
            message = f"expected to be called by address or as localhost; got {host}: "
            raise HttpError(
                403, f"{message}the server can allow the name with --origin, or ask for API keys", code="host"
            )
        if not known.allows_origin(origin, host):
            message = f"pages from {origin} may not connect; start the server with --origin to allow them"
            raise HttpError(403, message, code="origin")
        admitted = self._admit(offered, protocol, party)
        if protocol:
            self._check_flood(admitted.owner, party)
            self._check_room(admitted.owner, party)
        return admitted

    def check_rate(self, address: str, owner: str = "") -> None:
        """Count a request. Raises `HttpError` for one of too many."""
        if not self.throttle.admits(address, owner):
            message = f"expected at most {self.throttle.per_minute} requests a minute; got more. Wait a while"
            raise HttpError(429, message, {"retry-after": "60"}, code="too_fast")

    def _admit(self, offered: Sequence[str], protocol: str, party: str) -> Admitted:
        """Check the keys. Raises `HttpError`; a client that has offered too many wrong ones gets the same answer to a
        right one, or the answer would tell it.
        """
        known = self.authenticator
        if protocol and (found := known.redeem(offered, protocol)) is not None:
            what, owner, key = found
            return Admitted(owner, what.message, what.limit_s, key if what.once else "")
        name = known.owner(offered)
        if name is not None and (known.is_open or self.guesses.right(party, name)):
            return Admitted(name)
        # Closed, so that each guess needs a connection of its own.
        closed = {"connection": "close"}
        if offered and not self.guesses.may_guess(party):
            message = "expected fewer wrong API keys from one address; got many. Wait a while, then send the right one"
            raise HttpError(429, message, {"retry-after": f"{1 / _WRONG_PER_S:.0f}", **closed}, code="key")
        if offered:
            self.guesses.wrong(party)
        message = "expected a valid API key, for example in the header `Authorization: Bearer KEY`"
        raise HttpError(401, message, {"www-authenticate": "Bearer", **closed}, code="key")

    def _check_flood(self, owner: str, party: str) -> None:
        """Raises `HttpError` for a client that was closed for a flood a moment ago."""
        wait_s = self._floods.wait_s(party, owner)
        if wait_s > 0:
            message = f"expected a pause after sending more than one may; wait {math.ceil(wait_s)} s"
            headers = {"retry-after": str(math.ceil(wait_s)), "connection": "close"}
            raise HttpError(429, message, headers, code="too_fast")

    def _check_room(self, owner: str, party: str) -> None:
        """Raises `HttpError` if there is no room for another connection of this key, or of this address."""
        for count, most, whose in (
            (self.connections.total(), self._limit, ""),
            (self.connections[owner], self._share, " with one API key"),
            (self._addresses[party], self._of_address or math.inf, " from one address"),
        ):
            if count >= most:
                message = f"expected at most {most} connections at once{whose}; all are taken. Try later"
                raise HttpError(503, message, {"retry-after": "5"}, code="overloaded")

    @contextlib.contextmanager
    def connected(self, owner: str = "", address: str = "") -> Iterator[None]:
        """Count a connection while it lasts."""
        with counting(self.connections, owner), counting(self._addresses, party_of(address)):
            yield


def is_loopback(host: str) -> bool:
    """True for a loopback address or name: only this machine can listen or call there."""
    try:
        # Without the zone of a link-local address ("fe80::1%eth0").
        ip = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    # A socket of both families names an IPv4 peer "::ffff:127.0.0.1".
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def _is_own_name(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _digest(key: str) -> bytes:
    # A key from the environment may hold bytes that are no UTF-8: Python keeps those as lone surrogates.
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
