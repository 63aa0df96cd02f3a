"""Clients that send too much: they get an end that says why, and nobody else notices. See also `test_slow_clients`."""

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from served import SILENCE, client, keyed, limited, served, web_client
from standing_server import (
    OPENING,
    PORTS,
    SOCKETS,
    Standing,
    connected,
    every_socket,
    frame,
    raw_socket,
    standing,
    until_closed,
)
from whispertide.server.access import AccessControl, Authenticator
from whispertide.server.floods import _NAMES, Floods
from whispertide.server.http_error import HttpError
from whispertide.server.listening import Admission, listen
from whispertide.server.protocols.wyoming import Frame, WyomingProtocol, encode
from whispertide.server.tcp import TcpListener

IDLE_S, STALL_S = 10, 1.5  # so long that a busy machine alone does not make a client late
TEXTS_PER_S = 20


@pytest.fixture(scope="module")
def town() -> Iterator[Standing]:
    limits = limited(idle_s=IDLE_S, stall_s=STALL_S, resume_s=0.3, messages=TEXTS_PER_S, message=2**18, connections=40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whispertide.server.sockets._CLOSE_S", 0.2)  # nobody here answers a close frame
        with standing(limits) as town:
            yield town


# --- coming back -----------------------------------------------------------------------------------------------------


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_who_flooded_waits_longer_each_time_but_not_for_ever() -> None:
    clock = Clock()
    floods, waited = Floods(clock=clock), []
    for _ in range(40):
        floods.closed("a")
        waited.append(floods.wait_s("a"))
        clock.now += waited[-1]
        assert floods.wait_s("a") == 0
    assert waited[:6] == [2, 4, 8, 16, 32, 32]
    assert max(waited) == 32
    assert floods.wait_s("b") == 0
    clock.now += 60
    floods.closed("a")
    assert floods.wait_s("a") == 2, "long ago"


def test_floods_of_one_key_are_nobody_elses() -> None:
    """Behind a proxy the key alone tells who it was; where there is none, all would wait, so nobody does."""
    floods, behind = Floods(clock=Clock()), Floods(by_address=False, clock=Clock())
    for one in (floods, behind):
        one.closed("a", "ann")
    names = [("a", "ann"), ("b", "ann"), ("a", "bob"), ("a", "")]
    assert [floods.wait_s(*name) > 0 for name in names] == [True, False, False, False]
    assert [behind.wait_s(*name) > 0 for name in names] == [True, True, False, False]
    behind.closed("a")
    assert behind.wait_s("a") == 0


def test_memory_of_floods_has_an_end() -> None:
    floods = Floods(clock=Clock())
    for number in range(_NAMES + 100):
        floods.closed(f"party {number}")
    assert len(floods._floods) == _NAMES


@pytest.mark.parametrize("per_address", [256, 0])
def test_a_key_that_flooded_is_told_to_wait(per_address: int) -> None:
    options, clock = keyed("key-of-ann", "key-of-bob", per_address=per_address), Clock()
    access = AccessControl(Authenticator(options.access), options, clock, floods := Floods(bool(per_address), clock))

    def ask(key: str, address: str, protocol: str = "native") -> HttpError | None:
        try:
            access.check({"authorization": key}, {}, (), address, protocol=protocol)
        except HttpError as error:
            return error
        return None

    ann = access.check({"authorization": "key-of-ann"}, {}, protocol="native").owner
    floods.closed("2001:db8::/64", ann)
    refused = ask("key-of-ann", "2001:db8::7")
    assert refused is not None
    assert (refused.status, refused.headers["retry-after"], refused.code) == (429, "2", "too_fast")
    assert ask("key-of-bob", "2001:db8::7") is None
    assert (ask("key-of-ann", "192.0.2.1") is None) == bool(per_address)
    assert ask("key-of-ann", "2001:db8::7", protocol="") is None, "by HTTP it may"
    clock.now += 2
    assert ask("key-of-ann", "2001:db8::7") is None


async def test_who_floods_over_tcp_is_let_in_again_later() -> None:
    """Until then a connection is closed as it comes; what is open stays."""
    clock = Clock()
    async with served() as (_, hub):
        hub.floods.clock = clock
        listener = TcpListener(hub, WyomingProtocol)
        port = await listener.start()

        async def ask(times: int) -> bytes:
            reader, writer = await connected(port)
            writer.write(encode(Frame("describe")) * times)
            said = await until_closed(reader) if times > 1 else await first_of(reader)
            writer.transport.abort()
            return said

        open_reader, open_writer = await connected(port)
        open_writer.write(encode(Frame("ping")))
        assert b"pong" in await open_reader.readline()
        assert b"expected at most 50 messages a second" in await ask(1000)
        assert [await ask(1) for _ in range(70)] == [b""] * 70
        assert listener._admission.turned_away == 70
        open_writer.write(encode(Frame("describe")))
        assert b'"info"' in await open_reader.readline()
        clock.now += 2
        assert b'"info"' in await ask(1)
        open_writer.close()
        await listener.stop()


async def first_of(reader: asyncio.StreamReader) -> bytes:
    """What comes first; nothing where it is closed."""
    try:
        async with asyncio.timeout(60):
            return await reader.read(2**16)
    except ConnectionError:
        return b""


async def test_many_who_wait_are_turned_away_a_few_in_a_turn() -> None:
    admission = Admission(1000, wait_s=lambda _: 1.0)
    (listener,) = listen("127.0.0.1", 0, admission)
    listener.listen(100)
    made = [socket.create_connection(listener.getsockname()) for _ in range(50)]
    for turned_away in (32, 50):
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert admission.turned_away == turned_away
    for one in (listener, *made):
        one.close()


@pytest.mark.parametrize("flood", [frame(9, b"") * 1000, frame(1, b"{}") * 1000], ids=["pings", "texts"])
async def test_who_floods_a_websocket_is_let_in_again_later(flood: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.server.sockets._CLOSE_S", 0.2)
    async with served() as (server, hub):
        hub.floods.clock = clock = Clock()
        reader, writer = await raw_socket(server.port)
        writer.write(flood)
        assert b"expected at most 50" in await until_closed(reader)
        writer.transport.abort()
        assert hub.floods.wait_s("127.0.0.1") == 2
        async with web_client(server) as web:
            assert (await web.get("/healthz")).status_code == 200
        with pytest.raises(InvalidStatus) as refused:
            async with client(server):
                pass
        assert (refused.value.response.status_code, refused.value.response.headers["retry-after"]) == (429, "2")
        clock.now += 2
        async with client(server) as one:
            await one.until("hello")


# --- floods ----------------------------------------------------------------------------------------------------------


@every_socket
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


@every_socket
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
