"""Who only connects: counted from the first moment, by address, and cut off where there are too many."""

import asyncio
import errno
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from served import TEXT, KnowingModel, client, limited, say_everything, served, web_client
from whispertide.recipes.catalogue import get_recipe
from whispertide.server import listening, serving
from whispertide.server.listening import Admission, Listener, listen
from whispertide.server.options import Address, ServerOptions
from whispertide.server.protocols.lines import TextLinesProtocol
from whispertide.server.serving import Server
from whispertide.server.tcp import TcpListener


def test_counting() -> None:
    admission = Admission(most=3, per_address=2)

    def enter(address: str, port: int) -> bool:
        entered = admission.enter((address, port))
        admission.at_work((address, port))
        return entered

    assert [enter("a", port) for port in range(3)] == [True, True, False]
    assert [enter("b", port) for port in range(2)] == [True, False]
    admission.leave(("a", 0))
    assert enter("b", 2)
    assert admission.open == {"a": 1, "b": 2}
    assert all(Admission(most=1000).enter(("a", port)) for port in range(1000))


def test_who_says_nothing_gives_way_to_who_comes_next() -> None:
    """The one that has been idle for longest, of whoever has most."""
    admission, shut = Admission(most=6), list[tuple[str, int]]()

    def enter(address: str, port: int) -> bool:
        return admission.enter((address, port), lambda: shut.append((address, port)))

    for port in range(4):
        assert enter("many", port)
    assert enter("few", 0)
    assert enter("few", 1)
    admission.at_work(("many", 0))
    assert enter("new", 0)
    assert enter("new", 1)
    assert shut == [("many", 1), ("many", 2)]
    for peer in (("many", 3), ("few", 0), ("few", 1), ("new", 0), ("new", 1)):
        admission.at_work(peer)
    assert not enter("new", 2), "all are at work"
    admission.wait(("few", 0))
    assert enter("new", 2)
    assert shut[-1] == ("few", 0)
    admission.leave(("few", 0))  # the socket is closed, and was counted as closed before
    assert admission.open == {"many": 2, "few": 1, "new": 3}
    assert len(shut) == 3


def test_silent_connections_of_one_address_keep_out_nobody_else_there() -> None:
    admission = Admission(most=100, per_address=3)
    assert all(admission.enter(("a", port)) for port in range(50))
    assert admission.open == {"a": 3}


def test_a_network_of_ipv6_is_one_address() -> None:
    admission = Admission(most=100, per_address=3)
    for host in range(20):
        peer = (f"2001:db8::{host:x}", host, 0, 0)
        admission.enter(peer)
        admission.at_work(peer)
    assert admission.open == {"2001:db8::/64": 3}


@given(st.lists(st.tuples(st.sampled_from("ewli"), st.sampled_from("ab"), st.integers(0, 5)), max_size=60))
def test_places_are_counted_whatever_happens(steps: list[tuple[str, str, int]]) -> None:
    """Never more than there are, and as many as were let in and have neither left nor given way."""
    admission, inside = Admission(most=5, per_address=4), set[tuple[str, int]]()
    for step, address, port in steps:
        peer = (address, port)
        if step == "e" and peer not in inside:
            if admission.enter(peer, partial(inside.discard, peer)):
                inside.add(peer)
        elif step == "w":
            admission.at_work(peer)
        elif step == "i":
            admission.wait(peer)
        elif step == "l":
            admission.leave(peer)
            inside.discard(peer)
        assert admission.open == Counter(address for address, _ in inside)
        assert len(inside) <= 5
    for peer in list(inside):
        admission.leave(peer)
    assert (admission.open, admission._idle, admission._busy) == ({}, {}, {})


async def test_who_comes_as_the_server_stops_is_not_dropped() -> None:
    admission, handled = Admission(10), list[asyncio.StreamWriter]()
    (listener,) = listen("127.0.0.1", 0, admission)
    server = await asyncio.start_server(lambda _, writer: handled.append(writer), sock=listener)
    with socket.create_connection(listener.getsockname()):
        while not admission.open:
            await asyncio.sleep(0)
        assert not handled, "it is accepted, and no more"
        await admission.end()
        server.close()
        assert len(handled) == 1
        handled[0].close()
        await handled[0].wait_closed()
    assert not admission.open


MADE: list[socket.socket] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Also where a test fails, or the last of all tests would be told of open sockets."""
    yield
    while MADE:
        MADE.pop().close()


async def silent(port: int, count: int) -> list[socket.socket]:
    """Connections that say nothing."""
    loop, made = asyncio.get_running_loop(), []
    for _ in range(count):
        one = socket.socket()
        one.setblocking(False)
        MADE.append(one)
        await loop.sock_connect(one, ("127.0.0.1", port))
        made.append(one)
    await asyncio.sleep(0.2)
    return made


def alive(connections: Sequence[socket.socket]) -> int:
    """How many of them the other side has not closed."""
    count = 0
    for one in connections:
        try:
            count += one.recv(1) != b""
        except BlockingIOError:
            count += 1
        except OSError:
            pass
    return count


async def left_alive(connections: Sequence[socket.socket], most: int) -> bool:
    """Whether so many are, and no fewer a little later."""
    async with asyncio.timeout(60):
        while alive(connections) > most:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.02)
    return alive(connections) == most


@asynccontextmanager
async def waiting_for(address: Address | None, limits: ServerOptions) -> AsyncIterator[Server]:
    """A server at this address, by TLS where that has a certificate."""
    hub, close = serving.assemble({"nano.en": KnowingModel()}, get_recipe("tide"), limits)  # type: ignore[dict-item]
    try:
        async with serving.run_server(hub, address) as server:
            yield server
    finally:
        close()


@pytest.fixture(params=[False, True], ids=["plain", "TLS"])
def address(request: pytest.FixtureRequest, certificate: tuple[Path, Path]) -> Address | None:
    return Address(port=0, certificate=certificate[0], key=certificate[1]) if request.param else None


def test_silent_connections_of_one_address_leave_room(
    address: Address | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Unfinished handshakes count as well. None of those that stay ends meanwhile: its time is not over."""
    monkeypatch.setattr(serving, "HANDSHAKE_S", 600.0)

    async def run() -> None:
        async with waiting_for(address, limited(per_address=20, stall_s=600)) as server:
            before = await silent(server.port, 50)
            assert await left_alive(before, 20)
            async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as web:
                answer = await web.get(f"{'https' if address else 'http'}://127.0.0.1:{server.port}/healthz")
                assert answer.status_code == 200
            for one in before:
                one.close()

    caplog.set_level(logging.INFO)
    asyncio.run(run())
    assert len(caplog.records) < 20


def test_nobody_waits_long_for_silent_connections(
    address: Address | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor for an unfinished handshake. That they end leaves no line in the log."""
    monkeypatch.setattr(serving, "HANDSHAKE_S", 0.1)

    async def run() -> None:
        async with waiting_for(address, limited(stall_s=0.1)) as server:
            connections = await silent(server.port, 20)
            async with asyncio.timeout(60):
                while alive(connections):
                    await asyncio.sleep(0.01)

    caplog.set_level(logging.INFO)
    asyncio.run(run())
    assert len(caplog.records) < 20


@asynccontextmanager
async def crowded(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> AsyncIterator[Server]:
    """A server with eight sockets, of which four are for protocols."""
    monkeypatch.setattr(serving, "_PLAIN", 4)
    async with served(limited(connections=4, per_address=0, viewers=0, **limits), KnowingModel()) as (server, _):
        yield server


async def health(server: Server) -> int:
    async with web_client(server) as web:
        return (await web.get("/healthz")).status_code


async def healthy(server: Server) -> None:
    """Wait for it: until the server has looked at what the others sent, they are at work."""
    async with asyncio.timeout(60):
        while True:
            with suppress(httpx.TransportError):
                assert await health(server) == 200
                return
            await asyncio.sleep(0.05)


SILENT = {
    "nothing": b"",
    "half a head": b"GET /healthz HTTP/1.1\r\nHost: loc",
    "between two requests": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a wrong path": b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a head of another body": b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
}


@pytest.mark.parametrize("said", SILENT.values(), ids=SILENT.keys())
async def test_a_place_that_nothing_happens_on_is_given_to_who_comes(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: nobody waits until a silent one's time is over."""
    async with crowded(monkeypatch, stall_s=600) as server:
        taken = await silent(server.port, 8)
        for one in taken:
            one.send(said)
        await healthy(server)
        async with asyncio.timeout(60), client(server) as talk:
            await talk.until("hello")
            await healthy(server)
        for one in taken:
            one.close()


async def test_who_talks_keeps_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    async with crowded(monkeypatch, stall_s=600) as server, AsyncExitStack() as talks:
        speaking = [await talks.enter_async_context(client(server)) for _ in range(4)]
        for one in speaking:
            await one.until("hello")
        taken = await silent(server.port, 20)
        assert await health(server) == 200
        for talk in speaking:
            await say_everything(talk)
            assert await talk.rest() == 1000
            assert talk.text == TEXT
        for held in taken:
            held.close()


async def test_who_only_connects_to_a_tcp_port_gives_way() -> None:
    async with served(limited(connections=4, per_address=0, idle_s=600)) as (_, hub):
        listener = TcpListener(hub, TextLinesProtocol)
        port = await listener.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(bytes(32_000))
        while not hub.sessions or not any(live.accepted for live in hub.sessions.values()):
            await asyncio.sleep(0.005)
        later = await silent(port, 12)
        assert await left_alive(later, 3)
        assert not reader.at_eof(), "it has spoken"
        for one in later:
            one.close()
        writer.close()
        await listener.stop()


async def test_servers_that_start_at_once(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """In one event loop: each has its own limit for handshakes, and the loop is as it was."""
    monkeypatch.setattr(serving, "HANDSHAKE_S", 0.1)
    address = Address(port=0, certificate=certificate[0], key=certificate[1])

    async def one() -> None:
        async with waiting_for(address, limited()) as server:
            (connection,) = await silent(server.port, 1)
            async with asyncio.timeout(60):
                while alive([connection]):
                    await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(one())
    assert "create_server" not in vars(asyncio.get_running_loop())


def test_more_connections_than_files(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Where a process may open few files, fewer connections are let in: it never runs out of them."""
    monkeypatch.setattr(serving, "raise_file_limit", lambda: 10)

    async def run() -> None:
        async with served(limited(per_address=0)) as (server, _):
            connections = await silent(server.port, 40)
            assert await left_alive(connections, 10)
            for one in connections:
                one.close()

    asyncio.run(run())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_tcp_ports_count_too() -> None:
    async with served(limited(per_address=3)) as (_, hub):
        listener = TcpListener(hub, TextLinesProtocol)
        connections = await silent(await listener.start(), 8)
        assert await left_alive(connections, 3)
        for one in connections:
            one.close()
        await listener.stop()


def test_a_port_that_is_free_on_one_address_alone_is_not_any_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    here = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: here)
    tried: list[int] = []

    def bind(one: Listener, place: tuple[Any, ...]) -> Listener:
        tried.append(place[1])
        if len(tried) == 2:
            one.close()
            raise OSError(errno.EADDRINUSE, "Address already in use")
        return bound(one, place)

    bound = listening._bind
    monkeypatch.setattr(listening, "_bind", bind)
    found = listen("localhost", 0, Admission(10))
    ports = {one.getsockname()[1] for one in found}
    for one in found:
        one.close()
    assert (len(tried), len(found), ports) == (4, 2, {tried[3]})
    tried.clear()
    with pytest.raises(OSError, match="in use"):
        listen("localhost", ports.pop(), Admission(10))
    assert len(tried) == 2, "another port is not what was asked for"
