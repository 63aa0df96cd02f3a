"""Clients that send too much: they get an end that says why, and nobody else notices. See also `test_slow_clients`."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from served import SILENCE, client, limited, served
from slow_rows import slow_but
from standing_server import (
    OPENING,
    PORTS,
    SOCKETS,
    Standing,
    connected,
    frame,
    raw_socket,
    standing,
    until_closed,
)
from whispertide.server.protocols.wyoming import Frame, encode

IDLE_S, STALL_S = 10, 1.5  # so long that a busy machine alone does not make a client late


TEXTS_PER_S = 20


@pytest.fixture(scope="module")
def town() -> Iterator[Standing]:
    limits = limited(idle_s=IDLE_S, stall_s=STALL_S, resume_s=0.3, messages=TEXTS_PER_S, message=2**18, connections=40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whispertide.server.sockets._CLOSE_S", 0.2)  # nobody here answers a close frame
        with standing(limits) as town:
            yield town


# --- floods ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", slow_but(SOCKETS, "/ws"))
def test_text_messages(town: Standing, path: str) -> None:
    async def talk() -> bytes:
        async with town.bystander():
            reader, writer = await raw_socket(town.port, path)
            writer.write(OPENING.get(path, b"") + frame(1, b"{}") * 1000)
            said = await until_closed(reader)
            writer.transport.abort()
            return said

    said = asyncio.run(talk())
    assert b"expected at most 20 messages a second" in said


@pytest.mark.parametrize("path", slow_but(SOCKETS, "/ws"))
async def test_tiny_audio_messages(town: Standing, path: str) -> None:
    """Twenty thousand of one byte: worked through, one at a time, between everybody else's."""
    _, writer = await raw_socket(town.port, path)
    async with town.bystander():
        writer.write(OPENING.get(path, b""))
        for _ in range(20):
            writer.write(frame(2, b"\0") * 1000)
            await asyncio.sleep(0)
    writer.transport.abort()


@pytest.mark.slow
def test_pings_that_nobody_reads_the_answers_to(town: Standing) -> None:
    async def talk() -> int:
        _, writer = await raw_socket(town.port, buffer=4096)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        most = 0
        async with town.bystander():
            for _ in range(400):  # fifteen megabytes
                writer.write(frame(9, bytes(125)) * 300)
                with suppress(TimeoutError, ConnectionError):  # it is not let go on for long
                    async with asyncio.timeout(0.05):
                        await writer.drain()
                most = max([most, *(one.transport.get_write_buffer_size() for one in town.sockets)])
        writer.transport.abort()
        return most

    assert asyncio.run(talk()) < 2**19


@pytest.mark.slow
async def test_many_fragments_are_one_buffer() -> None:
    async with served() as (server, _):
        reader, writer = await raw_socket(server.port)
        writer.write(frame(2, b"", fin=False))
        for _ in range(6):
            writer.write(frame(0, b"\0", fin=False) * 500 + frame(0, b"", fin=False) * 500)
            await asyncio.sleep(0.002)
        (busy,) = [one for one in server.server_state.connections if getattr(one, "frames", None)]
        assert len(busy.frames) == 1  # type: ignore[union-attr]
        writer.write(frame(0, b"\0"))
        await reader.readuntil(b'"type":"session"')
        writer.transport.abort()


@pytest.mark.slow
def test_connections() -> None:
    """More sockets than there are places: those beyond are closed long before their silence would close them, and the
    others are served.
    """
    places, more = 40 + 256, 54

    async def talk(town: Standing) -> None:
        opened = []
        try:
            async with town.bystander():
                for _ in range(places + more):
                    with suppress(OSError):
                        opened.append(await asyncio.open_connection("127.0.0.1", town.port))
                async with asyncio.timeout(60):
                    while (
                        sum(reader.at_eof() or reader.exception() is not None for reader, _ in opened) < more
                        # some that were let in may not have been begun with, some that are closed be there for a moment
                        or not places - 20 < len(town.sockets) <= places
                    ):
                        await asyncio.sleep(0.01)
        finally:
            for _, writer in opened:
                writer.transport.abort()
        await town.settled()
        async with client(town.server) as good:
            await good.until("hello")

    with standing(limited(stall_s=90, connections=40, per_address=0, viewers=0)) as town:
        asyncio.run(talk(town))


@pytest.mark.slow
async def test_sessions(town: Standing) -> None:
    async with town.bystander():
        sockets = [await raw_socket(town.port) for _ in range(35)]
        refused = [await asyncio.open_connection("127.0.0.1", town.port) for _ in range(10)]
        answers = []
        for reader, writer in refused:
            writer.write(
                b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            answers.append(await reader.readuntil(b"\r\n"))
    assert any(b" 503 " in answer for answer in answers)
    for _, writer in (*sockets, *refused):
        writer.transport.abort()
    await town.settled()


@pytest.mark.slow
async def test_sessions_that_are_left_at_once() -> None:
    """Whoever opens and leaves many pushes out no session that somebody will come back to."""
    async with served(limited(sessions=2)) as (server, hub):
        async with client(server) as one:
            for _ in range(3):
                await one.send(SILENCE)
            session = (await one.until("session"))["session"]
            while hub.sessions[session].accepted < 3 * 16_000:
                await asyncio.sleep(0.01)
        for _ in range(20):
            async with client(server) as rude:
                await rude.send(bytes(3200))
                await rude.until("session")
        async with asyncio.timeout(60):
            while hub.connections:
                await asyncio.sleep(0.01)
        assert len(hub.sessions) <= 9
        async with client(server, query=f"?session={session}") as back:
            assert (await back.until("session"))["resumed"]


@pytest.mark.slow
async def test_requests_whose_answers_nobody_reads(town: Standing) -> None:
    _, writer = await connected(town.port, buffer=4096)
    try:
        async with town.bystander():
            for _ in range(40):
                writer.write(b"GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
                await asyncio.sleep(0.005)
        await town.settled()
    finally:
        writer.transport.abort()


@pytest.mark.slow
async def test_uploads() -> None:
    """More files at once than may wait: refused while they still come, before they fill the disk."""
    async with served(limited(offline=1, stall_s=60)) as (server, _):
        head = (
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
        )
        slow = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(4)]
        for _, writer in slow:
            writer.write(head)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as http:

            async def until(status: int) -> None:
                async with asyncio.timeout(60):
                    while True:
                        answer = await http.post("/v1/audio/transcriptions", files={"no": ("a", b"x")})
                        assert answer.status_code in (400, 429)  # there is no file in it
                        if answer.status_code == status:
                            return

            await until(429)
            for _, writer in slow:
                writer.transport.abort()
            await until(400)


async def test_a_body_in_an_encoding_that_takes_hours() -> None:
    """Python's punycode is quadratic in the length of a field: a megabyte would stop all sessions for minutes."""
    async with served() as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        field = b'--x\r\nContent-Disposition: form-data; name="prompt"\r\n\r\na-' + b"ab" * 400_000 + b"\r\n--x--\r\n"
        writer.write(
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Type: multipart/form-data; boundary=x; charset=punycode\r\n"
            b"Content-Length: " + str(len(field)).encode() + b"\r\n\r\n" + field
        )
        answer = await until_closed(reader)
        assert answer.startswith(b"HTTP/1.1 400")
        writer.transport.abort()


@pytest.mark.slow
def test_hundreds_of_clients_that_connect_and_break_off() -> None:
    """Afterwards there is no task, thread, session or socket more, and no memory that grows with their number."""

    async def some(town: Standing, number: int) -> None:
        for cycle in range(number):
            where = cycle % (len(SOCKETS) + len(PORTS))
            if where < len(SOCKETS):
                _, writer = await raw_socket(town.port, SOCKETS[where])
                writer.write(OPENING.get(SOCKETS[where], b"") + frame(2, bytes(640 * (cycle % 4))))
            else:
                _, writer = await asyncio.open_connection("127.0.0.1", town.tcp[PORTS[where - len(SOCKETS)]])
                writer.write(bytes(640 * (cycle % 4)) if where > len(SOCKETS) else encode(Frame("describe")))
            await asyncio.sleep(0.002 * (cycle % 3))
            writer.transport.abort()
        await town.settled()
        async with asyncio.timeout(60):
            while town.hub.sessions or town.tasks() != tasks:  # a connection that is settled may still be closing
                await asyncio.sleep(0.05)

    with standing(limited(resume_s=0, stall_s=5)) as town:
        town.hub.record = None  # it would remember them all
        tasks = town.tasks()
        asyncio.run(some(town, 150))
        threads, memory = _threads(), _resident_mb()
        asyncio.run(some(town, 400))
        assert _threads() == threads
        assert _resident_mb() - memory < 6
        assert not town.hub.scheduler._queue


def _threads() -> int:
    """Those of no pool: a pool begins its threads one by one, as they are needed, up to a number that is fixed."""
    pools = ("round", "patient-round", "asyncio")
    return sum(not thread.name.startswith(pools) for thread in threading.enumerate())


def _resident_mb() -> float:
    gc.collect()
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmRSS"))
