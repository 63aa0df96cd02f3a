"""What a connection needs of whatever carries it: messages to and from one client."""

from typing import Protocol


class GoneError(Exception):
    """The other side is no longer there."""


class FloodError(GoneError):
    """The client sent so many bytes without a message that it was cut off."""


class OverError(Exception):
    """Nothing more is taken of the other side, which may still be told what it lacks."""


class MessageTooLargeError(Exception):
    """The client sent a message above the limit."""


class Transport(Protocol):
    """Messages to and from one client."""

    async def receive(self) -> str | bytes:
        """The next message. Raises `GoneError` at the end, `MessageTooLargeError` for one that is too large, and
        `OverError`.
        """

    async def send(self, message: str | bytes) -> None:
        """Send, waiting while the other side does not read. Raises `GoneError`."""

    async def close(self, code: int, reason: str) -> None:
        """Close; nothing is sent afterwards."""
