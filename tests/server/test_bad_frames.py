"""What is no frame and no request, and those who may not come in: a proper end, and nobody else notices."""

import asyncio
import gc
import json
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.server import ServerProtocol

from served import client, keyed, limited, logged_errors, served
from standing_server import Standing, every_socket, frame, raw_socket, until_closed
from whispertide.server.sockets import LONGEST_LINE


@pytest.mark.parametrize(
    "data",
    [
        frame(1, b"\xff\xfe"),  # no UTF-8
        frame(3, b"x"),  # a reserved opcode
        frame(0, b"x"),  # a continuation of nothing
        frame(2, b"x" * 10, length=2**40),  # a length that is absurd
        b"\x82\x05hello",  # not masked
        frame(9, b"x" * 126),  # a ping that is too long
        frame(8, b"\x03"),  # a close of one byte
        frame(8, (999).to_bytes(2, "big")),  # a close code that is none
        bytes(range(256)) * 4,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
@every_socket
async def test_frames_that_are_none(town: Standing, path: str, data: bytes) -> None:
    reader, writer = await raw_socket(town.port, path)
    writer.write(data)
    said = await until_closed(reader)
    assert b"Traceback" not in said
    assert b"\x88" in said, "a close frame"
    writer.transport.abort()


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 1000,
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/x\r\nHost: x\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=range(8),
)
def test_requests_that_are_none(town: Standing, data: bytes) -> None:
    async def talk() -> bytes:
        async with town.bystander():
            reader, writer = await asyncio.open_connection("127.0.0.1", town.port)
            with suppress(OSError):
                writer.write(data)
                writer.write_eof()
            answer = await until_closed(reader, 8)
            writer.transport.abort()
            return answer

    answer = asyncio.run(talk())
    assert b"Traceback" not in answer
    assert not answer or answer.startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("path", ["/healthz", "/v1/audio/transcriptions", "/not/there"])
async def test_a_body_of_two_lengths_is_refused_and_nothing_after_it_is_a_request(path: str, version: str) -> None:
    """A proxy that goes by the other length would take the second request for part of the first, or the first of
    somebody else's.
    """
    head = f"POST {path} HTTP/{version}\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    if version == "1.1":
        head += "Content-Length: 5\r\n"
    async with served(limited()) as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"{head}\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = await until_closed(reader)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.lower()


def test_a_body_that_turns_into_nonsense_after_its_answer() -> None:
    """It was answered before it came: nothing more can be said, and nothing is to be logged."""

    async def talk() -> None:
        async with served(keyed("right-key")) as (server, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(
                b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            answer = await reader.readuntil(b"}}")
            assert answer.startswith(b"HTTP/1.1 401")
            writer.write(b"zz\r\n")
            assert await until_closed(reader) == b""
            writer.transport.abort()

    with logged_errors() as errors:
        asyncio.run(talk())
    assert not errors, errors[0]


def long_head(where: str, length: int) -> dict[str, Any]:
    """What makes an address, or a header, so long."""
    path = "/ws?prompt="
    if where == "address":
        return {"query": f"?prompt={'y' * (length - len(path))}"}
    return {"additional_headers": {"Cookie": "y" * (length - len("Cookie"))}}


@pytest.mark.parametrize(("where", "status"), [("address", 414), ("header", 431)])
async def test_a_head_that_is_too_long_for_a_websocket_is_told(town: Standing, where: str, status: int) -> None:
    """By HTTP it may be longer, so it gets as far as the upgrade."""
    async with client(town.server, **long_head(where, LONGEST_LINE)) as one:
        await one.until("hello")
    with pytest.raises(InvalidStatus) as refused:
        async with client(town.server, **long_head(where, LONGEST_LINE + 1)):
            pass
    answer = refused.value.response
    assert answer.status_code == status
    assert f"at most {LONGEST_LINE} bytes" in json.loads(answer.body or b"")["error"]["message"]
    await town.settled()


@pytest.mark.parametrize("header", ["Sec-WebSocket-Protocol", "Sec-WebSocket-Key", "Sec-WebSocket-Version"])
async def test_a_head_with_bytes_that_are_no_text_is_told(town: Standing, header: str) -> None:
    """The parser's own answer quotes them and failed: there was none, or a 500, and a stack in the log."""
    head = {"Host": "x", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    head |= {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    head |= {header: head.get(header, "whispertide.key.") + "\xff"}
    lines = ["GET /ws HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    reader, writer = await asyncio.open_connection("127.0.0.1", town.port)
    with logged_errors() as errors:
        writer.write("\r\n".join(lines).encode("latin-1"))
        answer = await until_closed(reader)
    writer.transport.abort()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"headers of a WebSocket in ASCII" in answer
    assert not errors


# --- who may not -----------------------------------------------------------------------------------------------------


@every_socket
@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Authorization": "Bearer wrong-key"}, 401), ({"Authorization": "right-key\x01"}, 400)],
)
async def test_the_unauthorized_get_nowhere(path: str, headers: dict[str, str], status: int) -> None:
    async with served(keyed("right-key")) as (server, hub):
        with pytest.raises(InvalidStatus) as refused:
            async with client(server, path=path, additional_headers=headers):
                pass
        assert refused.value.response.status_code == status
        assert not hub.connections
        assert not hub.sessions


@pytest.mark.parametrize(
    "path",
    [
        "/../../pyproject.toml",
        "/%2e%2e/%2e%2e/pyproject.toml",
        "/..%2f..%2fpyproject.toml",
        "/..%5c..%5cpyproject.toml",
        "//etc/passwd",
        "/%00",
        "/main.js/../../serving.py",
        "/%2fetc%2fpasswd",
        "/v1/models/../../../etc/passwd",
        "/" + "a" * 300,
    ],
)
def test_no_path_leads_out_of_the_page(town: Standing, path: str) -> None:
    async def talk() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", town.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = await until_closed(reader)
        writer.transport.abort()
        return answer

    answer = asyncio.run(talk())
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400"))
    assert b"Traceback" not in answer
    assert b"import" not in answer


@pytest.mark.slow
def test_a_frame_that_is_none_keeps_nothing(town: Standing) -> None:
    """What came over the connection is freed with it, and does not wait for the collector of cycles."""

    def kept() -> int:
        return sum(isinstance(each, ServerProtocol) for each in gc.get_objects())

    async def run() -> None:
        reader, writer = await raw_socket(town.port)
        writer.write(frame(2, bytes(2_000)) + frame(3, b"x"))
        await until_closed(reader)
        writer.close()
        await town.settled()

    gc.collect()
    before = kept()
    gc.disable()
    try:
        for _ in range(5):
            asyncio.run(run())
        assert kept() <= before + 1  # the last one may still be on its way
    finally:
        gc.enable()
