"""Errors of HTTP requests: an exception to raise anywhere below an endpoint, and the answer in OpenAI's shape."""

import asyncio
import contextlib
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse


class HttpError(Exception):
    """A request that is refused. `code` is for programs, the message for people."""

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] | None = None, *, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})
        self.code = code

    @property
    def body(self) -> dict[str, dict[str, str | None]]:
        """OpenAI's shape of an error."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}


# Refused before their body was looked at.
_UNREAD = frozenset({401, 403, 429})
_READ_AWAY, _READ_S = 2**20, 1.0


async def answer(request: Request, error: Exception) -> JSONResponse:
    """The answer to a request that was refused.

    A connection that is closed over an unread body is reset, and the client reads no answer: a body that is not large
    and comes at once is read away.
    """
    assert isinstance(error, HttpError)
    if error.status in _UNREAD:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_read_away(request), _READ_S)
    return JSONResponse(error.body, error.status, error.headers)


async def answer_plain(request: Request, error: Exception) -> JSONResponse:
    """The same for what the router refuses: a path that is not there, or another method than its own."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    known = f"expected {headers['Allow']} for" if "Allow" in headers else "expected a path that is there; nothing is at"
    refused = HttpError(error.status_code, f"{known} {request.url.path}; got {request.method}", headers)
    return await answer(request, refused)


async def _read_away(request: Request) -> None:
    read, more = 0, True
    while more and read < _READ_AWAY:
        message = await request.receive()
        read += len(message.get("body", b""))
        more = message.get("more_body", False)
