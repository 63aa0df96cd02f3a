"""Whatever is sent to a server, over real sockets: it answers in order, never dies, and others lose nothing."""

import asyncio
import logging
import os
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from served import SILENCE, TEXT, client, limited, say_everything, served
from whispertide.server.serving import Server
from wire_messages import messages

KEY = b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
UPGRADE = b"Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + KEY + b"\r\n"
PATHS = ("/ws", "/v1/realtime?intent=transcription", "/v1/listen", "/v3/ws?sample_rate=16000", "/")


def frame(opcode: int, data: bytes, *, fin: bool = True, length: int | None = None) -> bytes:
    """A masked frame; `length` may lie."""
    size = len(data) if length is None else length
    head = bytes([(0x80 if fin else 0) | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 2**16:
        head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return head + bytes(4) + data


async def good_talk(server: Server) -> None:
    """Somebody else's session meanwhile: it says every word."""
    async with client(server) as good:
        for _ in range(22):
            await good.send(SILENCE[:16_000])
            await asyncio.sleep(0.005)
        await good.send({"type": "finish"})
        assert await good.rest() == 1000
        assert good.text == TEXT


@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS), st.lists(messages, max_size=10))
def test_any_messages_to_any_protocol(path: str, sent: list[str | bytes]) -> None:
    async def run() -> None:
        async with served(limited(idle_s=1)) as (server, _):
            talking = asyncio.create_task(good_talk(server))
            async with client(server, path=path) as bad:
                with suppress(ConnectionClosed, TimeoutError):
                    for message in sent:
                        await bad.socket.send(message)
                    while True:
                        async with asyncio.timeout(0.05):
                            reply = await bad.socket.recv()
                        assert "Traceback" not in str(reply)
            await talking

    asyncio.run(run())


@pytest.mark.parametrize(
    "data",
    [
        frame(1, b"\xff\xfe"),  # no UTF-8
        frame(3, b"x"),  # a reserved opcode
        frame(0, b"x"),  # a continuation of nothing
        frame(2, b"x" * 10, length=2**40),  # a length that is absurd
        frame(2, b"x" * 100)[:9],  # half a frame
        b"\x82\x05hello",  # not masked
        frame(9, b"x" * 126),  # a ping that is too long
        frame(8, b"\x03"),  # a close of one byte
        frame(8, (999).to_bytes(2, "big")),  # a close code that is none
        bytes(range(256)) * 4,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_frames_that_are_none(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with served(limited(idle_s=0.5)) as (server, _):
            talking = asyncio.create_task(good_talk(server))
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /ws HTTP/1.1\r\n" + UPGRADE)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            async with asyncio.timeout(5):
                assert b"Traceback" not in await reader.read()
            writer.close()
            await talking

    with caplog.at_level(logging.ERROR, logger="whispertide.server"):
        asyncio.run(run())
    assert not [record for record in caplog.records if record.name.startswith("whispertide")]


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 1000,
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_requests_that_are_none(data: bytes) -> None:
    async def run() -> None:
        async with served(limited(stall_s=0.5)) as (server, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(data)
            writer.write_eof()
            async with asyncio.timeout(8):
                try:
                    answer = await reader.read()
                except ConnectionError:
                    answer = b""
            assert b"Traceback" not in answer
            assert not answer or answer.startswith(b"HTTP/1.1 4")
            writer.close()
            async with client(server) as good:
                await good.until("hello")

    asyncio.run(run())


def test_text_where_audio_belongs_and_bytes_that_are_no_samples() -> None:
    async def run() -> None:
        async with served() as (server, _), client(server) as one:
            await one.send({"type": "start", "format": "f32le"})
            await one.send(os.urandom(4 * 16_000 + 3))  # NaN, infinities, and not a whole sample
            await one.socket.send("UklGRg==")
            await one.until("problem")
            await one.send({"type": "finish"})
            assert await one.rest() == 1000
            (problem,) = one.said("problem")
            assert problem["kind"] == "bad_request"
            assert not problem["fatal"]

    asyncio.run(run())


def test_connections_that_come_and_go_leave_nothing() -> None:
    async def run() -> None:
        async with served() as (server, hub):
            tasks = len(asyncio.all_tasks())
            for number in range(40):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"GET /v1/listen HTTP/1.1\r\n" + UPGRADE)
                await reader.readuntil(b"\r\n\r\n")
                writer.write(frame(2, SILENCE[: 100 * number]))
                writer.transport.abort()
            async with asyncio.timeout(10):
                while hub.connections or hub.sessions or len(asyncio.all_tasks()) > tasks:
                    await asyncio.sleep(0.01)

    asyncio.run(run())


def test_a_flood_of_bad_messages_is_answered_and_ended() -> None:
    async def run() -> None:
        async with served(limited(messages=20)) as (server, _), client(server) as bad, client(server) as good:
            with suppress(ConnectionClosed):
                for _ in range(1000):
                    await bad.socket.send("{")
            assert await bad.rest() == 4029
            await say_everything(good)
            assert await good.rest() == 1000
            assert good.text == TEXT

    asyncio.run(run())
