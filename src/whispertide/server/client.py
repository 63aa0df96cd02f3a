"""The interface between the hub and its connections."""

from typing import Protocol

from whispertide.server.live import LiveSession
from whispertide.server.protocols import base

STOPPING = "the server is stopping; connect again in a moment"  # for clients


class RefusedError(Exception):
    """A session is refused; `kind` is for the protocol, the message for the client; `last_seq` as in a `Problem`."""

    def __init__(self, kind: base.ProblemKind, message: str, last_seq: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.last_seq = last_seq


class Client(Protocol):
    """A connection, as far as the hub is concerned (`connection.Connection`)."""

    def shut_down(self) -> None:
        """Say that the server stops, and close."""

    def hand_over(self) -> None:
        """The same, once this connection's session can go on at another server."""

    def detach(self, live: LiveSession) -> None:
        """Close if this connection has that session: its client is elsewhere."""

    def taken_over(self, live: LiveSession) -> None:
        """Say that another server has this session, and close, if this connection has it."""
