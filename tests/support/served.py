"""A server on loopback for tests, with a model that knows the words, and a client of the native protocol."""

import asyncio
import json
import logging
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from fake_transcriber import FakeTranscriber
from oracle import make_gate
from whispertide.checkpoint.languages import language_code
from whispertide.errors import GraphError
from whispertide.events import Confirmed, End, Event, from_dict
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.server.hub import Hub
from whispertide.server.options import Access, Address, Limits, ServerOptions, Work
from whispertide.server.serving import Server, assemble, run_server
from whispertide.session import Session
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import FloatArray, OfflineSegment, Word
from wire_conversation import KnowingOracle, said

M = TypeVar("M", bound="KnowingModel")
T = TypeVar("T")

WORDS = said(12, pause_every=5)
SECONDS = 11.0  # of audio that has all of them
TEXT = [f"w{number}" for number in range(12)]
SILENCE = bytes(32_000)  # a second of 16-bit audio: the model does not listen, it knows
_LOGGERS = ("whispertide.server", "uvicorn", "uvicorn.error", "asyncio")
# uvicorn shows its own stack for a text frame that is no UTF-8; the client gets a close frame
_HARMLESS = ("Invalid UTF-8 sequence received from client.",)


class WatchedOracle(KnowingOracle):
    """Fails where the prompt tells it to, and takes its time."""

    def __init__(self, words: Sequence[Word], model: "KnowingModel") -> None:
        super().__init__(words, jitter=0)
        self.model = model

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        if options.prompt == "fail":
            raise GraphError("the graph decoder.onnx failed")
        if options.prompt == "defect":
            raise ZeroDivisionError("a defect")
        time.sleep(self.model.round_s)
        return super().run(plan, audio, options)


@dataclass
class KnowingModel:
    """As much of a `Transcriber` as a hub needs. `round_s` is what a round takes."""

    words: tuple[Word, ...] = WORDS
    name: str = "nano.en"
    source: str = "nano.en"
    content_hash: str = "0123"
    round_s: float = 0.0
    dims: Any = field(default_factory=lambda: SimpleNamespace(is_multilingual=False))
    tokenizer: Any = field(default_factory=lambda: SimpleNamespace(language=language_code, languages=("en",)))
    gated: bool = True
    caution: str = ""

    def can_stream(self, recipe: Recipe) -> bool:
        return recipe.framing.kind != "hush"

    def session(
        self, recipe: Recipe, *, options: DecodeOptions | None = None, vad: bool | None = None, live: bool = False
    ) -> Session:
        gate = make_gate(self.words) if self.gated and vad is not False else None
        return Session(recipe, WatchedOracle(self.words, self), gate, options=options, live=live)


@dataclass
class OfflineModel(KnowingModel):
    """Hears "word0 word1 ..." in any file, two words a second."""

    delay_s: float = 0.0

    language_of = FakeTranscriber.language_of

    def __post_init__(self) -> None:
        self.offline = FakeTranscriber(delay_s=self.delay_s, tokenizer=self.tokenizer)

    def transcribe_segments(self, audio: Any, **settings: Any) -> Iterator[OfflineSegment]:
        return self.offline.transcribe_segments(audio, **settings)


def multilingual(model: M, *languages: str) -> M:
    """The model, writing these languages."""
    model.dims.is_multilingual = True
    model.tokenizer.languages = languages
    return model


def wav(seconds: float, rate: int = 16_000, *, promised: int | None = None) -> bytes:
    data = bytes(round(seconds * rate) * 2)
    size = len(data) if promised is None else promised
    head = b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt "
    head += struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16)
    return head + b"data" + struct.pack("<I", size) + data


def sun(seconds: float) -> bytes:
    """A recording that no browser decodes."""
    pcm = bytes(round(32_000 * seconds))
    return struct.pack(">4sIIIII", b".snd", 24, len(pcm), 3, 16_000, 1) + pcm


def limited(**limits: Any) -> ServerOptions:
    return ServerOptions(limits=Limits(**limits), work=Work(degrade=False))


def keyed(*keys: str, **limits: Any) -> ServerOptions:
    return replace(limited(**limits), access=Access(keys))


def web_client(server: Server, **settings: Any) -> httpx.AsyncClient:
    """Of a server on loopback. It reads no certificates, which takes longer than most tests."""
    address = f"http://127.0.0.1:{server.port}"
    return httpx.AsyncClient(base_url=address, trust_env=False, verify=False, timeout=120, **settings)


@asynccontextmanager
async def served(
    options: ServerOptions | None = None, model: Any = None, port: int = 0
) -> AsyncIterator[tuple[Server, Hub]]:
    """A whole server in this event loop, with one model or several by name. Afterwards nothing of it is left."""
    recipe = get_recipe("whisper-streaming")
    models: dict[str, Any] = model if isinstance(model, dict) else {"nano.en": model or KnowingModel()}
    hub, close = assemble(models, recipe, options or limited())
    before = asyncio.all_tasks()
    try:
        async with run_server(hub, Address(port=port)) as server:
            yield server, hub
    finally:
        close()
    left = {task for task in asyncio.all_tasks() - before if not task.done()}
    assert not left
    assert not hub.connections


@contextmanager
def in_thread(opened: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """What it gives, which is open meanwhile in the event loop of a thread."""
    ready, stop, given = threading.Event(), threading.Event(), list[T]()

    async def hold() -> None:
        try:
            async with opened as one:
                given.append(one)
                ready.set()
                await asyncio.to_thread(stop.wait)
        finally:
            ready.set()  # also where it could not be opened

    thread = threading.Thread(target=asyncio.run, args=(hold(),))
    thread.start()
    try:
        assert ready.wait(60)
        assert given, "it could not be opened"
        yield given[0]
    finally:
        stop.set()
        thread.join(60)


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() not in _HARMLESS:
            self.found.append(self.format(record))


@contextmanager
def logged_errors() -> Iterator[list[str]]:
    """What servers in this process log as errors meanwhile."""
    errors, loggers = _Errors(), [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addHandler(errors)
    try:
        yield errors.found
    finally:
        for logger in loggers:
            logger.removeHandler(errors)


async def settled(server: Server, hub: Hub) -> None:
    """Until nobody is connected; what is left then is a leak."""
    async with asyncio.timeout(60):
        # A copy: the server may be in another thread, and sessions come and go.
        while hub.connections or server.server_state.connections or any(live.wake for live in [*hub.sessions.values()]):
            await asyncio.sleep(0.01)


class Listening(Protocol):
    """A server as its clients know it."""

    @property
    def port(self) -> int: ...


@dataclass
class Client:
    """One connection. `messages` is everything that came."""

    socket: ClientConnection
    messages: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, *messages: bytes | dict[str, Any]) -> None:
        for message in messages:
            await self.socket.send(json.dumps(message) if isinstance(message, dict) else message)

    async def until(self, *kinds: str) -> dict[str, Any]:
        """Read up to a message of one of these types."""
        async with asyncio.timeout(60):
            while True:
                message = json.loads(await self.socket.recv())
                self.messages.append(message)
                if message["type"] in kinds:
                    return dict(message)

    async def rest(self) -> int:
        """Read to the end; returns the close code."""
        with suppress(ConnectionClosed):
            async with asyncio.timeout(60):
                async for message in self.socket:
                    self.messages.append(json.loads(message))
        code = self.socket.close_code
        assert code is not None
        return code

    def said(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]

    @property
    def events(self) -> list[Event]:
        return events_of(self.messages)

    @property
    def text(self) -> list[str]:
        return text_of(self.events)


def events_of(messages: Sequence[dict[str, Any]]) -> list[Event]:
    """The session's events among the messages; the server's own have no number."""
    return [from_dict(message) for message in messages if "seq" in message and "at" in message]


def text_of(events: Sequence[Event]) -> list[str]:
    words = [word.text for event in events if isinstance(event, Confirmed) for word in event.words]
    return [word.strip(" ,.!").lower() for word in words]


def complete(events: Sequence[Event]) -> bool:
    """Whether these are all the events of a session, each once and in order."""
    return [event.seq for event in events] == list(range(len(events))) and isinstance(events[-1], End)


@asynccontextmanager
async def client(server: Listening, query: str = "", path: str = "/ws", **settings: Any) -> AsyncIterator[Client]:
    async with connect(f"ws://127.0.0.1:{server.port}{path}{query}", proxy=None, **settings) as socket:
        yield Client(socket)


async def say_everything(one: Client, *, seconds: float = SECONDS, portion: int = 16_000) -> None:
    """Send silence for all of the words, then finish."""
    total = round(seconds * 32_000)
    for start in range(0, total, portion):
        await one.send(bytes(min(portion, total - start)))
    await one.send({"type": "finish"})


@asynccontextmanager
async def bystander(server: Listening, headers: Mapping[str, str] | None = None) -> AsyncIterator[None]:
    """A session of somebody who says everything meanwhile, and must not lose a word."""
    task = asyncio.create_task(_talk(server, headers))
    try:
        yield
    finally:
        await task


async def _talk(server: Listening, headers: Mapping[str, str] | None) -> None:
    async with client(server, additional_headers=headers) as good:
        await say_every_word(good)


async def say_every_word(good: Client) -> None:
    """Talk in small pieces; no word may be lost."""
    for _ in range(22):
        await good.send(SILENCE[:16_000])
        await asyncio.sleep(0.002)
    await good.send({"type": "finish"})
    assert await good.rest() == 1000
    assert good.text == TEXT
