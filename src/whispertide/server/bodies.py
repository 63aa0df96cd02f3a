"""Bodies of HTTP requests, read piece by piece: within a size limit, and without waiting for slow clients."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.types import Message, Receive

from whispertide.server.http_error import HttpError
from whispertide.server.protocols.base import ProtocolError
from whispertide.server.protocols.messages import json_object

LEAST_RATE = 4096  # bytes per second, on average: whoever is slower wants to keep the server waiting


def limit_body(receive: Receive, limit: int, stall_s: float, expected: str) -> Receive:
    """Wrap `receive` for a body of at most `limit` bytes (`expected` says so in words) that comes without pauses.

    Raises `HttpError` for a larger body, one that pauses for `stall_s`, and one that is slow all the time.
    """
    too_slow = HttpError(408, "expected the request to arrive without pauses", {"connection": "close"})
    total, began = 0, None

    async def checked() -> Message:
        nonlocal total, began
        now = asyncio.get_running_loop().time()
        began = now if began is None else began
        try:
            async with asyncio.timeout(stall_s):
                message = await receive()
        except TimeoutError:
            raise too_slow from None
        total += len(message.get("body", b""))
        if total > limit:
            raise HttpError(413, f"expected {expected}; got more")
        # A pause is allowed once; a byte just before each deadline is not.
        if now - began > stall_s + total / LEAST_RATE:
            raise too_slow
        return message

    return checked


async def read_pieces(receive: Receive) -> AsyncGenerator[bytes, None]:
    """Read the body piece by piece. Raises `HttpError` for one that is cut off, and the errors of `receive`."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise HttpError(400, "expected the whole request; the client left early")
        yield message.get("body", b"")
        if not message.get("more_body"):
            return


async def read_object(request: Request, limit: int, stall_s: float) -> dict[str, Any]:
    """Read a body that is one JSON object, or nothing. Raises `HttpError` for any other."""
    receive = limit_body(request.receive, limit, stall_s, f"a JSON object of at most {limit} bytes")
    data = b"".join([piece async for piece in read_pieces(receive)])
    try:
        return json_object(data.decode() or "{}")
    except (UnicodeDecodeError, ProtocolError):
        raise HttpError(400, "expected a JSON object; got something else") from None
