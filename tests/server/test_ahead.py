"""Clients that send faster than they are heard: they wait, are told so, and keep nobody else from their rounds."""

import asyncio
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from oracle import make_gate
from served import KnowingModel, WatchedOracle, complete, limited, text_of
from slow_rows import slow_but
from speaking import speak
from standing_server import PORTS, SOCKETS, Standing, standing
from whispertide.events import Event, Lag
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.hub import Hub
from whispertide.server.live import LiveSession
from whispertide.server.observers import Step
from whispertide.server.protocols.base import Audio, Finish, Settings
from whispertide.session import Session
from wire_conversation import said

RECIPE = get_recipe("whisper-streaming")
STEP_S, UNHEARD_S, PORTION_S = 2, 5, 1  # of audio in a step, before a round looks at it, and in a piece


def audio(seconds: float) -> Audio:
    return Audio(np.zeros(round(seconds * 16_000), np.float32))


def live_session(words: int = 40) -> LiveSession:
    spoken = said(words, pause_every=15)
    session = Session(RECIPE, WatchedOracle(spoken, KnowingModel()), make_gate(spoken))
    return LiveSession("s", "", "nano.en", session, DecodeOptions())


def stepped(live: LiveSession) -> tuple[list[Event], list[int]]:
    """What it says until nothing is left, and the samples that each step took."""
    events: list[Event] = []
    took: list[int] = []
    more = True
    while more:
        before, unheard = live.taken, live.taken - live.looked_at
        step = live.step(0)
        took.append(live.taken - before)
        assert took[-1] < (STEP_S + PORTION_S) * 16_000
        assert unheard + took[-1] < (UNHEARD_S + PORTION_S) * 16_000
        events += [entry for entry in step.entries if isinstance(entry, Event)]
        more = step.more
    return events, took


def test_a_step_comes_to_its_round_however_fast_audio_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each portion that it takes another one is there."""
    live = live_session()
    ingest, refills = live.session.ingest, 0

    def refilled(samples: npt.NDArray[np.float32]) -> None:
        nonlocal refills
        refills += 1
        assert refills < 100, "the step takes for as long as there is something to take"
        ingest(samples)
        live.put(audio(PORTION_S))

    monkeypatch.setattr(live.session, "ingest", refilled)
    live.put(audio(PORTION_S))
    assert live.step(0).rounds == 1
    assert live.taken == STEP_S * 16_000


@quick(6)
@given(st.lists(st.floats(0.01, PORTION_S), max_size=60), st.integers(0, 60))
def test_all_is_heard_a_few_seconds_at_a_time(portions: list[float], words: int) -> None:
    live, length = live_session(words), 0
    for seconds in [*portions, *[PORTION_S] * 40]:
        live.put(audio(seconds))
        length += round(seconds * 16_000)
    live.put(Finish())
    assert live.unheard == length
    events, _ = stepped(live)
    assert complete(events)
    assert text_of(events) == [f"w{number}" for number in range(words)]
    assert live.unheard == 0


def test_silence_is_no_backlog() -> None:
    """No round looks at it, and none is due."""
    live = live_session(0)
    for _ in range(20):
        live.put(audio(PORTION_S))
    _, took = stepped(live)
    assert live.unheard == 0
    assert max(took) == STEP_S * 16_000


def test_what_is_taken_and_not_heard_counts_as_waiting() -> None:
    """Else nothing would hold back a client whose audio the engine has and whose rounds wait."""
    hub = Hub({"nano.en": KnowingModel()}, RECIPE, limited(inbox_s=10))  # type: ignore[dict-item]
    hub.scheduler.wake = lambda live: None  # type: ignore[method-assign]  # no step is taken
    live, _ = hub.open(Settings(), "", "native")
    hub.put(live, audio(9.9))
    assert hub.has_room(live)
    hub.put(live, audio(0.1))
    assert not hub.has_room(live)
    live.taken, live.inbox = live.accepted, type(live.inbox)()
    assert not hub.has_room(live)
    live.looked_at = 16_000
    assert hub.has_room(live)


def test_whoever_is_ahead_is_told() -> None:
    """`lag` says how much waits in all, and in the end that nothing does."""
    live = live_session(100)
    for _ in range(20):
        live.put(audio(PORTION_S))
    events, _ = stepped(live)
    told = [event.behind // 16_000 for event in events if isinstance(event, Lag)]
    assert told[0] >= 20 - STEP_S - PORTION_S
    assert told[-1] == 0


@pytest.mark.parametrize(
    ("sent_s", "gone", "counts"), [(10, False, True), (11, False, False), (1, True, False)], ids=["1x", "ahead", "gone"]
)
async def test_only_rounds_of_those_that_speak_are_a_sign_of_load(sent_s: int, gone: bool, counts: bool) -> None:
    """Else a few files sent at once would lower everybody's quality, and refuse new sessions."""
    hub = Hub({"nano.en": KnowingModel()}, RECIPE, limited())  # type: ignore[dict-item]
    hub.scheduler.wake = lambda live: None  # type: ignore[method-assign]
    scheduler, now = hub.scheduler, asyncio.get_running_loop().time()
    scheduler.start()
    live, _ = hub.open(Settings(), "", "native")
    hub.put(live, audio(sent_s))
    live.parked_at = now if gone else None
    scheduler._tell(live, now - 30, 29.0, Step(rounds=1))
    assert (hub.load.pressure > 0) is counts
    await scheduler.stop()


@pytest.mark.parametrize("where", slow_but([*SOCKETS, *PORTS], "/ws", "lines"))
def test_flow_control_reaches_the_socket(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes at once, while no round comes to its end: what the session may have waiting is read and no more, the
    sender stands still, is not cut off, and goes on when rounds do.
    """
    go_on, run = threading.Event(), WatchedOracle.run

    def held(*arguments: Any) -> Any:
        assert go_on.wait(60)
        return run(*arguments)

    monkeypatch.setattr(WatchedOracle, "run", held)

    async def talk(town: Standing) -> None:
        speaking = asyncio.create_task(speak(town, where, portion=16_000, seconds=600))
        try:
            async with asyncio.timeout(60):
                while not (sessions := [*town.hub.sessions.values()]) or town.hub.has_room(sessions[0]):
                    await asyncio.sleep(0.01)
            (live,) = sessions
            for _ in range(100):
                town.tasks()  # so many turns of the server's loop
            assert 10 * 16_000 <= live.accepted <= 12 * 16_000
            assert live.taken < (STEP_S + PORTION_S) * 16_000
            assert not speaking.done()
            go_on.set()
            async with asyncio.timeout(60):
                while live.accepted < 20 * 16_000:
                    await asyncio.sleep(0.01)
            assert not speaking.done() or not speaking.exception()
        finally:
            go_on.set()
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)
            await town.settled()

    with standing(limited(inbox_s=10, resume_s=0)) as town:
        asyncio.run(talk(town))
