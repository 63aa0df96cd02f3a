"""Temporary keys, as OpenAI and AssemblyAI give them: a program with a real key asks, and hands one to a page.

OpenAI    `POST /v1/realtime/client_secrets`, or the older `/v1/realtime/transcription_sessions`; the session settings
          that it is asked with hold for the connection. Source: the API reference of their Realtime API.
AssemblyAI   `GET /v3/token`: for one session, perhaps of limited length. Source: the API reference of their streaming
          token, and `create_temporary_token` in their SDK.
"""

import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from whispertide.server.access import AccessControl, TemporaryKey, offered_keys
from whispertide.server.bodies import read_object
from whispertide.server.http_error import HttpError
from whispertide.server.protocols.assemblyai import AssemblyAIProtocol
from whispertide.server.protocols.base import ProtocolError
from whispertide.server.protocols.openai_realtime import DEFAULT_LIMIT_S, OpenAIRealtimeProtocol
from whispertide.server.protocols.openai_session import default_session, describe_session
from whispertide.server.protocols.server_info import ServerInfo

_VALID_S = 600.0
_LEAST_S, _MOST_S = 10.0, 7200.0
_BODY = 2**17  # the longest prompt fits in, each character escaped as two
_KEPT = 2**14  # characters of a session's settings: they are kept with the key
_TOKEN_S = (1, 600)
_TOKEN_SESSION_S = (60, 10_800)


class TemporaryKeys:
    """The endpoints. They expect that the caller was admitted."""

    def __init__(self, access: AccessControl, served: ServerInfo, stall_s: float) -> None:
        self._access = access
        self._served = served
        self._stall_s = stall_s

    async def client_secrets(self, request: Request) -> Response:
        """`POST /v1/realtime/client_secrets`."""
        asked = await self._body(request)
        session = asked.get("session") or {"type": "transcription"}
        expires = asked.get("expires_after") or {}
        if not isinstance(session, dict) or not isinstance(expires, dict):
            raise HttpError(400, "expected `session` and `expires_after` to be objects")
        valid_s = expires.get("seconds", _VALID_S)
        if isinstance(valid_s, bool) or not isinstance(valid_s, int | float) or not _LEAST_S <= valid_s <= _MOST_S:
            raise HttpError(400, f"expected expires_after.seconds from {_LEAST_S:g} to {_MOST_S:g}; got another value")
        what, described = self._for_realtime({"type": "session.update", "session": session})
        value, until = self._issue(request, what, float(valid_s))
        return JSONResponse({"value": value, "expires_at": until, "session": described})

    async def transcription_sessions(self, request: Request) -> Response:
        """`POST /v1/realtime/transcription_sessions`: the older shape."""
        session = await self._body(request)
        message = {"type": "transcription_session.update", "session": session}
        what, described = self._for_realtime(message)
        value, until = self._issue(request, what, _VALID_S)
        return JSONResponse({**described, "client_secret": {"value": value, "expires_at": until}})

    async def token(self, request: Request) -> Response:
        """`GET /v3/token`."""
        query = request.query_params
        valid_s = _whole(query, "expires_in_seconds", *_TOKEN_S)
        limit_s = _TOKEN_SESSION_S[1]
        if "max_session_duration_seconds" in query:
            limit_s = _whole(query, "max_session_duration_seconds", *_TOKEN_SESSION_S)
        what = TemporaryKey(AssemblyAIProtocol.name, once=True, limit_s=limit_s)
        value, _ = self._issue(request, what, valid_s)
        return JSONResponse({"token": value, "expires_in_seconds": valid_s})

    def _for_realtime(self, message: dict[str, Any]) -> tuple[TemporaryKey, dict[str, Any]]:
        """Read the settings of a realtime session and return its key and its description. Raises `HttpError` for
        settings that the session would refuse, and for too large ones.
        """
        try:
            session = default_session(None).updated(message["session"], self._served)
        except ProtocolError as error:
            raise HttpError(400, str(error)) from error
        kept = json.dumps(message, ensure_ascii=False)  # escapes would make a prompt six times as long
        if len(kept) > _KEPT:
            reason = f"got {len(kept)}. Send those of a transcription alone, and a shorter prompt"
            raise HttpError(400, f"expected settings of at most {_KEPT} characters, as JSON; {reason}")
        expires_at = time.time() + (self._served.limit_s or DEFAULT_LIMIT_S)
        older = message["type"] == "transcription_session.update"
        described = describe_session(session, f"sess_{secrets.token_hex(12)}", expires_at, older=older)
        return TemporaryKey(OpenAIRealtimeProtocol.name, kept), described

    def _issue(self, request: Request, what: TemporaryKey, valid_s: float) -> tuple[str, int]:
        offered = offered_keys(dict(request.headers), dict(request.query_params))
        owner = self._access.authenticator.owner(offered) or ""
        value, until = self._access.authenticator.issue(owner, what, valid_s)
        return value, int(until)

    async def _body(self, request: Request) -> dict[str, Any]:
        return await read_object(request, _BODY, self._stall_s)


def _whole(query: Mapping[str, str], name: str, least: int, most: int) -> int:
    """Read a number from the address. Raises `HttpError` if there is none within these bounds."""
    text = query.get(name, "")
    # `isdigit` alone also takes digits of other scripts, and some that `int` refuses.
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not least <= value <= most:
        raise HttpError(400, f"expected {name}: a whole number from {least} to {most}")
    return value
