"""The announcement of the Wyoming port: who finds it, and that it goes with the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ifaddr
import pytest
from typer.testing import CliRunner
from zeroconf.asyncio import AsyncServiceBrowser, AsyncZeroconf

from served import KnowingModel
from whispertide.cli.main import app
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.discovery import SERVICE, Announcement, reachable
from whispertide.server.hub import Hub
from whispertide.server.options import Address, ServerOptions
from whispertide.server.protocols.wyoming import WyomingProtocol
from whispertide.server.serving import Server, announce, tcp_listeners
from whispertide.server.tcp import TcpListener


def hub() -> Hub:
    model: Any = KnowingModel()
    return Hub({"nano.en": model}, get_recipe("whisper-streaming"), ServerOptions())


@asynccontextmanager
async def looking() -> AsyncIterator[dict[str, str]]:
    """What is announced to this machine: the name of each service, and what happened to it last."""
    seen: dict[str, str] = {}

    def note(zeroconf: Any, service_type: str, name: str, state_change: Any) -> None:
        seen[name] = state_change.name

    async with AsyncZeroconf(["127.0.0.1"]) as network:
        browser = AsyncServiceBrowser(network.zeroconf, SERVICE, handlers=[note])
        yield seen
        await browser.async_cancel()


async def until(seen: dict[str, str], name: str, state: str) -> None:
    async with asyncio.timeout(30):
        while seen.get(name) != state:
            await asyncio.sleep(0.02)


@pytest.mark.slow  # a name is asked for before it is taken
async def test_others_find_the_port_while_the_server_runs() -> None:
    served = hub()
    listeners = tcp_listeners(served, "127.0.0.1", {"wyoming": 0, "lines": 0})
    announced = announce("Kitchen", listeners)
    server = Server(served, Address(port=0), listeners=listeners, announced=announced)
    name = f"Kitchen.{SERVICE}"
    async with looking() as seen:
        running = asyncio.create_task(server.serve())
        await until(seen, name, "Added")
        async with AsyncZeroconf(["127.0.0.1"]) as other:
            found = await other.async_get_service_info(SERVICE, name)
        assert found is not None
        assert (found.port, found.parsed_addresses()) == (listeners[0].port, ["127.0.0.1"])
        server.should_exit = True
        await running
        await until(seen, name, "Removed")


async def test_a_network_that_takes_no_announcement_costs_only_that(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no multicast here")

    monkeypatch.setattr("whispertide.server.discovery.AsyncZeroconf", refuse)
    listener = TcpListener(hub(), WyomingProtocol)
    await listener.start()
    announced = Announcement(listener, "Kitchen")
    await announced.start()
    assert "cannot be announced" in caplog.text
    await announced.stop()
    await listener.stop()


def test_what_listens_everywhere_is_announced_where_others_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ips = ["127.0.0.1", "192.168.1.7", "169.254.3.4", ("::1", 0, 0), ("fe80::1", 0, 2), ("2001:db8::7", 0, 0)]
    made = [SimpleNamespace(ip=ip, is_IPv4=isinstance(ip, str)) for ip in ips]
    monkeypatch.setattr(ifaddr, "get_adapters", lambda: [SimpleNamespace(ips=made)])
    assert reachable(["0.0.0.0"]) == ["192.168.1.7", "2001:db8::7"]
    assert reachable(["::"]) == ["192.168.1.7", "2001:db8::7"]
    assert reachable(["192.168.1.7"]) == ["192.168.1.7"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--no-api-keys"], "expected --wyoming-port next to --zeroconf"),
        (["--wyoming-port", "0", "--host", "127.0.0.1"], "expected a --host that other machines can reach"),
        (["--wyoming-port", "0", "--api-keys", "keys"], "expected --trust-network for --zeroconf"),
    ],
)
def test_what_nobody_could_use_is_not_announced(
    options: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keys").write_text("a-secret-key")
    result = CliRunner().invoke(app, ["serve", "--zeroconf", "Kitchen", "--host", "0.0.0.0", *options])
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr
