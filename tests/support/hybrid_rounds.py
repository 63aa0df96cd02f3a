"""Rounds that a server may hear, for the tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from oracle import audio_between, speech
from pilot_oracle import PilotOracle, scored
from whispertide.decoding.draft import Reference
from whispertide.methods.pilot.circuit_breaker import CircuitBreaker
from whispertide.methods.pilot.hybrid import HybridExecutor, HybridStages
from whispertide.methods.pilot.offramp import Offramp
from whispertide.methods.pilot.pilot import HeardUtterance, Pilot, Scores
from whispertide.methods.pilot.remote import Remote, Server
from whispertide.options import DecodeOptions
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import SAMPLE_RATE, Span

WORDS = speech(("one", 0.3, 0.7), ("two", 0.9, 1.3), ("three", 1.5, 2.0), ("four", 2.2, 2.7), ("five", 2.9, 3.3))
LOCAL = ["one", "two", "three", "four", "five"]
ALWAYS = Offramp(threshold=0.0)
UNSURE = scored(3.0)


@dataclass
class Opened:
    """What an encoder leaves, without one."""

    state: Any = None

    @property
    def encoded(self) -> Any:
        return self


@dataclass
class Local:
    """Stages that know what was said."""

    oracle: PilotOracle

    def encode(self, plan: RoundPlan, audio: Any, state: Any) -> Any:
        self.audio = audio
        return Opened()

    def decode(self, plan: RoundPlan, opened: Any, options: DecodeOptions, guards: Any = ()) -> RoundResult[Any]:
        return self.oracle.run(plan, audio_between(plan.window.start, plan.window.end), options)


@contextmanager
def stages(url: str, offramp: Offramp = ALWAYS, within_s: float = 20.0, **more: Any) -> Iterator[HybridStages]:
    remote = Remote(Server(url, **{"tries": 1, **more}))
    try:
        yield HybridStages(Local(PilotOracle(WORDS)), remote, offramp, within_s, breaker=CircuitBreaker(most=10**9))
    finally:
        remote.close()


def last_round(number: int = 0, end: int = 4 * SAMPLE_RATE, scores: Scores | None = UNSURE) -> RoundPlan:
    return RoundPlan(number, Span(0, end), Pilot(before=scores), reference=Reference.exactly((0, 1)), is_last=True)


def hear(executor: HybridExecutor, plan: RoundPlan, options: DecodeOptions | None = None) -> list[str]:
    return texts(executor.run(plan, audio_between(plan.window.start, plan.window.end), options or DecodeOptions()))


def texts(result: RoundResult[Any]) -> list[str]:
    assert isinstance(result.heard, HeardUtterance)
    return [word.word.text.strip() for word in result.heard.words]
