"""WebSockets: the checks before one is accepted, and a `Connection` on it."""

import asyncio
import contextlib
import secrets
import time
from dataclasses import replace

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from whispertide.server.access import AccessControl
from whispertide.server.addresses import party_of
from whispertide.server.channels import serve_channels
from whispertide.server.connection import Connection
from whispertide.server.http_error import HttpError, log_refusal
from whispertide.server.hub import Hub
from whispertide.server.protocols.base import Opening, ProtocolError, WireProtocol
from whispertide.server.sockets import TOO_FAST
from whispertide.server.transport import FloodError, GoneError, MessageTooLargeError

_REASON = 123  # bytes of a close frame's reason (RFC 6455, section 5.5)
_CLOSE_S = 2.0


class _WebSocketTransport:
    """Messages over one accepted WebSocket."""

    def __init__(self, socket: WebSocket, limit: int) -> None:
        self._socket = socket
        self._limit = limit

    async def receive(self) -> str | bytes:
        """Return the next message; see `transport.Transport`."""
        try:
            data = await self._socket.receive()
        except (WebSocketDisconnect, RuntimeError) as error:
            raise GoneError from error
        if data["type"] == "websocket.disconnect":
            raise FloodError if data.get("reason") == TOO_FAST else GoneError
        message: str | bytes | None = data.get("text")
        if message is None:
            message = data.get("bytes") or b""
        # The characters first: a text with too many of them need not be encoded.
        if len(message) > self._limit or (isinstance(message, str) and len(message.encode()) > self._limit):
            raise MessageTooLargeError
        return message

    async def send(self, message: str | bytes) -> None:
        try:
            if isinstance(message, str):
                await self._socket.send_text(message)
            else:
                await self._socket.send_bytes(message)
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise GoneError from error

    async def close(self, code: int, reason: str) -> None:
        """Send a close frame; a peer that does not answer is left alone after a moment."""
        # It is cut at bytes, and what is left of a broken character goes.
        text = reason.encode()[:_REASON].decode(errors="ignore")
        # It may be closed already, which shows in several ways.
        with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError, TimeoutError):
            if self._socket.application_state is WebSocketState.CONNECTED:
                async with asyncio.timeout(_CLOSE_S):
                    await self._socket.close(code, text)


async def serve_websocket(socket: WebSocket, hub: Hub, access: AccessControl, protocol: type[WireProtocol]) -> None:
    """Check the client, greet it in its protocol and stay until the end."""
    query = dict(socket.query_params)
    subprotocols = tuple(socket.scope.get("subprotocols") or ())
    headers = {name: value for name, value in socket.headers.items() if name.isascii()}
    address = socket.client.host if socket.client else ""
    try:
        async with access.late.delay():
            admitted = access.check(headers, query, subprotocols, address, protocol=protocol.name)
    except HttpError as error:
        hub.metrics.refused.labels(error.code).inc()
        await refuse(socket, error, protocol.name)
        return
    opening = Opening(
        replace(hub.info, limit_s=min(hub.info.limit_s, admitted.limit_s)),
        secrets.token_urlsafe(16),
        query=query,
        lists={key: socket.query_params.getlist(key) for key in query},
        headers=headers,
        subprotocols=subprotocols,
        at=time.time(),
    )
    try:
        conversation, *others = protocol.conversations(opening)
    except ProtocolError as error:
        hub.metrics.refused.labels("bad_request").inc()
        await refuse(socket, HttpError(400, str(error), code="bad_request"), protocol.name)
        return
    # Nothing was waited for since the check, so no other handshake has used the key meanwhile.
    access.authenticator.spend(admitted.once)
    with access.connected(admitted.owner, address):
        await socket.accept(conversation.subprotocol)
        transport = _WebSocketTransport(socket, protocol.times * hub.options.limits.message)
        party = party_of(address)
        if others:
            await serve_channels(hub, (conversation, *others), transport, admitted.owner, party)
        else:
            await Connection(hub, conversation, transport, admitted.owner, party).run(admitted.message_first)


async def refuse(socket: WebSocket, error: HttpError, protocol: str) -> None:
    """Answer the handshake with an HTTP error, and log it."""
    log_refusal(error, socket.client.host if socket.client else "", protocol)
    response = JSONResponse({"error": {"message": error.message, "code": error.status}}, error.status, error.headers)
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):
        await socket.send_denial_response(response)
