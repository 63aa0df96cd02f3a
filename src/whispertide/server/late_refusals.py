"""Whoever is told to come less often hears it late: else they try again at once, and each try costs a handshake."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from whispertide.server.http_error import HttpError

_TOO_OFTEN = 429


@dataclass(slots=True)
class LateRefusals:
    """`most` of them at once are late by `by_s` seconds: they hold a connection meanwhile. The others come at once."""

    most: int = 32
    by_s: float = 1.0
    waiting: int = 0

    @contextlib.asynccontextmanager
    async def told(self) -> AsyncIterator[None]:
        """Lets an `HttpError` that says so pass later."""
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
