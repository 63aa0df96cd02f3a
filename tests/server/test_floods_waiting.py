"""Who flooded waits before the server lets it in again."""

import asyncio
import socket

import pytest
from websockets.exceptions import InvalidStatus

from served import client, keyed, served, web_client
from standing_server import connected, frame, raw_socket, until_closed
from whispertide.server.access import AccessControl, Authenticator
from whispertide.server.floods import Floods
from whispertide.server.http_error import HttpError
from whispertide.server.listening import Admission, listen
from whispertide.server.protocols.wyoming import Frame, WyomingProtocol, encode
from whispertide.server.recent import MOST
from whispertide.server.tcp import TcpListener


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
    for number in range(MOST + 100):
        floods.closed(f"party {number}")
    assert len(floods._floods) == MOST


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
    asked = list[str]()

    def wait_s(party: str) -> float:
        asked.append(party)
        return 1.0

    admission = Admission(1000, wait_s=wait_s)
    (listener,) = listen("127.0.0.1", 0, admission)
    listener.listen(100)
    made = [socket.create_connection(listener.getsockname()) for _ in range(50)]
    for turned_away in (32, 50):
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert len(asked) == turned_away
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
