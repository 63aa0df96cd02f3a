"""Addresses and ports that a server listens on, and how many connections all of them may have."""

import asyncio
import socket

import pytest

from served import KnowingModel, limited
from whispertide.errors import AddressError, OptionError
from whispertide.recipes.catalogue import get_recipe
from whispertide.server import listening, serving, sockets, tcp
from whispertide.server.listening import Admission, listen
from whispertide.server.options import Address
from whispertide.server.protocols.lines import JsonLinesProtocol, TextLinesProtocol
from whispertide.server.serving import Server
from whispertide.server.tcp import TcpListener


def test_all_ports_together_have_no_more_connections_than_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (serving, tcp):
        monkeypatch.setattr(module, "raise_file_limit", lambda: 40)

    async def run() -> None:
        hub, close = serving.assemble({"nano.en": KnowingModel()}, get_recipe("tide"), limited())  # type: ignore[dict-item]
        ports = [TcpListener(hub, kind) for kind in (TextLinesProtocol, JsonLinesProtocol)]
        server = Server(hub, Address(port=0), listeners=ports)
        for one in ports:
            await one.start()
        assert [server._admission.most, *(one._admission.most for one in ports)] == [20, 10, 10]
        for one in ports:
            await one.stop()
        close()

    asyncio.run(run())


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
