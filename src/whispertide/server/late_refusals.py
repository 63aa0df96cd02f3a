"""Delay refusals of clients that come too often: else they try again at once, and each try costs a handshake."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from whispertide.server.http_error import HttpError

_TOO_OFTEN = 429


@dataclass(slots=True)
class LateRefusals:
    """Delays at most `most` refusals at once, by `by_s` seconds: they hold a connection. Others pass at once."""

    most: int = 32
    by_s: float = 1.0
    waiting: int = 0

    @contextlib.asynccontextmanager
    async def delay(self) -> AsyncIterator[None]:
        """Delay an `HttpError` of status 429 on its way out."""
        try:
            yield
        except HttpError as error:
            if error.status == _TOO_OFTEN and self.waiting < self.most:
                self.waiting += 1
                try:
                    await asyncio.sleep(self.by_s)
                finally:
                    self.waiting -= 1
            raise
