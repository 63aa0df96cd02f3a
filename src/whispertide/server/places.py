"""The places of a server: who may have a session, and who comes back to one.

Lives in the event loop, next to the hub, whose sessions it counts.
"""

from collections.abc import Iterator, Mapping

from whispertide.server.client import RefusedError
from whispertide.server.guesses import Guesses
from whispertide.server.live import LiveSession
from whispertide.server.metrics import Metrics
from whispertide.server.options import ServerOptions
from whispertide.server.protocols import base

_UNKNOWN, _UNKNOWN_PER_S = 100, 5.0  # sessions that are not here, asked for by one address at once, and a second


class Places:
    """So many sessions at once, and so many of one owner. A session that waits for its client takes no place."""

    def __init__(self, sessions: Mapping[str, LiveSession], options: ServerOptions, metrics: Metrics) -> None:
        """`sessions` are those of the hub, as they change."""
        self._sessions = sessions
        self._options = options
        self._metrics = metrics
        self.guesses = Guesses(_UNKNOWN, _UNKNOWN_PER_S, enabled=bool(options.limits.per_address))

    @property
    def full(self) -> bool:
        """True if all places are taken."""
        return sum(live.parked_at is None for live in self._sessions.values()) >= self._options.limits.sessions

    def of(self, owner: str) -> Iterator[LiveSession]:
        """The sessions of an owner, also those that wait."""
        return (live for live in self._sessions.values() if live.owner == owner)

    def admit(self, owner: str) -> None:
        """Raises `RefusedError` if there is no place for another session of this owner."""
        limit = self._options.limits.sessions
        if self.full:
            raise self.refusal("overloaded", f"expected at most {limit} sessions at once; all are taken. Try later")
        most = self._options.sessions_of_one
        if sum(live.parked_at is None for live in self.of(owner)) >= most:
            raise self.refusal("overloaded", f"expected at most {most} sessions at once with one API key; try later")

    def check_guess(self, session: str, owner: str, party: str) -> None:
        """Raises `RefusedError` for an unknown session if this party has asked for many of them.

        `party` is the address that asks (`addresses.party_of`).
        """
        live = self._sessions.get(session)
        if (live is None or live.owner != owner) and not self.guesses.may_guess(party):
            raise self.refusal("overloaded", "expected fewer sessions that are not here; got many. Come back later")

    def find(self, session: str, owner: str, party: str) -> LiveSession:
        """The session that its client asks for. Raises `RefusedError`, in the same words for an unknown session and for
        another's.
        """
        self.check_guess(session, owner, party)
        live = self._sessions.get(session)
        if live is None or live.owner != owner:
            self.guesses.wrong(party)
            raise self.refusal(
                "unknown_session", "expected the id of an open session; got another. Start a new session"
            )
        return live

    def refusal(self, kind: base.ProblemKind, message: str, last_seq: int | None = None) -> RefusedError:
        """The error of a refusal, which counts as one from now on."""
        self._metrics.refused.labels(kind).inc()
        return RefusedError(kind, message, last_seq)

    def count(self) -> None:
        """Show in the metrics how many sessions there are, and how many of them wait."""
        self._metrics.sessions.set(len(self._sessions))
        self._metrics.parked.set(sum(live.parked_at is not None for live in self._sessions.values()))
