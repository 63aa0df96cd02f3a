"""OpenAI's short-lived keys for browsers: `POST /v1/realtime/client_secrets`, and its older shape.

A program that has a key asks for one of these and gives it to a page; the session settings that it asks with hold for
the page's connection. Source: the API reference of OpenAI's Realtime API.
"""

import json
import secrets
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from whispertide.server.access import offered_keys
from whispertide.server.throttle import Door

VALID_S = 600.0
_LEAST_S, _MOST_S = 10.0, 7200.0
_BODY = 2**16


class Passes:
    """The two endpoints. They expect that whoever calls them was let in."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def client_secrets(self, request: Request) -> Response:
        """`POST /v1/realtime/client_secrets`."""
        asked = await _body(request)
        if asked is None:
            return _refused("expected a JSON object of at most 64 KiB")
        session = asked.get("session") or {"type": "transcription"}
        expires = asked.get("expires_after") or {}
        if not isinstance(session, dict) or not isinstance(expires, dict):
            return _refused("expected `session` and `expires_after` to be objects")
        valid_s = expires.get("seconds", VALID_S)
        if not isinstance(valid_s, int | float) or not _LEAST_S <= valid_s <= _MOST_S:
            return _refused(f"expected expires_after.seconds from {_LEAST_S:g} to {_MOST_S:g}; got {valid_s!r}")
        value, until = self._issue(request, {"type": "session.update", "session": session}, float(valid_s))
        return JSONResponse({"value": value, "expires_at": until, "session": {**session, "object": "realtime.session"}})

    async def transcription_sessions(self, request: Request) -> Response:
        """`POST /v1/realtime/transcription_sessions`: the older shape."""
        session = await _body(request)
        if session is None:
            return _refused("expected a JSON object of at most 64 KiB")
        message = {"type": "transcription_session.update", "session": session}
        value, until = self._issue(request, message, VALID_S)
        return JSONResponse(
            {
                **session,
                "id": f"sess_{secrets.token_hex(12)}",
                "object": "realtime.transcription_session",
                "client_secret": {"value": value, "expires_at": until},
            }
        )

    def _issue(self, request: Request, message: dict[str, Any], valid_s: float) -> tuple[str, int]:
        offered = offered_keys(dict(request.headers), dict(request.query_params))
        owner = self._door.gatekeeper.owner(offered) or ""
        value, until = self._door.gatekeeper.issue(owner, json.dumps(message), valid_s)
        return value, int(until)


async def _body(request: Request) -> dict[str, Any] | None:
    data = b""
    async for piece in request.stream():
        data += piece
        if len(data) > _BODY:
            return None
    try:
        asked = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return None
    return asked if isinstance(asked, dict) else None


def _refused(message: str) -> Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": error}, 400)
