"""Clients that send too slowly or are half gone: they get an end that says why, and nobody else notices."""

import asyncio
import json
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from served import limited
from slow_rows import slow_but
from standing_server import OPENING, PORTS, SOCKETS, Standing, frame, raw_socket, standing, until_closed
from whispertide.server.protocols.wyoming import Frame, encode
from whispertide.server.tcp import TcpTransport

IDLE_S = STALL_S = 1.5  # so long that a busy machine alone does not make a client late


@pytest.fixture(scope="module")
def town() -> Iterator[Standing]:
    limits = limited(idle_s=IDLE_S, stall_s=STALL_S, resume_s=0.3, message=2**18)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whispertide.server.sockets._CLOSE_S", 0.2)  # nobody here answers a close frame
        with standing(limits) as town:
            yield town


@pytest.fixture(scope="module")
def patient() -> Iterator[Standing]:
    """Late is here only who comes while it is `hurried`."""
    limits = limited(idle_s=60, stall_s=60, resume_s=0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whispertide.server.sockets._CLOSE_S", 0.2)  # nobody here answers a close frame
        with standing(limits) as town:
            yield town


# --- slow ------------------------------------------------------------------------------------------------------------


def test_a_frame_that_comes_byte_by_byte(town: Standing) -> None:
    """On all sockets at once, because each waits until it is closed."""

    async def talk(path: str) -> bytes:
        reader, writer = await raw_socket(town.port, path)
        writer.write(OPENING.get(path, b""))
        trickle = asyncio.create_task(dribble(writer, frame(2, bytes(1000))))
        said = await until_closed(reader)
        trickle.cancel()
        writer.transport.abort()
        return said

    async def all_of_them() -> list[bytes]:
        return await asyncio.gather(*map(talk, SOCKETS))

    for path, said in zip(SOCKETS, asyncio.run(all_of_them()), strict=True):
        assert b"\x88" in said, path


async def dribble(writer: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(OSError):
        for at in range(len(data)):
            writer.write(data[at : at + 1])
            await asyncio.sleep(0.05)


def test_a_wyoming_frame_that_comes_byte_by_byte(town: Standing) -> None:
    async def talk() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", town.tcp["wyoming"])
        trickle = asyncio.create_task(dribble(writer, b'{"type":"ping","data":{"text":"' + b"x" * 1000))
        said = await until_closed(reader)
        trickle.cancel()
        writer.transport.abort()
        return said

    assert b"expected a whole message" in asyncio.run(talk())


def test_whole_wyoming_frames_may_come_slowly(town: Standing) -> None:
    """Together they take longer than one may. Every piece that makes one whole may begin the next, by so many bytes."""

    async def talk(ahead: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", town.tcp["wyoming"])
        data = 8 * encode(Frame("ping", {"text": "x"}))
        half = len(data) // 16
        for start in range(0, len(data), half):
            writer.write(data[start and start + ahead : start + half + ahead])
            await asyncio.sleep(1.5 * IDLE_S / 16)
        writer.write_eof()
        said = await until_closed(reader)
        writer.transport.abort()
        return said

    async def both() -> list[bytes]:
        return await asyncio.gather(*map(talk, (0, 7)))

    assert [said.count(b"pong") for said in asyncio.run(both())] == [8, 8]


BEGUN = {
    "nothing": b"",
    "head": b"GET / HTTP/1.1\r\n",
    "second head": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /doc",
    "JSON": b"POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
    "upload": b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x",
    "body that is not wanted": b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
}


def test_requests_that_come_byte_by_byte(town: Standing) -> None:
    """Slow-loris, wherever in a request; all at once, because each waits until it is closed."""

    async def talk(head: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", town.port)
        writer.write(head)
        trickle = asyncio.create_task(dribble(writer, b"x" * 1000))
        said = await until_closed(reader, 12)
        trickle.cancel()
        writer.transport.abort()
        return said

    async def all_of_them() -> list[bytes]:
        return await asyncio.gather(*map(talk, BEGUN.values()))

    for name, said in zip(BEGUN, asyncio.run(all_of_them()), strict=True):
        assert b"Traceback" not in said, name
        assert said == b"" or said.startswith((b"HTTP/1.1 40", b"HTTP/1.1 200")), name


# --- half gone -------------------------------------------------------------------------------------------------------


async def reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection off once what was written is on its way, with a reset instead of an end."""
    await asyncio.sleep(0.05)
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.mark.parametrize("how", ["half closed", "reset", "in mid-frame", "silent"])
async def test_half_open_sockets(patient: Standing, how: str) -> None:
    """The other side shuts its half, is reset, breaks off in a frame, or lives on and says nothing at all. It does so
    on all sockets at once, because the silent ones take their time.
    """

    async def open_one(path: str) -> asyncio.StreamWriter:
        _, writer = await raw_socket(patient.port, path)
        writer.write(OPENING.get(path, b"") + frame(2, bytes(320)))
        if how == "half closed":
            writer.write_eof()
        elif how == "in mid-frame":
            writer.write(frame(2, bytes(1000))[:500])
            await writer.drain()
            writer.close()
        elif how == "reset":
            await reset(writer)
        return writer

    async with patient.hurried(idle_s=0.3):
        writers = await asyncio.gather(*map(open_one, SOCKETS))
        await patient.settled()
        for writer in writers:
            writer.transport.abort()


@pytest.mark.parametrize("port", slow_but(PORTS, "wyoming"))
@pytest.mark.parametrize("how", ["half closed", "reset", "silent"])
async def test_half_open_sockets_over_tcp(patient: Standing, port: str, how: str) -> None:
    async with patient.hurried(idle_s=0.3):
        _, writer = await asyncio.open_connection("127.0.0.1", patient.tcp[port])
        writer.write(encode(Frame("audio-stop")) if port == "wyoming" else bytes(640))
        if how == "half closed":
            writer.write_eof()
        elif how == "reset":
            await reset(writer)
        await patient.settled()
        writer.transport.abort()


async def test_a_client_that_does_not_answer_the_close_frame(town: Standing) -> None:
    reader, writer = await raw_socket(town.port)
    writer.write(frame(2, bytes(640)) + frame(1, json.dumps({"type": "finish"}).encode()))
    await until_closed(reader)  # it goes on reading, and says nothing
    writer.transport.abort()
    await town.settled()


async def test_a_client_that_reads_nothing_loses_its_socket(town: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was sent and does not read keeps the socket, unless it is taken by force. One after another they connect,
    to know which socket is whose; then they wait at once.
    """
    monkeypatch.setattr("whispertide.server.sockets._ABORT_S", 0.2)
    monkeypatch.setattr("whispertide.server.websocket._CLOSE_S", 0.2)
    deaf: list[tuple[asyncio.StreamWriter, Any]] = []
    for path in SOCKETS:
        before = town.sockets
        _, writer = await raw_socket(town.port, path, buffer=4096)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        (served,) = [each for each in town.sockets if each not in before]
        served.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        writer.write(OPENING.get(path, b""))
        deaf.append((writer, served.transport))

    async def fill(writer: asyncio.StreamWriter, transport: Any) -> None:
        while not transport.get_write_buffer_size():
            writer.write(frame(9, bytes(125)) * 100)
            await asyncio.sleep(0.005)

    async with asyncio.timeout(60):
        await asyncio.gather(*(fill(*each) for each in deaf))
    await town.settled()
    for writer, _ in deaf:
        writer.transport.abort()


def test_a_tcp_client_that_reads_nothing_loses_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.server.tcp._CLOSE_S", 0.1)

    async def talk() -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        transport = TcpTransport(reader, writer)
        writer.write(bytes(2**23))
        await transport.close()
        await transport.release()
        await asyncio.sleep(0)
        assert ours.fileno() == -1
        theirs.close()

    asyncio.run(asyncio.wait_for(talk(), 60))
