"""uvicorn's two protocols as they are extended here, by themselves: the test holds their clock and their transport."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from standing_server import frame
from whispertide.server.bodies import LEAST_RATE
from whispertide.server.large_messages import LargeMessages
from whispertide.server.listening import Admission
from whispertide.server.sockets import _PIECE, BoundedWebSockets, http_with_deadlines

PING_S = 20.0
STALL_S = 20.0


@dataclass(eq=False)
class Timer:
    at: float
    act: Callable[..., object]
    arguments: tuple[object, ...]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Loop:
    """As much of an event loop as a protocol needs; its time passes when it is told to."""

    now: float = 1000.0
    timers: list[Timer] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, act: Callable[..., object], *arguments: object) -> Timer:
        self.timers.append(Timer(self.now + delay, act, arguments))
        return self.timers[-1]

    def call_soon(self, act: Callable[..., object], *arguments: object) -> Timer:
        return self.call_later(0, act, *arguments)

    def turn(self) -> None:
        """What is due by now, and nothing that it asks for itself."""
        due = [timer for timer in self.timers if timer.at <= self.now]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            if not timer.cancelled:
                timer.act(*timer.arguments)

    def passes(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.at <= end and not timer.cancelled]:
            first = min(due, key=lambda timer: timer.at)
            self.timers.remove(first)
            self.now = first.at
            first.act(*first.arguments)
        self.now = end


@dataclass
class Transport:
    """`waiting` bytes are written and not sent yet."""

    written: list[bytes] = field(default_factory=list)
    waiting: float = 0
    is_aborted: bool = False

    def get_extra_info(self, name: str) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> float:
        return self.waiting

    def is_closing(self) -> bool:
        return self.is_aborted

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


async def app(scope: object, receive: object, send: object) -> None:
    raise AssertionError("nobody asks the application for anything")


def opened(kind: Any, loop: Loop, transport: Transport) -> Any:
    """A protocol on a connection that stands."""
    config = uvicorn.Config(app, ws_ping_interval=PING_S, ws_ping_timeout=None, log_config=None)
    config.load()
    protocol = kind(config, ServerState(), {}, loop)
    protocol.connection_made(transport)
    return protocol


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def socket(loop: Loop, transport: Transport) -> Any:
    """A WebSocket after its handshake."""
    protocol = opened(BoundedWebSockets, loop, transport)
    protocol.conn.state = State.OPEN
    protocol.start_keepalive()
    return protocol


def test_an_answer_that_comes_late_brings_no_more_pings(socket: Any, loop: Loop, transport: Transport) -> None:
    loop.passes(PING_S)
    loop.passes(PING_S - 0.001)
    socket.handle_pong(Frame(Opcode.PONG, socket.pending_ping_payload))
    assert len(transport.written) == 1
    loop.passes(10 * PING_S)
    assert len(transport.written) == 11


def test_a_client_that_does_not_read_is_not_asked_again(socket: Any, loop: Loop, transport: Transport) -> None:
    socket.pause_writing()
    loop.passes(10 * PING_S)
    assert not transport.written
    socket.resume_writing()
    loop.passes(PING_S)
    assert len(transport.written) == 1


@pytest.mark.parametrize("rate", [0, 1, LEAST_RATE - 1])
def test_a_long_answer_may_be_read_as_long_as_it_is_read_fast_enough(
    rate: int, loop: Loop, transport: Transport
) -> None:
    protocol = opened(http_with_deadlines(STALL_S, Admission(most=10)), loop, transport)
    transport.waiting = 2**24
    protocol.pause_writing()
    for _ in range(10):
        transport.waiting -= LEAST_RATE * STALL_S
        loop.passes(STALL_S)
        assert not transport.is_aborted
    transport.waiting -= rate * STALL_S
    loop.passes(STALL_S)
    assert transport.is_aborted


def test_an_answer_that_was_read_has_no_deadline(loop: Loop, transport: Transport) -> None:
    protocol = opened(http_with_deadlines(STALL_S, Admission(most=10)), loop, transport)
    protocol.pause_writing()
    protocol.resume_writing()
    loop.passes(10 * STALL_S)
    assert not transport.is_aborted


# --- what comes in ---------------------------------------------------------------------------------------------------


@dataclass
class Wire(Transport):
    """One that a protocol reads from: `is_read` tells whether it does."""

    is_read: bool = True
    is_closed: bool = False

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def reading(loop: Loop, wire: Wire) -> Any:
    """A WebSocket whose handshake is done and that nobody has sent anything."""
    protocol = opened(BoundedWebSockets, loop, wire)
    protocol.conn.state = State.OPEN
    protocol.conn.parser = protocol.conn.parse()
    protocol.handshake_initiated = protocol.handshake_complete = True
    next(protocol.conn.parser)
    return protocol


def closed_with(wire: Wire) -> int:
    """The code of the close frame that was written last."""
    last = wire.written[-1]
    assert last[0] == 0x88
    return int.from_bytes(last[2:4])


def turns_until(loop: Loop, done: Callable[[], bool], most: int = 10_000) -> int:
    """How many turns of the loop it takes, without any time passing."""
    for turn in range(most):
        if done():
            return turn
        loop.turn()
    raise AssertionError(f"not done after {most} turns")


def test_where_too_many_are_amid_a_large_message_another_waits(reading: Any, loop: Loop, wire: Wire) -> None:
    reading.large, reading.config.ws_max_size = LargeMessages({"/": 20}, most=1), 8192
    reading.conn.max_size, reading._begun = 20 * 8192, True
    assert reading.large.admits("another")
    reading.data_received(frame(2, bytes(100_000)))
    loop.passes(10)
    assert not wire.is_read
    assert len(reading.conn.reader.buffer) <= 8192 + 2 * _PIECE
    reading.large.done("another")
    loop.passes(1)
    assert reading.queue.get_nowait()["bytes"] == bytes(100_000)


@pytest.mark.parametrize("opcode", [9, 10], ids=["pings", "pongs"])
@pytest.mark.parametrize("payload", [b"", bytes(125)])
def test_many_pings_or_pongs_end_the_connection(
    opcode: int, payload: bytes, reading: Any, loop: Loop, wire: Wire
) -> None:
    """A read of 256 KiB holds 43,690 of them: some pieces of it are looked at, one in a turn, then nothing more."""
    reading.data_received((frame(opcode, payload) * 43_690)[: 2**18])
    assert turns_until(loop, lambda: reading.is_flood) <= 250 * (6 + len(payload)) / _PIECE + 1
    assert reading.queue.get_nowait()["code"] == 1008
    written = len(b"".join(wire.written))
    assert written < 250 * (2 + len(payload)) + _PIECE
    for _ in range(10):
        loop.turn()
        assert not wire.is_read
        assert not reading._unparsed
    assert not wire.is_closed, "who floods waits for the answer, before coming back"
    loop.passes(3)
    assert wire.is_closed
    assert closed_with(wire) == 1008
    assert len(b"".join(wire.written)) < written + 130
    loop.passes(60)
    assert wire.is_aborted, "also where the answer is not read"


@pytest.mark.parametrize("opcode", [1, 2, 9])
def test_little_is_parsed_after_the_end(opcode: int, reading: Any, loop: Loop, wire: Wire) -> None:
    """Until the client has answered the close frame: whoever floods instead is not read at that speed."""
    reading.conn.send_close(1000)
    reading.close_sent = True
    reading.data_received(frame(opcode, b"") * 40_000)
    for _ in range(100):
        loop.turn()
    assert not wire.is_read
    assert len(reading._unparsed) > 6 * 36_000
    assert reading.queue.empty()


def test_pings_now_and_then_are_answered(reading: Any, loop: Loop, wire: Wire) -> None:
    for number in range(300):
        reading.data_received(frame(9, str(number).encode()))
        loop.passes(0.05)
    assert len(wire.written) >= 300
    assert not wire.is_closed
    assert wire.is_read


def test_fragments_are_taken_more_slowly_and_none_is_lost(reading: Any, loop: Loop, wire: Wire) -> None:
    """One byte each, as fast as they can be sent: a few hundred in a turn, then as many a second as anybody needs."""
    count = 12_000
    reading.data_received(frame(2, b"", fin=False) + frame(0, b"\x01", fin=False) * count + frame(0, b"\x01"))
    assert not wire.is_read
    most = 0
    while reading._turn is not None and not any(timer.at > loop.now for timer in loop.timers if timer is reading._turn):
        before = sum(map(len, reading.frames))
        loop.turn()
        most = max(most, sum(map(len, reading.frames)) - before)
    assert 0 < most <= _PIECE / 7 + 1
    assert sum(map(len, reading.frames)) < 3_000
    assert not wire.is_read
    loop.passes(5)
    assert 2_000 < sum(map(len, reading.frames)) < 6_000
    loop.passes(60)
    assert not wire.is_closed
    assert reading.queue.get_nowait()["bytes"] == b"\x01" * (count + 1)


async def test_no_message_is_parsed_while_one_waits(reading: Any, loop: Loop, wire: Wire) -> None:
    """Ten thousand in one read: only those of a piece are there at once, and they come in order."""
    messages = [str(number).encode() for number in range(10_000)]
    reading.data_received(b"".join(frame(2, one) for one in messages))
    got: list[bytes] = []
    most = 0
    while len(got) < len(messages):
        loop.turn()
        most = max(most, reading.queue.qsize())
        assert not wire.is_read or len(messages) - len(got) <= _PIECE / 7
        got.append((await reading.receive())["bytes"])
    assert got == messages
    assert most <= _PIECE / 7
    loop.turn()
    assert wire.is_read


async def test_frames_wait_for_the_handshake(loop: Loop, wire: Wire) -> None:
    """A ping that comes with the request is not answered before the request is."""
    protocol = opened(BoundedWebSockets, loop, wire)
    protocol.loop = asyncio.get_running_loop()
    protocol.app = protocol.config.loaded_app = lambda *_: asyncio.sleep(3600)
    request = (
        b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    protocol.data_received(request)
    protocol.data_received(frame(9, b"now") + frame(2, b"audio"))
    await asyncio.sleep(0.01)
    assert not wire.written
    assert not wire.is_read
    await protocol.send({"type": "websocket.accept"})
    await asyncio.sleep(0.01)
    assert b" 101 " in wire.written[0]
    assert wire.written[1].endswith(b"now")
    assert (await protocol.receive())["type"] == "websocket.connect"
    assert (await protocol.receive())["bytes"] == b"audio"
    for task in protocol.tasks:
        task.cancel()
    protocol.connection_lost(None)
