"""uvicorn's two protocols with limits against slow and flooding clients. Knows no sessions.

Everything here is about one socket: how long a head may take, how long an answer may wait to be read, how much a client
can make us keep. What a message means is decided elsewhere.
"""

import asyncio
import json
import logging
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import MAX_LINE_LENGTH

from whispertide.errors import OptionError
from whispertide.server.bodies import LEAST_RATE
from whispertide.server.bucket import Bucket
from whispertide.server.large_messages import LargeMessages
from whispertide.server.listening import Admission

log = logging.getLogger("whispertide.server")

LONGEST_LINE = MAX_LINE_LENGTH - 192  # of a head: an address, or a header, next to what else stands in its line
_CLOSE_S = 2.0
_ABORT_S = 20.0  # from the end of a conversation on, for what is left to be read
_READ = 16 * 1024  # bytes that are read at once (asyncio: 256 KiB)
_PIECE = 4096  # of them parsed in one turn of the loop: nearly 700 frames with nothing in them
_CONTROLS = 50  # pings and pongs a second, on average over four seconds: clients send one now and then
_FRAGMENTS = 500  # frames a second that continue a message, likewise
_OVER_S = 4
_ROOM_S = 0.05  # how often a connection that may not go on with a large message looks again
_PARSED = (b"sec-websocket-", b"connection", b"upgrade")  # headers that the parser of WebSockets takes apart
TOO_FAST = f"expected at most {_CONTROLS} pings and pongs a second; got more"

# What is overridden or read below is private to uvicorn: pyproject.toml holds its version, and this says so at once if
# another one gets here all the same.
_HOOKS: dict[type, tuple[str, ...]] = {
    H11Protocol: (
        *("connection_made", "data_received", "connection_lost", "handle_websocket_upgrade", "send_400_response"),
        *("pause_writing", "resume_writing", "on_response_complete"),
    ),
    WebSocketsSansIOProtocol: (
        "connection_lost",
        "data_received",
        "send",
        "receive",
        "handle_ping",
        "handle_pong",
        "handle_cont",
        "handle_parser_exception",
        "send_receive_event_to_app",
        "run_asgi",
        "schedule_ping",
        "send_keepalive_ping",
    ),
}


def check_hooks(hooks: dict[type, tuple[str, ...]] = _HOOKS) -> None:
    """Raises `OptionError` if this uvicorn is not the one that these classes extend."""
    lost = [f"{kind.__name__}.{name}" for kind, names in hooks.items() for name in names if not hasattr(kind, name)]
    if lost:
        raise OptionError(
            f"expected a version of uvicorn that pyproject.toml allows; the one installed lacks {', '.join(lost)}: "
            "install whispertide again with its extra `server`"
        )


def http_with_deadlines(stall_s: float, admission: Admission) -> type[asyncio.Protocol]:
    """Make uvicorn's HTTP protocol with limits on the time to send the head of a request or to read an answer.

    Without them a client that sends a byte now and then holds a connection forever (slow-loris). How many connections
    there may be is `listening`'s affair; its `admission` learns which of them the server waits for.
    """
    return type("HttpWithDeadlines", (_HttpWithDeadlines,), {"stall_s": stall_s, "admission": admission})


class _HttpWithDeadlines(H11Protocol):
    """HTTP with deadlines; `http_with_deadlines` makes one with another patience."""

    stall_s: ClassVar[float]
    admission: ClassVar[Admission]
    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None
    _unread = 0  # bytes of an answer, when the timer was set
    _upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._at_work:
            self._got_head()
        elif self._head_timer is None:
            self._expect_head()
        self._tell()

    @property
    def _at_work(self) -> bool:
        """True if the server owes this client an answer, or has upgraded the connection."""
        return self._upgraded or (self.cycle is not None and not self.cycle.response_complete)

    def _tell(self) -> None:
        peer = self.transport.get_extra_info("peername")
        if peer and self._at_work and self._read_timer is None:
            self.admission.at_work(peer)
        elif peer:
            self.admission.wait(peer)

    def on_response_complete(self) -> None:
        """Start the clock of the next request, which may be here already."""
        super().on_response_complete()
        self._tell()

    def connection_lost(self, exc: Exception | None) -> None:
        self._got_head()
        self._was_read()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Refuse a line that HTTP lets pass and the parser of WebSockets does not, which gives no reason, or fails."""
        self._upgraded = True
        most = f"of at most {LONGEST_LINE} bytes for a WebSocket; got more. Send"
        if len(event.target) > LONGEST_LINE:
            self._refuse_head("414 URI Too Long", f"an address {most} long prompts and lists of terms in a message")
        elif any(len(name) + len(value) > LONGEST_LINE for name, value in event.headers):
            self._refuse_head("431 Request Header Fields Too Large", f"headers {most} shorter ones, such as cookies")
        elif any(name.startswith(_PARSED) and not value.isascii() for name, value in event.headers):
            self._refuse_head("400 Bad Request", "the headers of a WebSocket in ASCII; got other bytes")
        else:
            super().handle_websocket_upgrade(event)

    def _refuse_head(self, status: str, expected: str) -> None:
        told = f"expected {expected}"
        log.info("refused", extra={"kind": "head", "status": int(status[:3]), "problem": told})
        body = json.dumps({"error": {"message": told, "code": int(status[:3])}})
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
        self.transport.write(f"HTTP/1.1 {status}\r\n{head}\r\n\r\n{body}".encode())
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer a body that breaks off into nonsense: the application need not answer it as well.

        Where its answer has begun already, or is complete, no other can follow.
        """
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._read_timer is None:
            self._expect_reading()
        self._tell()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._was_read()
        self._tell()

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self.stall_s, self._give_up)

    def _got_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _expect_reading(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._read_timer = self.loop.call_later(self.stall_s, self._check_reading)

    def _check_reading(self) -> None:
        """Close a client that reads too slowly. A large answer may take longer, if it is read as fast as an upload has
        to come.
        """
        if self._unread - self.transport.get_write_buffer_size() >= self.stall_s * LEAST_RATE:
            self._expect_reading()
        else:
            # Not `close`, which would wait until the client has read what it does not read.
            self.transport.abort()

    def _was_read(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def bounded_websockets(large: LargeMessages) -> type[asyncio.Protocol]:
    """Make uvicorn's WebSockets with bounds."""
    return type("Bounded", (BoundedWebSockets,), {"large": large})


_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedWebSockets(WebSocketsSansIOProtocol):
    """uvicorn's WebSockets, with less patience for clients that do not answer a close frame or do not read, and bounds
    for those that send much.

    Of what comes a piece is parsed in a turn of the loop, and none while a message waits for the application: however
    small the frames are, others have their turn. Nothing is read meanwhile, nor while too many others are amid a large
    message (`LargeMessages`). Fragments that come too fast are parsed more slowly; pings and pongs, which nobody needs
    in such numbers, end the connection (1008), after a moment, or whoever floods would be back at once.
    """

    large: ClassVar[LargeMessages] = LargeMessages()
    _abort_timer: asyncio.TimerHandle | None = None
    _turn: asyncio.Handle | None = None  # when the next piece is parsed
    _begun = False  # the first piece was parsed, in which the address stands
    is_flood = False  # nothing more is read

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.close_timeout = _CLOSE_S
        self._unparsed = bytearray()
        self._controls = Bucket(_CONTROLS, _CONTROLS * _OVER_S)
        self._fragments = Bucket(_FRAGMENTS, _FRAGMENTS * _OVER_S)

    def connection_made(self, transport: Any) -> None:
        """Limit asyncio's own reads, so that unread data waits in the network and not in memory."""
        super().connection_made(transport)
        if hasattr(transport, "max_size"):  # not with TLS
            transport.max_size = _READ

    def data_received(self, data: bytes) -> None:
        """Queue the data for its turn."""
        self._unparsed += data
        if self._turn is None:
            self._parse()

    def _parse(self) -> None:
        """Parse the next piece. A head that HTTP lets pass and WebSockets do not (a control character) would wait for
        an answer forever.
        """
        self._turn = None
        if self._unparsed and not self._waits and self._may_grow:
            piece = bytes(self._unparsed[:_PIECE])
            del self._unparsed[:_PIECE]
            if not self._begun:
                self._begun = True
                self.conn.max_size = self.config.ws_max_size * self.large.times_in(piece)
            super().data_received(piece)
            if self.conn.handshake_exc is not None and not self.handshake_initiated:
                self.transport.write(_BAD_REQUEST)
                self.transport.close()
        self._go_on()

    @property
    def _waits(self) -> bool:
        """True if the application has to act first: accept the client, or take a message."""
        return self.read_paused or (self.handshake_initiated and not self.handshake_complete)

    @property
    def _is_large(self) -> bool:
        """True if what is here of a message is more than usual."""
        here = len(self.conn.reader.buffer) + sum(map(len, self.frames))
        return here > self.config.ws_max_size + _PIECE  # of the next one, perhaps

    @property
    def _may_grow(self) -> bool:
        return not self._is_large or self.large.admits(self)

    def _go_on(self) -> None:
        """Read, or parse the data that is here, when it is time."""
        if self.is_flood or self.transport.is_closing():
            self._unparsed.clear()
            self.transport.pause_reading()
            return
        debt_s = self._fragments.debt_s(self.loop.time())
        if not self._unparsed and not debt_s:
            if not self.read_paused:
                self.transport.resume_reading()
            return
        self.transport.pause_reading()
        if self._turn is None and not self._waits:
            wait_s = debt_s if self._may_grow else max(debt_s, _ROOM_S)
            self._turn = self.loop.call_later(wait_s, self._parse) if wait_s else self.loop.call_soon(self._parse)

    async def receive(self) -> Any:
        """Give the application a message: it is done with the last one, and the next one may come."""
        if self.queue.empty() and not self._is_large:
            self.large.done(self)
        message = await super().receive()
        self._go_on()
        return message

    def connection_lost(self, exc: Exception | None) -> None:
        """Break the circle of parser and error that keeps the data alive after a bad frame."""
        super().connection_lost(exc)
        for timer in (self._abort_timer, self._turn):  # else they would hold all of this until their time comes
            if timer is not None:
                timer.cancel()
        self._unparsed.clear()
        self.large.done(self)
        self.conn.parser.close()
        self.conn.parser_exc = None

    async def run_asgi(self) -> None:
        """Run the conversation, and close its socket whatever the client does.

        uvicorn closes it, which waits until the client has read what it does not read.
        """
        await super().run_asgi()
        if not self.disconnected:
            self._abort_timer = self.loop.call_later(_ABORT_S, self.transport.abort)

    async def send(self, message: Any) -> None:
        """Complete a refused handshake: it would be logged as a failure."""
        await super().send(message)
        self.handshake_complete = self.handshake_complete or self.close_sent
        self._go_on()

    def schedule_ping(self) -> None:
        """Schedule the next ping. uvicorn's pause is shorter by as much as the last answer was late: by all of it,
        after a very late one.
        """
        assert self.ping_interval is not None
        self.ping_timer = self.loop.call_later(self.ping_interval, self.send_keepalive_ping)

    def send_keepalive_ping(self) -> None:
        """Ping the client, unless it does not read: it has not had the last ping yet."""
        if self.writable.is_set():
            super().send_keepalive_ping()
        else:
            self.schedule_ping()

    def handle_ping(self) -> None:
        """Answer, unless the client does not read: RFC 6455 asks for the answer to the newest ping only."""
        # Taken even if it is dropped below, or it would go out with the next message.
        pong = b"".join(self.conn.data_to_send())
        if self._allows_control() and self.writable.is_set():
            self.transport.write(pong)

    def handle_pong(self, event: Any) -> None:
        if self._allows_control():
            super().handle_pong(event)

    def _allows_control(self) -> bool:
        """Count a ping or a pong; a client that sends too many is closed."""
        if not self._controls.take(1, self.loop.time()) and not (self.is_flood or self.close_sent):
            self.is_flood = self.disconnected = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": 1008, "reason": TOO_FAST})
            self.close_timer = self.loop.call_later(self.close_timeout, self._leave)
            log.info("problem", extra={"kind": "too_fast", "problem": TOO_FAST, "fatal": True})
        if self.close_sent:
            self._fragments.take(1, self.loop.time())
        return not (self.is_flood or self.close_sent)

    def send_receive_event_to_app(self) -> None:
        """Drop frames after the end, but count them: to parse them costs as much as fragments do."""
        if self.close_sent:
            self._fragments.take(1, self.loop.time())
        super().send_receive_event_to_app()

    def _leave(self) -> None:
        """Send the reason, and close."""
        self.conn.fail(1008, TOO_FAST)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.transport.close()
        self._abort_timer = self.loop.call_later(_ABORT_S, self.transport.abort)

    def handle_cont(self, event: Any) -> None:
        """Join fragments in one buffer: as a list, a million of one byte each would be a thousand times their size."""
        self._fragments.take(1, self.loop.time())
        buffer = self.frames[0] if isinstance(self.frames[0], bytearray) else bytearray(self.frames[0])
        buffer += event.data
        self.frames = [buffer]  # type: ignore[list-item]
        if event.fin:
            self.frames = [bytes(buffer)]
            self.send_receive_event_to_app()
