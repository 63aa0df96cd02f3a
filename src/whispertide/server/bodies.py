"""Bodies of HTTP requests, taken piece by piece: never more than there may be, and no waiting for whoever dawdles."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.types import Message, Receive

_LEAST_RATE = 4096  # bytes per second, on average: whoever sends more slowly wants to keep the server waiting


class TooLargeError(Exception):
    """The body is larger than it may be."""


class TooSlowError(Exception):
    """The body comes more slowly than it may."""


class GoneError(Exception):
    """The client left before the body was whole."""


def limited(receive: Receive, limit: int, stall_s: float) -> Receive:
    """`receive` for a body of at most `limit` bytes that comes without pauses.

    Raises `TooLargeError`, and `TooSlowError` for a pause of `stall_s` or a slow body.
    """
    total, began = 0, None

    async def checked() -> Message:
        nonlocal total, began
        now = asyncio.get_running_loop().time()
        began = now if began is None else began
        try:
            async with asyncio.timeout(stall_s):
                message = await receive()
        except TimeoutError:
            raise TooSlowError from None
        total += len(message.get("body", b""))
        if total > limit:
            raise TooLargeError
        if now - began > stall_s + total / _LEAST_RATE:
            raise TooSlowError
        return message

    return checked


async def pieces(receive: Receive) -> AsyncGenerator[bytes, None]:
    """The body that `receive` gives. Raises `GoneError`, and what `receive` does."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise GoneError
        yield message.get("body", b"")
        if not message.get("more_body"):
            return
