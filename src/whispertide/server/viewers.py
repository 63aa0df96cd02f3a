"""One viewer of a broadcast, over a WebSocket: gets its text so far, then whatever is new, and says nothing.

    server: {"type": "text", "run": "…", "start": 0, "end": 153, "text": "…", "guess": "…", …}

Nothing is queued for a viewer. One that reads slowly finds more in its next message, and misses guesses only; one that
does not read at all is closed. So nobody who watches costs the speaker anything.
"""

import asyncio
import contextlib
import logging

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from whispertide.server.access import AccessControl
from whispertide.server.addresses import party_of
from whispertide.server.broadcasts import FAILED, Broadcast, CrowdedError
from whispertide.server.http_error import HttpError
from whispertide.server.hub import Hub
from whispertide.server.protocols.base import CLOSE_CODES
from whispertide.server.sockets import TOO_FAST
from whispertide.server.websocket import refuse

log = logging.getLogger("whispertide.server")

_PACE_S = 0.1  # between two messages to a viewer
_STILL_S = 15.0  # without anything new: then a message without text says that the connection stands
_SAID = 1008, "expected a viewer to send nothing"
_CLOSE_S = 2.0


async def serve_viewer(socket: WebSocket, hub: Hub, access: AccessControl) -> None:
    """Let somebody watch who has the key of a broadcast, which the address names. Stays until the end.

    Whoever has the key may watch, from any page.
    """
    address = socket.client.host if socket.client else ""
    party = party_of(address)
    with contextlib.ExitStack() as held:
        try:
            async with access.late.delay():
                access.check_rate(address)
                broadcast = _admit(held, hub, socket.path_params["key"], party)
        except HttpError as error:
            hub.metrics.refused.labels(error.code).inc()
            await refuse(socket, error, "watch")
            return
        await socket.accept()
        code, reason = await _watch(socket, hub, broadcast, party)
    await _close(socket, code, reason)


def _admit(held: contextlib.ExitStack, hub: Hub, key: str, party: str) -> Broadcast:
    """Find the broadcast and a place there, which is kept until `held` is closed. Raises `HttpError`."""
    broadcasts = hub.broadcasts
    if broadcasts.floods.wait_s(party) > 0:
        raise HttpError(429, "expected a pause after sending that much; wait a while", code="too_fast")
    broadcast = broadcasts.find(key)
    if broadcast is None:
        raise HttpError(404, "expected an address where captions can be watched; nothing is there now", code="watch")
    try:
        held.enter_context(broadcasts.viewing(broadcast, party))
    except CrowdedError as error:
        raise HttpError(503, str(error), {"retry-after": "5"}, code="overloaded") from error
    return broadcast


async def _watch(socket: WebSocket, hub: Hub, broadcast: Broadcast, party: str) -> tuple[int, str]:
    """Send until either side ends it. Returns the code and the reason to close with."""
    reader = asyncio.create_task(_listen(socket, hub, party), name="viewer reads")
    writer = asyncio.create_task(_tell(socket, hub, broadcast), name="viewer")
    try:
        await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
        done = writer if writer.done() else reader
        return done.result()
    except (WebSocketDisconnect, RuntimeError, OSError):  # however it shows that nobody is there
        return 1000, ""
    except Exception:  # a defect in the captions: the viewer is told
        log.exception("a viewer failed")
        return FAILED
    finally:
        for task in (reader, writer):
            task.cancel()
        await asyncio.gather(reader, writer, return_exceptions=True)


async def _listen(socket: WebSocket, hub: Hub, party: str) -> tuple[int, str]:
    """Wait for the viewer to leave, or to say something."""
    message = await socket.receive()
    if message["type"] != "websocket.disconnect" or message.get("reason") == TOO_FAST:
        hub.broadcasts.floods.closed(party)
    return _SAID


async def _tell(socket: WebSocket, hub: Hub, broadcast: Broadcast) -> tuple[int, str]:
    """Send what is new, as fast as the viewer reads, and at the end what came since then."""
    run, position = _place(socket)
    while True:
        # Before it is looked at: whatever comes in the meantime sets this very one.
        changed, closed = broadcast.changed, broadcast.closed
        position, message = broadcast.captions.message(run, position)
        run = broadcast.captions.run
        try:
            async with asyncio.timeout(hub.options.limits.stall_s):
                await socket.send_text(message)
        except TimeoutError:
            hub.metrics.refused.labels("too_slow").inc()
            return CLOSE_CODES["too_slow"], "expected the viewer to read what it is sent"
        if closed is not None:
            return closed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STILL_S):
                await changed.wait()
        await asyncio.sleep(_PACE_S)


def _place(socket: WebSocket) -> tuple[str, int]:
    """Read where a viewer who comes back stopped; nonsense is as none."""
    query = socket.query_params
    position = query.get("position", "")
    known = position.isascii() and position.isdigit() and len(position) < 12
    return query.get("run", ""), int(position) if known else -1


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError, TimeoutError):
        if socket.application_state is WebSocketState.CONNECTED:
            async with asyncio.timeout(_CLOSE_S):
                await socket.close(code, reason)
