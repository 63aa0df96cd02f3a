"""Intents next to words: what a client is told is what the stream of understanding says of the same audio."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from served import Client, client, complete, limited, served
from shared_journal import accepted, back
from small_late import INTENTS, small_late
from told_gate import STREAM, Told
from whispertide.audio.buffer import AudioBuffer
from whispertide.events import Intent
from whispertide.server.intents import Intents
from whispertide.server.live import LiveSession
from whispertide.server.observers import Observer, Step
from whispertide.server.options import ServerOptions
from whispertide.understand.model import LateModel
from whispertide.understand.understanding import Understanding
from whispertide_lab.training.latecontext.folder import save_late

PCM = (STREAM * 32767).astype("<i2")
START = {"type": "start", "intents": True}
Heard = tuple[int, int, str | None, str, bool]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late") / "model"
    save_late(small_late(), folder)
    return folder


@pytest.fixture(autouse=True)
def cached(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(folder.parent))
    monkeypatch.setattr("whispertide.understand.understanding.SpeechGate", Told)


def with_intents(folder: Path, **changes: Any) -> ServerOptions:
    return replace(limited(), understands=folder, **changes)


def intents(one: Client) -> list[Heard]:
    return [
        (event.start, event.end, event.intent, event.text, event.final)
        for event in one.events
        if isinstance(event, Intent)
    ]


def alone(folder: Path, samples: np.ndarray[Any, Any]) -> list[Heard]:
    """What the stream says by itself."""
    stream = Understanding(LateModel.open(folder))
    said = [*stream.push(samples), *stream.finish()]
    return [(each.start, each.end, each.intent, each.text, each.final) for each in said]


LARGE = 20_000  # of a smaller portion a client may not be told that it came in, until there is something to say


async def say(one: Client, samples: np.ndarray[Any, Any], portion: int = 4_000) -> None:
    for at in range(0, len(samples), portion):
        await one.send(samples[at : at + portion].tobytes())


async def test_a_client_is_told_intents_among_its_words(folder: Path) -> None:
    async with served(with_intents(folder)) as (server, _), client(server) as one:
        hello = await one.until("hello")
        assert set(hello["intents"]) == set(INTENTS)
        await one.send(START)
        await say(one, PCM)
        await one.send({"type": "finish"})
        assert await one.rest() == 1000
    assert complete(one.events)
    assert intents(one) == alone(folder, PCM)
    assert [heard[-1] for heard in intents(one)] == [False, False, True, True]
    assert one.said("confirmed")


@pytest.mark.slow
async def test_the_address_can_ask_for_them(folder: Path) -> None:
    async with served(with_intents(folder)) as (server, _), client(server, "?intents=true") as one:
        await say(one, PCM)
        await one.send({"type": "finish"})
        await one.rest()
    assert len(intents(one)) == 4


async def test_who_does_not_ask_is_not_told(folder: Path) -> None:
    async with served(with_intents(folder)) as (server, _), client(server) as one:
        await say(one, PCM)
        await one.send({"type": "finish"})
        await one.rest()
    assert complete(one.events)
    assert not intents(one)


@pytest.mark.slow
def test_a_long_message_is_heard_in_several_steps(folder: Path) -> None:
    told: list[int] = []

    class Counts(Observer[LiveSession]):
        def told(self, live: LiveSession, step: Step) -> None:
            told.append(sum(isinstance(entry, Intent) for entry in step.entries))

    async def run() -> None:
        async with served(with_intents(folder)) as (server, hub), client(server) as one:
            hub.traces = Counts()
            await one.send(START, PCM.tobytes(), {"type": "finish"})
            await one.rest()
        assert intents(one) == alone(folder, PCM)

    asyncio.run(run())
    assert [count for count in told if count] == [1, 2, 1], "the last guess and the end are in the same half second"


async def test_a_server_without_a_network_says_so() -> None:
    async with served() as (server, _), client(server) as one:
        assert (await one.until("hello"))["intents"] == []
        await one.send(START)
        problem = await one.until("problem")
        assert problem["kind"] == "bad_setting"
        assert "intents" in problem["message"]


@pytest.mark.parametrize("value", ["yes", 1, None])
async def test_what_is_neither_true_nor_false_is_refused(folder: Path, value: object) -> None:
    async with served(with_intents(folder)) as (server, _), client(server) as one:
        await one.send({"type": "start", "intents": value})
        assert "true or false" in (await one.until("problem"))["message"]


async def test_a_flush_ends_an_utterance_and_clear_forgets_one(folder: Path) -> None:
    async with served(with_intents(folder)) as (server, _), client(server) as one:
        await one.send(START)
        await say(one, PCM[:50_000])
        await one.send({"type": "flush"})
        await one.until("flushed")
        assert [(end, final) for _, end, _, _, final in intents(one)][-1] == (50_000, True)
        told = len(intents(one))
        await say(one, PCM[50_000:66_000])
        await one.send({"type": "clear"})
        await one.until("cleared")
        await one.send({"type": "finish"})
        await one.rest()
        assert len(intents(one)) == told


@pytest.mark.slow
async def test_a_client_that_comes_back_misses_nothing(folder: Path) -> None:
    async with served(with_intents(folder)) as (server, _):
        async with client(server) as one:
            await one.send(START)
            await one.until("session")
            await say(one, PCM[:40_000], LARGE)
            await accepted(one, 40_000)
            one.socket.transport.abort()
            await one.rest()
        async with client(server, back(one)) as again:
            received = (await again.until("session"))["received"]
            await say(again, PCM[received:])
            await again.send({"type": "finish"})
            await again.rest()
    assert complete([*one.events, *again.events])
    assert [*intents(one), *intents(again)] == alone(folder, PCM)


@pytest.mark.slow
async def test_after_a_restart_the_utterance_is_heard_to_its_end(folder: Path, tmp_path: Path) -> None:
    options = with_intents(folder, journal=str(tmp_path))
    async with served(options) as (server, _), client(server) as one:
        await one.send(START)
        await one.until("session")
        await say(one, PCM[:40_000], LARGE)
        await accepted(one, 40_000)
        server.should_exit = True
        await one.rest()
    async with served(options) as (server, _), client(server, back(one)) as again:
        received = (await again.until("session"))["received"]
        await say(again, PCM[received:])
        await again.send({"type": "finish"})
        await again.rest()
    assert complete([*one.events, *again.events])
    final = [heard for heard in [*intents(one), *intents(again)] if heard[-1]]
    assert final == [heard for heard in alone(folder, PCM) if heard[-1]]


@pytest.mark.slow
def test_audio_that_the_session_let_go_of_is_missing(folder: Path) -> None:
    """What is left of the utterance is understood, at the session's positions."""
    left = AudioBuffer()
    left.clear(4_000)
    left.append(STREAM[4_000:40_000])
    told = Intents(Understanding(LateModel.open(folder)))
    told.restore(left)
    events = [*told.hear(STREAM[40_000:]), *told.end()]
    said = [event for event in events if isinstance(event, Intent) and event.final]
    first, *_ = (heard for heard in alone(folder, STREAM[4_000:]) if heard[-1])
    assert (said[0].start, said[0].end, said[0].text) == (4_000 + first[0], 4_000 + first[1], first[3])
