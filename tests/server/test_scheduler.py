"""Turns are fair, lateness is told, quality falls and comes back, and a slow session holds up nobody."""

import asyncio
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from oracle import make_gate
from served import (
    SECONDS,
    SILENCE,
    TEXT,
    KnowingModel,
    WatchedOracle,
    client,
    complete,
    limited,
    say_everything,
    served,
    text_of,
)
from whispertide.audio.buffer import AudioBuffer
from whispertide.errors import GraphError
from whispertide.events import Confirmed, Error, Event, Intent, Lag
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.fair_queue import FairQueue
from whispertide.server.intents import Intents
from whispertide.server.live import LiveSession
from whispertide.server.load import Load
from whispertide.server.observers import Step
from whispertide.server.options import ServerOptions, Work
from whispertide.server.protocols.base import Audio, Finish, Flush
from whispertide.server.scheduler import Scheduler
from whispertide.session import Session
from whispertide.streaming.repetition import CONTEXT
from whispertide.streaming.searches import Greedy
from whispertide.types import FloatArray
from wire_conversation import said

RECIPE = get_recipe("whisper-streaming")


def live_session(number: int = 0, **changes: Any) -> LiveSession:
    words = said(40)
    session = Session(RECIPE.replace(**changes), WatchedOracle(words, KnowingModel()), make_gate(words))
    return LiveSession(f"s{number}", "", "nano.en", session, DecodeOptions())


def audio(seconds: float) -> Audio:
    return Audio(np.zeros(round(seconds * 16_000), np.float32))


async def taken_in_turns(everybody: list[LiveSession]) -> list[tuple[LiveSession, Step]]:
    """All steps of these sessions, on one worker, until they have ended. Each counts as much."""
    taken: list[tuple[LiveSession, Step]] = []
    over = asyncio.Event()

    def done(live: LiveSession, step: Step) -> None:
        taken.append((live, step))
        if all(live.ended for live in everybody):
            over.set()

    charge = FairQueue.charge
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FairQueue, "charge", lambda queue, one, _: charge(queue, one, 1.0))
        scheduler = Scheduler(1, Load(), done)
        scheduler.start()
        for live in everybody:
            scheduler.wake(live)
        async with asyncio.timeout(60):
            await over.wait()
        await scheduler.stop()
    return taken


def test_everybody_has_their_turn() -> None:
    """One worker, one session with much to do and three with little: nobody waits for more than one step of each."""
    everybody = [live_session(number) for number in range(4)]
    for live in everybody:
        count = 12 if live is everybody[0] else 2
        for _ in range(count):
            live.put(audio(1))
            live.put(Flush())
        live.put(Finish())
    order = [live.id for live, step in asyncio.run(taken_in_turns(everybody)) if step.rounds]
    assert sorted(order[:4]) == sorted(order[4:8]) == ["s0", "s1", "s2", "s3"]
    assert len(order) > 10


def test_a_session_with_more_to_do_takes_no_step_after_the_stop() -> None:
    """It was an error in the log: there are no workers left."""

    async def stopped_in_a_step() -> None:
        failed: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
        live = live_session()
        for _ in range(12):
            live.put(audio(1))
            live.put(Flush())
        steps: list[Step] = []
        scheduler = Scheduler(1, Load(), lambda _, step: steps.append(step))
        scheduler.start()
        scheduler.wake(live)
        assert scheduler.running
        await scheduler.stop()
        await asyncio.sleep(0.05)
        assert not scheduler.running
        assert live.inbox
        scheduler.wake(live)  # its client sends more
        assert (len(steps), failed) == (1, [])

    asyncio.run(stopped_in_a_step())


class Told:
    """Intents that a guess follows each portion of audio."""

    def hear(self, samples: FloatArray) -> list[Event]:
        return [Intent(0, 0, 0, len(samples), None, "", 1.0, final=False)]

    def end(self) -> list[Event]:
        return []


def test_a_client_with_many_intents_to_tell_waits_its_turn_too() -> None:
    """As long as a guess takes others would wait for it: there is one in a step, however much audio is there. A round
    hears all that waits, at the latest after five seconds of it.
    """
    everybody = [live_session(number) for number in range(2)]
    everybody[0].intents = cast(Intents, Told())
    for live in everybody:
        for _ in range(12):
            live.put(audio(1))
            if live is everybody[1]:
                live.put(Flush())
        live.put(Finish())
    taken = asyncio.run(taken_in_turns(everybody))
    turns = [(live.id, sum(isinstance(entry, Intent) for entry in step.entries)) for live, step in taken]
    rounds = [live.id for live, step in taken if step.rounds]
    assert [told for _, told in turns if told] == [1] * 12
    assert [who for who, _ in turns[:24]] == ["s0", "s1"] * 12
    assert rounds.count("s0") == 3  # after five seconds, ten, and at the end


def steps(live: LiveSession, level: int = 0) -> list[Event]:
    events: list[Event] = []
    for _ in range(1000):
        step: Step = live.step(level)
        events += [entry for entry in step.entries if isinstance(entry, Event)]
        if not step.more:
            break
    return events


@pytest.mark.slow
def test_a_session_does_not_grow() -> None:
    """What was said is with the client: what a session remembers does not grow with it."""
    words = said(1_440, pause_every=10)
    session = Session(RECIPE, WatchedOracle(words, KnowingModel()), make_gate(words))
    live = LiveSession("s", "", "nano.en", session, DecodeOptions())
    sizes, heard = [], 0
    for _ in range(12):
        for _ in range(85):
            live.put(audio(1))
            heard += sum(len(event.words) for event in steps(live) if isinstance(event, Confirmed))
        sizes.append(len(pickle.dumps(replace(session.snapshot(), buffer=AudioBuffer()))))
    assert heard == len(words)
    assert len(session.transcript.words) == CONTEXT
    assert session.boundaries == session.loads == ()
    assert max(sizes[6:]) < 1.1 * max(sizes[:6])


def test_being_late_is_told_and_being_in_time_again_too() -> None:
    live = live_session(lag_s=1.0)
    live.put(audio(2))
    events = steps(live)
    live.put(audio(1))
    live.accepted += 5 * 16_000  # came in while the round ran
    events += steps(live)
    live.accepted -= 5 * 16_000
    live.put(audio(1))
    events += steps(live)
    assert [(event.behind // 16_000, event.level) for event in events if isinstance(event, Lag)] == [(5, 0), (0, 0)]
    assert [event.seq for event in events] == list(range(len(events)))


def test_the_level_is_what_the_policy_lowered_however_late_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = LocalAgreement.apply
    monkeypatch.setattr(LocalAgreement, "apply", lambda *args: replace(apply(*args), level=1))
    live = live_session(lag_s=2.0, hard_cap_s=4.0, trim_s=4.0)
    live.put(audio(12))  # more than a window holds, so that the session itself is late too
    told = [event for event in steps(live) if isinstance(event, Lag)]
    assert told[0].behind == 8 * 16_000
    assert {event.level for event in told} == {1}


def test_lower_quality_is_told_and_taken_back() -> None:
    live = live_session()
    events = []
    for level in (0, 2, 2, 0):
        live.put(audio(1.5))
        events += steps(live, level)
    assert [event.level for event in events if isinstance(event, Lag)] == [2, 0]
    assert live.session.recipe.search == RECIPE.search
    live.put(audio(1.5))
    live.step(1)
    assert live.session.recipe.search == Greedy()


def test_a_graph_that_fails_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    live = live_session()
    executor = live.session.executor
    assert executor is not None
    run, calls = executor.run, []

    def flaky(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise GraphError("out of memory")
        return run(*arguments)

    monkeypatch.setattr(executor, "run", flaky)
    live.put(audio(3))
    live.put(Finish())
    events = steps(live)
    assert complete(events)
    assert text_of(events)[:4] == ["w0", "w1", "w2", "w3"]
    assert not [event for event in events if isinstance(event, Error)]


@pytest.mark.slow
async def test_under_load_quality_falls_and_no_word_is_lost() -> None:
    """Rounds that take as long as their step, in eight sessions on one worker."""
    options = replace(ServerOptions(), work=Work(workers=1, degrade=True))
    async with served(options, KnowingModel(round_s=0.12)) as (server, hub):
        hub.load.pressure, hub.load.level = 2.0, 1

        async def one_session() -> None:
            async with client(server) as one:
                for _ in range(6):
                    await one.send(SILENCE)
                    await asyncio.sleep(0.1)
                await say_everything(one, seconds=SECONDS - 6)
                assert await one.rest() == 1000
                assert one.text == TEXT
                assert complete(one.events)
                assert any(isinstance(event, Lag) and event.level for event in one.events)

        await asyncio.gather(*(one_session() for _ in range(8)))


async def test_an_overloaded_server_says_so() -> None:
    async with served(limited()) as (server, hub), client(server) as speaker, client(server) as one:
        await speaker.send({"type": "start"})
        await speaker.until("session")
        hub.load.pressure = 1e6  # falls by a tenth with every idle moment
        await one.send(SILENCE)
        assert await one.rest() == 1013
        assert one.said("problem")[0]["kind"] == "overloaded"


async def test_a_server_without_a_speaker_is_not_overloaded() -> None:
    """Late rounds of sessions that are over, or whose client is gone, are nobody's to protect from another session."""
    async with served(limited()) as (server, hub):
        async with client(server) as gone:
            await gone.send(SILENCE)
            await gone.until("received")
        while not all(live.is_parked for live in hub.sessions.values()):
            await asyncio.sleep(0.01)
        hub.load.pressure = 1e6
        assert not hub.overloaded
        async with client(server) as one:
            await one.send(SILENCE)
            await one.until("session")
            assert hub.overloaded


def held_sessions(monkeypatch: pytest.MonkeyPatch, owners: str) -> tuple[list[LiveSession], list[str], threading.Event]:
    """Sessions of these keys whose steps begin and last until the event, and the names of those that began."""
    everybody = [live_session(number) for number in range(len(owners))]
    began, may_end = list[str](), threading.Event()

    def step(live: LiveSession, level: int) -> Step:
        began.append(live.id)
        may_end.wait(30)
        return Step()

    monkeypatch.setattr(LiveSession, "step", step)
    for live, owner in zip(everybody, owners, strict=True):
        live.owner = owner
    return everybody, began, may_end


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not done():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("workers", [1, 2, 3])
async def test_long_rounds_of_a_key_never_hold_all_workers(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """A key that has none has one more at once, while no round of the others ends. There is one such, and none for who
    holds some.
    """
    owners = "A" * (workers + 2) + "BBC"
    everybody, began, may_end = held_sessions(monkeypatch, owners)
    *mine, b, other_b, c = everybody
    scheduler = Scheduler(workers, Load(), lambda _, __: None)
    scheduler.start()
    for live in mine:
        scheduler.wake(live)
    assert scheduler.running == workers
    for live in (b, other_b, c):
        scheduler.wake(live)
    await until(lambda: b.id in began)
    assert scheduler.running == workers + 1
    assert {one.owner for one in everybody if one.running} == {"A", "B"}
    may_end.set()
    await until(lambda: len(began) == len(everybody))
    await until(lambda: not scheduler.running)
    await scheduler.stop()


async def test_whom_nobody_speaks_has_a_thread_of_lower_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    spoken, hurried, left = (live_session(number) for number in range(3))
    niceness = dict[str, int]()

    def step(live: LiveSession, level: int) -> Step:
        niceness[live.id] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        return Step()

    monkeypatch.setattr(LiveSession, "step", step)
    hurried.pace.take(60.0, time.monotonic())
    left.parked_at = 0.0
    scheduler = Scheduler(1, Load(), lambda _, __: None)
    scheduler.start()
    for live in (spoken, hurried, left):
        scheduler.wake(live)
    await until(lambda: len(niceness) == 3)
    await scheduler.stop()
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert niceness[spoken.id] == own
    if sys.platform == "linux" and own < 19:
        assert niceness[hurried.id] == niceness[left.id] > own


def test_a_step_that_breaks_holds_up_nobody(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Not even its own client, who is told of the end: what the step had to say is lost."""
    told: list[str] = []
    said: list[Event] = []

    async def run() -> None:
        broken, whole = live_session(0), live_session(1)

        def done(live: LiveSession, step: Step) -> None:
            told.append(live.id)
            said.extend(entry for entry in step.entries if isinstance(entry, Event) and live is broken)

        scheduler = Scheduler(1, Load(), done)
        scheduler.start()
        step = LiveSession.step

        def breaks(live: LiveSession, *settings: Any) -> Step:
            if live is broken:
                raise RecursionError("too deep")
            return step(live, *settings)

        monkeypatch.setattr(LiveSession, "step", breaks)
        for live in (broken, whole):
            live.put(audio(1))
            scheduler.wake(live)
        while not {"s0", "s1"} <= {*told}:
            await asyncio.sleep(0.01)
        assert not broken.running
        assert not broken.busy
        await scheduler.stop()

    asyncio.run(asyncio.wait_for(run(), 30))
    (failure,) = said
    assert isinstance(failure, Error)
    assert failure.fatal
    assert "too deep" not in failure.message
    assert [record.session for record in caplog.records if record.levelname == "ERROR"] == ["s0"]  # type: ignore[attr-defined]
