"""What came in and was not heard: counted with a clock that the test holds."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from served import KnowingModel, limited
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.app import make_app
from whispertide.server.hub import Hub
from whispertide.server.live import LiveSession
from whispertide.server.load import HIGH, LEVELS, RISE_S, Load
from whispertide.server.watch import STALLED_S, Watch

RATE = 16_000


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Session:
    """As much of a session as is looked at."""

    id: str = "one"
    accepted: int = 0
    looked_at: int = 0
    ended: bool = False
    suspended: bool = False
    is_file: bool = False
    asked_recipe: Any = field(default_factory=lambda: SimpleNamespace(schedule=SimpleNamespace(step_s=1.0)))

    def is_unhurried(self, now: float) -> bool:
        return self.is_file

    @property
    def unheard(self) -> int:
        return self.accepted - self.looked_at


def lives(*sessions: Session) -> list[LiveSession]:
    return [cast(LiveSession, session) for session in sessions]


class HeardMeanwhile(Session):
    """A session whose round ends in its thread while this one looks: the second look sees all heard."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "looked_at":
            self.looked_at = self.accepted
        return value


def test_a_round_may_end_while_it_is_measured() -> None:
    """Else the sweep of the server would end with an error, and no session that nobody came back to be dropped."""
    found = Watch(Clock()).measure(lives(HeardMeanwhile(accepted=2 * RATE)))
    assert (found.unheard_s, found.oldest_s) == (2.0, 0.0)


def test_the_oldest_second_that_is_not_heard() -> None:
    clock, session = Clock(), Session()
    watch = Watch(clock)
    for second in range(10):
        clock.now = 100.0 + second
        session.accepted = (second + 1) * RATE
        watch.measure(lives(session))
    waiting = watch.measure(lives(session))
    assert (waiting.unheard_s, waiting.oldest_s, waiting.late) == (10, 9, (9, 1))
    session.looked_at = 4 * RATE
    waiting = watch.measure(lives(session))
    assert (waiting.unheard_s, waiting.oldest_s) == (6, 5)
    session.looked_at = session.accepted
    assert watch.measure(lives(session)).oldest_s == 0
    assert not watch._came, "nothing is remembered of who has nothing that waits"


def test_a_file_that_is_sent_in_a_hurry_is_not_late() -> None:
    clock, file, talk = Clock(), Session("file", accepted=30 * RATE, is_file=True), Session("talk")
    watch = Watch(clock)
    watch.measure(lives(file, talk))
    clock.now += 3
    talk.accepted = RATE
    waiting = watch.measure(lives(file, talk))
    assert (waiting.unheard_s, waiting.oldest_s, waiting.late) == (31, 3, (0, 1))


@given(st.lists(st.tuples(st.integers(0, 3 * RATE), st.floats(0, 1), st.floats(0.01, 2)), max_size=40))
def test_ages_are_never_more_than_they_are(steps: list[tuple[int, float, float]]) -> None:
    """The oldest is as old as the look at which it had come, to the look."""
    clock, session = Clock(), Session()
    watch = Watch(clock)
    came: list[tuple[float, int]] = []
    for audio, share, pause in steps:
        clock.now += pause
        session.accepted += audio
        came.append((clock.now, session.accepted))
        session.looked_at += int(share * session.unheard)
        expected = next((clock.now - at for at, until in came if until > session.looked_at), 0.0)
        waiting = watch.measure(lives(session))
        assert waiting.oldest_s == pytest.approx(expected)
        assert waiting.unheard_s == session.unheard / RATE


def test_no_round_for_five_seconds_though_audio_waits() -> None:
    clock, session = Clock(), Session(accepted=RATE)
    watch = Watch(clock)
    assert not watch.is_stalled(watch.measure(lives(session))), "it has just come"
    clock.now += STALLED_S + 0.1
    assert watch.is_stalled(watch.measure(lives(session)))
    watch.note_round()
    assert not watch.is_stalled(watch.measure(lives(session))), "of another session"
    clock.now += STALLED_S + 0.1
    assert watch.is_stalled(watch.measure(lives(session)))
    session.looked_at = RATE
    assert not watch.is_stalled(watch.measure(lives(session))), "nothing waits"


def test_quality_falls_where_no_round_ends() -> None:
    """Nobody would be told of it otherwise: lateness is measured when a round is done."""
    load, now = Load(), 0.0
    while now < 60:
        load.note_waiting(2.0 + now, 1.0, now)
        now += 0.5
    assert (load.level, load.overloaded) == (LEVELS, True)
    assert load.pressure > HIGH
    paced = Load()
    for tick in range(int(10 * RISE_S)):
        paced.note_waiting(1.5, 1.0, tick / 2)
    assert (paced.level, paced.pressure) == (0, 0.0)


def test_a_server_that_stands_still_is_not_ready_and_says_what_waits() -> None:
    models: Any = {"nano.en": KnowingModel()}
    hub, clock = Hub(models, get_recipe("whisper-streaming"), limited()), Clock()
    hub.watch.clock = clock

    async def run() -> None:
        transport = httpx.ASGITransport(make_app(hub))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def asked() -> tuple[str, list[str]]:
                ready = (await client.get("/readyz")).json()["status"]
                lines = (await client.get("/metrics")).text.splitlines()
                return ready, [line for line in lines if "unheard_seconds " in line and not line.startswith("#")]

            assert await asked() == (
                "ready",
                ["whispertide_unheard_seconds 0.0", "whispertide_oldest_unheard_seconds 0.0"],
            )
            session: Any = Session(accepted=3 * RATE)
            session.parked_at = None
            hub.sessions["one"] = session
            await asked()
            clock.now += STALLED_S + 1
            assert await asked() == (
                "stalled",
                ["whispertide_unheard_seconds 3.0", "whispertide_oldest_unheard_seconds 6.0"],
            )
            assert (await client.get("/healthz")).status_code == 200
            session.looked_at = session.accepted
            assert (await asked())[0] == "ready"

    asyncio.run(run())
