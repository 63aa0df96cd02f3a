"""What waits to be sent to one client, in order, up to the close. Knows no protocol."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from whispertide.server.protocols.base import Close, Reply
from whispertide.server.transport import Transport


@dataclass(slots=True)
class Replies:
    """Messages, and at last a `Close`, after which nothing is taken. `size`: bytes and characters that wait."""

    size: int = 0
    closing: bool = False  # a `Close` was added
    _waiting: deque[Reply | Close] = field(default_factory=deque)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, reply: Reply | Close) -> None:
        """Add what comes next; nothing follows a `Close`."""
        if self.closing:
            return
        self._waiting.append(reply)
        if isinstance(reply, Close):
            self.closing = True
        else:
            self.size += len(reply.message)

    async def send_next(self, transport: Transport, stall_s: float) -> bool:
        """Send the oldest; returns whether that was the close. Raises `TimeoutError` if the client does not read for
        `stall_s` seconds, and `GoneError`.
        """
        reply = self._waiting.popleft()
        if isinstance(reply, Close):
            await transport.close(reply.code, reply.reason)
            return True
        self.size -= len(reply.message)
        async with asyncio.timeout(stall_s):
            await transport.send(reply.message)
        return False
