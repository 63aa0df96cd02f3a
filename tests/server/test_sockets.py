"""uvicorn's two protocols as they are extended here, by themselves: the test holds their clock and their transport."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from whispertide.server.bodies import LEAST_RATE
from whispertide.server.listening import Admission
from whispertide.server.sockets import BoundedWebSockets, http_with_deadlines

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
