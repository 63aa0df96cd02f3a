"""Errors of HTTP requests: an exception to raise anywhere below an endpoint, and the answer in OpenAI's shape."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

log = logging.getLogger("whispertide.server")

_SHOWN = 500  # characters of a message in the log: it may quote the client


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


def log_refusal(error: HttpError, address: str, protocol: str) -> None:
    """Log that a client is refused: its address, and why. What it asked for, where a key may stand, is left out."""
    more = {"kind": error.code, "status": error.status, "problem": error.message[:_SHOWN]}
    log.info("refused", extra={"protocol": protocol, "address": address, **more})


# Refused before their body was looked at.
_UNREAD = frozenset({401, 403, 429})
_READ_AWAY, _READ_S = 2**20, 1.0


async def answer_error(request: Request, error: Exception) -> JSONResponse:
    """Answer a refused request.

    A connection that is closed over an unread body is reset, and the client reads no answer: a body that is not large
    and comes at once is read away.
    """
    assert isinstance(error, HttpError)
    if error.status in _UNREAD:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_read_away(request), _READ_S)
    return JSONResponse(error.body, error.status, error.headers)


async def answer_plain(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that the router refuses: an unknown path, or a method that the path does not have."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    known = f"expected {headers['Allow']} for" if "Allow" in headers else "expected a path that is there; nothing is at"
    refused = HttpError(error.status_code, f"{known} {request.url.path}; got {request.method}", headers)
    return await answer_error(request, refused)


async def _read_away(request: Request) -> None:
    read, more = 0, True
    while more and read < _READ_AWAY:
        message = await request.receive()
        read += len(message.get("body", b""))
        more = message.get("more_body", False)
