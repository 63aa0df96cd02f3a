"""Who only connects: counted from the first moment, by address, and cut off where there are too many."""

import asyncio
import errno
import logging
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from served import KnowingModel, limited, served
from whispertide.errors import AddressError, OptionError
from whispertide.server import listening, serving, sockets
from whispertide.server.listening import Admission, Listener, listen
from whispertide.server.options import Address
from whispertide.server.protocols.lines import TextLinesProtocol
from whispertide.server.tcp import TcpListener
from whispertide.streaming.recipes import get_recipe


def test_counting() -> None:
    admission = Admission(most=3, per_address=2)
    assert [admission.enter("a") for _ in range(3)] == [True, True, False]
    assert [admission.enter("b") for _ in range(2)] == [True, False]
    admission.leave("a")
    assert admission.enter("b")
    assert admission.open == {"a": 1, "b": 2}
    assert all(Admission(most=1000).enter("a") for _ in range(1000))


async def silent(port: int, count: int) -> list[socket.socket]:
    """Connections that say nothing."""
    loop, made = asyncio.get_running_loop(), []
    for _ in range(count):
        one = socket.socket()
        one.setblocking(False)
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


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_silent_connections_of_one_address_leave_room(
    tls: bool, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Unfinished handshakes count as well, end soon, and leave no line in the log."""
    monkeypatch.setattr(serving, "HANDSHAKE_S", 1.0)
    address = Address(port=0, certificate=certificate[0], key=certificate[1]) if tls else None
    models: dict[str, Any] = {"nano.en": KnowingModel()}

    async def run() -> None:
        hub, close = serving.assemble(models, get_recipe("tide"), limited(per_address=20, stall_s=1.0))
        async with serving.running(hub, address) as server:
            before = await silent(server.port, 50)
            assert alive(before) == 20
            async with asyncio.timeout(60):
                while alive(before):  # nobody waits for them for long
                    await asyncio.sleep(0.1)
            async with httpx.AsyncClient(verify=False, trust_env=False) as web:
                answer = await web.get(f"{'https' if tls else 'http'}://127.0.0.1:{server.port}/healthz")
                assert answer.status_code == 200
            for one in before:
                one.close()
        close()

    caplog.set_level(logging.INFO)
    asyncio.run(run())
    assert len(caplog.records) < 20


async def test_servers_that_start_at_once(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """In one event loop: each has its own limit for handshakes, and the loop is as it was."""
    monkeypatch.setattr(serving, "HANDSHAKE_S", 1.0)
    models: dict[str, Any] = {"nano.en": KnowingModel()}
    address = Address(port=0, certificate=certificate[0], key=certificate[1])

    async def one() -> None:
        hub, close = serving.assemble(models, get_recipe("tide"), limited())
        async with serving.running(hub, address) as server:
            (connection,) = await silent(server.port, 1)
            async with asyncio.timeout(60):
                while alive([connection]):
                    await asyncio.sleep(0.1)
            connection.close()
        close()

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
            assert alive(connections) == 10
            for one in connections:
                one.close()

    asyncio.run(run())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_tcp_ports_count_too() -> None:
    async with served(limited(per_address=3)) as (_, hub):
        listener = TcpListener(hub, TextLinesProtocol)
        connections = await silent(await listener.start(), 8)
        assert alive(connections) == 3
        for one in connections:
            one.close()
        await listener.stop()


def test_a_port_is_the_same_on_every_address_and_taken_only_once() -> None:
    found = listen("localhost", 0, Admission(10))
    try:
        ports = {one.getsockname()[1] for one in found}
        assert len(ports) == 1
        for one in found:
            one.listen()
        with pytest.raises(OSError, match="in use"):
            listen("127.0.0.1", ports.pop(), Admission(10))
    finally:
        for one in found:
            one.close()


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

    bound = listening._bound
    monkeypatch.setattr(listening, "_bound", bind)
    found = listen("localhost", 0, Admission(10))
    ports = {one.getsockname()[1] for one in found}
    for one in found:
        one.close()
    assert (len(tried), len(found), ports) == (4, 2, {tried[3]})
    tried.clear()
    with pytest.raises(OSError, match="in use"):
        listen("localhost", ports.pop(), Admission(10))
    assert len(tried) == 2, "another port is not what was asked for"


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize(
    "gone",
    [(socket.AF_INET6, ("2001:db8::1", 0, 0, 0)), (9999, ("::1", 0, 0, 0))],
    ids=["no address of it", "not in the kernel"],
)
def test_a_name_of_which_not_every_address_is_here(
    gone: tuple[int, tuple[object, ...]], first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A family that is switched off, and one address twice: both where it listens and where that is tried before."""
    here = [(family, socket.SOCK_STREAM, 6, "", place) for family, place in [(socket.AF_INET, ("127.0.0.1", 0))] * 2]
    away = [(gone[0], socket.SOCK_STREAM, 6, "", gone[1])]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [*away, *here] if first else [*here, *away])
    (one,) = listen("localhost", 0, Admission(1))
    port = one.getsockname()[1]
    one.close()
    serving.check_ports("localhost", {"--port": port})
    with pytest.raises(AddressError, match="choose another --lines-port"):
        serving.check_ports("localhost", {"--port": port, "--lines-port": port})


def test_the_limit_of_files_is_raised() -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[0]), before[1]))
    try:
        room = listening.raise_file_limit()
        assert room + 128 == resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(512, before[0])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_another_uvicorn_is_refused() -> None:
    sockets.check_hooks()
    with pytest.raises(OptionError, match=r"lacks int\.handle_ping"):
        sockets.check_hooks({int: ("real", "handle_ping")})
