"""A transcription server on loopback that answers as it is told, and badly in every way that a server can."""

import asyncio
import atexit
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache

TEXT = "there is a remote answer"
GOOD = json.dumps({"text": TEXT, "duration": 4.0})
TIMED = json.dumps(
    {
        "text": TEXT,
        "words": [{"word": word, "start": 0.5 * n, "end": 0.5 * n + 0.4} for n, word in enumerate(TEXT.split())],
    }
)
_WRONG_TIMES = json.dumps({"text": TEXT, "words": [{"word": "there", "start": "now", "end": None}] * 5})
ANSWERS: dict[str, bytes] = {
    "html": b"<html>welcome</html>",
    "half": GOOD[:20].encode(),
    "list": b"[1, 2]",
    "null": b"null",
    "no text": b'{"transcript": "hello"}',
    "text is a number": b'{"text": 7}',
    "a novel": json.dumps({"text": "word " * 2000}).encode(),
    "control characters": json.dumps({"text": "one\x00two"}).encode(),
    "nothing": json.dumps({"text": "  "}).encode(),
    "deep": b"[" * 100_000,
    "not utf-8": b'{"text": "\xff\xfe"}',
    "unlimited": b'{"text": "' + b"a" * 3_000_000,
}
STATUSES = {
    "refused 401": 401,
    "refused 413": 413,
    "refused 429": 429,
    "broken 500": 500,
    "broken 503": 503,
    "moved": 302,
}
HANGING = ("silent", "drips the head", "drips the body")
CUT = ("closes at once", "closes in the head", "closes in the body", "resets", "speaks no HTTP")
FAILURES = (*ANSWERS, *STATUSES, *HANGING, *CUT)


@dataclass
class FakeRemote:
    """The server. `ways` are how it answers request after request, the last one for ever; `bodies` what it was sent."""

    port: int = 0
    ways: list[str] = field(default_factory=lambda: ["good"])
    bodies: list[bytes] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)  # of all connections

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _way(self) -> str:
        return self.ways.pop(0) if len(self.ways) > 1 else self.ways[0]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        way = self._way()
        try:
            if way not in ("closes at once", "resets"):
                self.bodies.append(await _body(reader))
                await self._answer(way, writer)
            elif way == "resets":
                writer.transport.abort()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, way: str, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
        if way == "speaks no HTTP":
            writer.write(b"220 mail.example.org ESMTP\r\n")
        elif way == "closes in the head":
            writer.write(head[:20])
        elif way == "closes in the body":
            writer.write(head.replace(b"connection", b"content-length: 500\r\nconnection") + GOOD[:10].encode())
        elif way == "silent":
            await asyncio.sleep(3600)
        elif way == "drips the head":
            await _drip(writer, head)
        elif way == "drips the body":
            writer.write(head)
            await _drip(writer, GOOD.encode())
        elif way in STATUSES:
            writer.write(head.replace(b"200 OK", b"%d NO" % STATUSES[way]) + GOOD.encode())
        else:
            good = {"good": GOOD, "timed": TIMED, "wrong times": _WRONG_TIMES}.get(way)
            writer.write(head + (ANSWERS[way] if good is None else good.encode()))
        await writer.drain()


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def stop_accepting(server: asyncio.Server) -> None:
    """Close a server once connections that have just been made have their handlers: asyncio drops them after `close`,
    and leaves their sockets open.
    """
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening)
    await _turns()
    server.close()


async def _drip(writer: asyncio.StreamWriter, answer: bytes) -> None:
    for place in range(len(answer)):
        writer.write(answer[place : place + 1])
        await writer.drain()
        await asyncio.sleep(0.05)
    await asyncio.sleep(3600)


async def _body(reader: asyncio.StreamReader) -> bytes:
    """What a request carries, with its length or in chunks."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"transfer-encoding: chunked" not in head:
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        return await reader.readexactly(length)
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    return body


@contextmanager
def fake_remote(*ways: str) -> Iterator[FakeRemote]:
    """A server of its own, in a thread."""
    fake, ready, over = FakeRemote(ways=[*ways] or ["good"]), threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        server = await asyncio.start_server(fake.serve, "127.0.0.1", 0, limit=2**24)
        fake.port = server.sockets[0].getsockname()[1]
        loops.append(asyncio.get_running_loop())
        ready.set()
        await over.wait()
        await stop_accepting(server)
        handlers = asyncio.all_tasks() - {asyncio.current_task()}
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        for writer in fake.writers:
            writer.transport.abort()
        await _turns()  # and those that are about to end do

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield fake
    finally:
        loops[0].call_soon_threadsafe(over.set)
        thread.join(60)


@cache
def _taken() -> socket.socket:
    found = socket.socket()
    atexit.register(found.close)
    found.bind(("127.0.0.1", 0))
    return found


def closed_port() -> int:
    """One where nobody listens, nor anybody else can."""
    return int(_taken().getsockname()[1])
