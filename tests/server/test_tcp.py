"""The TCP listeners on loopback: sockets of all manners, a model that knows the words."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from oracle import make_gate
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.server.hub import Hub
from whispertide.server.options import Access, Limits, ServerOptions
from whispertide.server.protocols.base import WireProtocol
from whispertide.server.protocols.lines import JsonLinesProtocol, TextLinesProtocol
from whispertide.server.protocols.wyoming import Frame, FrameReader, WyomingProtocol, encode
from whispertide.server.serving import drain, tcp_listeners
from whispertide.server.tcp import TcpListener
from whispertide.session import Session
from whispertide.types import SAMPLE_RATE, Word, join_words
from wire_conversation import KnowingOracle, said, silence

WORDS = said(9, pause_every=4)


@dataclass
class KnowingModel:
    """As much of a `Transcriber` as a hub needs."""

    words: tuple[Word, ...] = WORDS
    name: str = "nano.en"
    dims: Any = field(default_factory=lambda: SimpleNamespace(is_multilingual=False))
    tokenizer: Any = field(default_factory=lambda: SimpleNamespace(languages=("en",)))
    failing: bool = False
    caution: str = ""

    def can_stream(self, recipe: Recipe) -> bool:
        return recipe.framing.kind != "hush"

    def session(
        self, recipe: Recipe, *, options: DecodeOptions | None = None, vad: bool | None = None, live: bool = False
    ) -> Session:
        if self.failing:
            raise RuntimeError("a defect")
        return Session(recipe, KnowingOracle(self.words, jitter=0), make_gate(self.words), options=options, live=live)


@asynccontextmanager
async def serving(
    kind: type[WireProtocol],
    options: ServerOptions | None = None,
    model: KnowingModel | None = None,
    *,
    trusted: bool = False,
) -> AsyncIterator[TcpListener]:
    hub = Hub({"nano.en": model or KnowingModel()}, get_recipe("whisper-streaming"), options or ServerOptions())  # type: ignore[dict-item]
    await hub.start()
    listener = TcpListener(hub, kind, trusted=trusted)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop()
        await hub.stop()
        assert hub.connections == set()
        assert hub.sessions == {}


def limited(**limits: Any) -> ServerOptions:
    return ServerOptions(limits=Limits(**limits))


async def accepted(listener: TcpListener, samples: int) -> None:
    """Until so much audio has come in."""
    async with asyncio.timeout(60):
        while sum(live.accepted for live in listener.hub.sessions.values()) < samples:
            await asyncio.sleep(0.01)


async def read_all(reader: asyncio.StreamReader) -> str:
    async with asyncio.timeout(60):
        return (await reader.read()).decode()


def plain(text: str) -> list[str]:
    return [word.strip(" ,.!").lower() for word in text.split()]


def expected() -> list[str]:
    return plain(join_words(WORDS))


async def test_who_comes_too_often_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "whispertide.server")
    async with serving(WyomingProtocol, limited(requests=1)) as listener:
        for _ in range(2):
            reader, writer = await asyncio.open_connection(listener.host, listener.port)
            with suppress(ConnectionError):  # the second one is closed at once
                writer.write_eof()
                await read_all(reader)
            writer.close()
    told: list[Any] = [record for record in caplog.records if record.getMessage() == "refused"]
    assert [(one.protocol, one.address, one.kind) for one in told] == [("wyoming", "127.0.0.1", "too_fast")]
    assert "--max-requests" in told[0].problem


CHUNK = encode(Frame("audio-chunk", {"rate": SAMPLE_RATE, "width": 2, "channels": 1}, silence(1.2)))


@pytest.mark.parametrize(
    ("kind", "audio"),
    [(TextLinesProtocol, silence(1.2)), (JsonLinesProtocol, silence(1.2)), (WyomingProtocol, CHUNK)],
)
async def test_silence_costs_no_word(kind: type[WireProtocol], audio: bytes) -> None:
    """Nothing of it is confirmed yet when nothing more comes; the close is that of the protocol."""
    async with serving(kind, limited(idle_s=1.5)) as listener:
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        writer.write(audio)
        said = await read_all(reader)
        writer.close()
    assert "w1" in said
    assert ("a whole message within 1.5 s" in said.splitlines()[-1]) == (kind is WyomingProtocol)


def test_lines_until_the_last_word() -> None:
    async def talk() -> str:
        async with serving(TextLinesProtocol) as listener:
            reader, writer = await asyncio.open_connection(listener.host, listener.port)
            writer.write(silence(12)[:-1])
            writer.write_eof()
            text = await read_all(reader)
            writer.close()
            return text

    lines = asyncio.run(talk()).splitlines()
    assert plain(" ".join(line.split(" ", 2)[2] for line in lines)) == expected()


def test_wyoming_over_a_socket() -> None:
    async def talk() -> list[Frame]:
        async with serving(WyomingProtocol) as listener:
            reader, writer = await asyncio.open_connection(listener.host, listener.port)
            form = {"rate": SAMPLE_RATE, "width": 2, "channels": 1}
            writer.write(encode(Frame("describe")) + encode(Frame("audio-start", form)))
            for _ in range(24):
                writer.write(encode(Frame("audio-chunk", form, silence(0.5))))
                await writer.drain()
            writer.write(encode(Frame("audio-stop")))
            frames: list[Frame] = []
            parser = FrameReader()
            async with asyncio.timeout(60):
                while not frames or frames[-1].type != "transcript-stop":
                    frames += parser.feed(await reader.read(4096))
            writer.close()
            await writer.wait_closed()
            return frames

    frames = asyncio.run(talk())
    assert frames[0].type == "info"
    assert plain(frames[-2].data["text"]) == expected()


def test_many_at_once_do_not_disturb_each_other() -> None:
    async def one(listener: TcpListener, number: int) -> str:
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        if number % 3 == 0:  # rude: goes away in the middle
            writer.write(silence(2))
            await writer.drain()
            writer.transport.abort()
            return ""
        audio = silence(12)
        for at in range(0, len(audio), 40_001):
            writer.write(audio[at : at + 40_001])
            await writer.drain()
        writer.write_eof()
        text = await read_all(reader)
        writer.close()
        return text

    async def talk() -> list[str]:
        async with serving(TextLinesProtocol) as listener:
            texts = await asyncio.gather(*(one(listener, number) for number in range(9)))
            for _ in range(100):
                if not listener.hub.connections:
                    break
                await asyncio.sleep(0.02)
            return texts

    for text in filter(None, asyncio.run(talk())):
        assert plain(" ".join(line.split(" ", 2)[2] for line in text.splitlines())) == expected()


def test_the_last_words_arrive_although_there_is_input_left() -> None:
    """A session at its limit: the server closes while the client still sends."""

    async def talk() -> str:
        async with serving(TextLinesProtocol, limited(session_s=12)) as listener:
            reader, writer = await asyncio.open_connection(listener.host, listener.port)
            writer.write(silence(14))
            text = await read_all(reader)
            writer.close()
            return text

    text = asyncio.run(talk())
    assert plain(" ".join(line.split(" ", 2)[2] for line in text.splitlines())) == expected()


def test_garbage_is_answered_and_the_server_lives() -> None:
    async def talk() -> str:
        async with serving(WyomingProtocol) as listener:
            for rubbish in (b"\n", b"\xff" * 100_000, b'{"type":"audio-chunk","payload_length":1e99}\n'):
                reader, writer = await asyncio.open_connection(listener.host, listener.port)
                writer.write(rubbish)
                assert "error" in await read_all(reader)
                writer.close()
            reader, writer = await asyncio.open_connection(listener.host, listener.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            text = await read_all(reader)
            writer.close()
            return text

    text = asyncio.run(talk())
    assert "expected a JSON object" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    "frame",
    [
        Frame("run-pipeline"),
        Frame("transcribe", {"language": "en"}),
        Frame("audio-start", {"rate": 16_000, "width": 2, "channels": 1}),
        Frame("audio-chunk", {"rate": 16_000, "width": 2, "channels": 1}),
    ],
    ids=lambda frame: frame.type,
)
def test_frames_that_lead_to_nothing_count_as_messages(frame: Frame) -> None:
    async def talk() -> str:
        async with serving(WyomingProtocol, limited(messages=1)) as listener:
            reader, writer = await asyncio.open_connection(listener.host, listener.port)
            with suppress(OSError):  # the server may close before it has all of them
                writer.write(encode(frame) * 1000)
                writer.write_eof()
            text = await read_all(reader)
            writer.close()
            return text

    assert "expected at most 1 messages a second" in asyncio.run(talk())


async def test_a_client_that_resets_is_forgotten() -> None:
    async with serving(JsonLinesProtocol) as listener:
        raw = socket.create_connection((listener.host, listener.port))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.sendall(silence(1))
        await accepted(listener, SAMPLE_RATE)
        raw.close()
        async with asyncio.timeout(60):
            while listener.hub.connections:
                await asyncio.sleep(0.02)


async def test_one_connection_too_many_and_one_session_too_many() -> None:
    async with serving(WyomingProtocol, limited(connections=1)) as listener:
        reader, first = await asyncio.open_connection(listener.host, listener.port)
        first.write(encode(Frame("describe")))  # else it would give way to the second
        await reader.read(10)
        reader, second = await asyncio.open_connection(listener.host, listener.port)
        assert await read_all(reader) == ""
        first.close()
        second.close()
        async with asyncio.timeout(60):
            while listener.hub.connections:
                await asyncio.sleep(0.02)
    async with serving(WyomingProtocol, limited(sessions=1)) as listener:
        stop = encode(Frame("audio-stop"))
        reader, first = await asyncio.open_connection(listener.host, listener.port)
        first.write(stop)
        await reader.read(10)
        reader, second = await asyncio.open_connection(listener.host, listener.port)
        second.write(stop)
        assert "overloaded" in await read_all(reader)
        first.close()
        second.close()
        async with asyncio.timeout(60):
            while listener.hub.connections:
                await asyncio.sleep(0.02)


def test_where_keys_are_asked_for_only_this_machine_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ServerOptions(access=Access(keys=("a-long-key",)))

    async def answer(trusted: bool, local: bool) -> str:
        async with serving(WyomingProtocol, options) as listener:
            listener.trusted = trusted
            monkeypatch.setattr("whispertide.server.tcp.is_loopback", lambda address: local)
            reader, writer = await asyncio.open_connection(listener.host, listener.port)
            writer.write(encode(Frame("ping", {"text": "x"})))
            try:
                async with asyncio.timeout(60):
                    said = (await reader.read(4096)).decode()
            except ConnectionResetError:  # nobody reads what a stranger sends
                said = ""
            writer.close()
            await asyncio.sleep(0.05)
            return said

    assert "pong" in asyncio.run(answer(trusted=False, local=True))
    assert "pong" in asyncio.run(answer(trusted=True, local=False))
    assert asyncio.run(answer(trusted=False, local=False)) == ""


def test_who_is_kept_out_is_in_the_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Seen through a container's network everybody is another machine: somebody has to say why nothing works."""
    monkeypatch.setattr("whispertide.server.tcp.is_loopback", lambda address: False)

    async def knock(options: ServerOptions, trusted: bool) -> list[str]:
        caplog.clear()
        async with serving(WyomingProtocol, options, trusted=trusted) as listener:
            for _ in range(3):
                reader, writer = await asyncio.open_connection(listener.host, listener.port)
                with suppress(ConnectionError):  # nobody reads what a stranger sends
                    writer.write_eof()
                    assert await read_all(reader) == ""
                writer.close()
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    keyed = ServerOptions(access=Access(keys=("a-long-key",)))
    assert asyncio.run(knock(keyed, trusted=False)) == ["only this machine is served", "refused"]
    assert "--trust-network" in caplog.records[-1].problem  # type: ignore[attr-defined]
    assert caplog.records[-1].address == "127.0.0.1"  # type: ignore[attr-defined]
    assert asyncio.run(knock(keyed, trusted=True)) == []
    assert asyncio.run(knock(ServerOptions(), trusted=False)) == []


def test_the_ports_that_were_asked_for() -> None:
    hub = Hub({"nano.en": KnowingModel()}, get_recipe("whisper-streaming"), ServerOptions())  # type: ignore[dict-item]
    ports = {"wyoming": 10_300, "lines": None, "json-lines": 0}
    for trusted in (False, True):
        found = tcp_listeners(hub, "::1", ports, trusted=trusted)
        assert [(one.protocol.name, one.host, one.port, one.trusted) for one in found] == [
            ("wyoming", "::1", 10_300, trusted),
            ("json-lines", "::1", 0, trusted),
        ]


async def test_a_defect_costs_one_connection() -> None:
    async with serving(TextLinesProtocol, model=KnowingModel(failing=True)) as listener:
        for _ in range(2):
            reader, writer = await asyncio.open_connection(listener.host, listener.port)
            assert await read_all(reader) == ""
            writer.close()


def test_draining_gives_every_client_its_words() -> None:
    async def talk() -> str:
        async with serving(TextLinesProtocol) as listener:
            reader, writer = await asyncio.open_connection(listener.host, listener.port)
            writer.write(silence(12))
            await accepted(listener, 12 * SAMPLE_RATE)
            await drain(listener.hub)
            text = await read_all(reader)
            writer.close()
            return text

    text = asyncio.run(talk())
    assert plain(" ".join(line.split(" ", 2)[2] for line in text.splitlines())) == expected()


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with serving(TextLinesProtocol) as listener:
        with pytest.raises(OSError, match="in use"):
            await replace(listener, _servers=[], _tasks=set()).start()
