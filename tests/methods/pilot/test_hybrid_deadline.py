"""Nobody waits beyond the deadline, and questions that nobody needs are taken back."""

import threading
from collections import Counter
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from fake_remote import TEXT, closed_port, fake_remote
from hybrid_rounds import LOCAL, WORDS, Local, Opened, hear, last_round, stages, texts
from oracle import audio_between
from pilot_oracle import PilotOracle
from whispertide.errors import GraphError
from whispertide.methods.pilot.circuit_breaker import CircuitBreaker
from whispertide.methods.pilot.hybrid import HybridExecutor, HybridStages
from whispertide.methods.pilot.remote import RemoteError
from whispertide.options import DecodeOptions
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import SAMPLE_RATE


class Noted(Future[Any]):
    """An answer that never comes, and how long somebody waited for it by a clock that stands still meanwhile."""

    waits: ClassVar[list[float]] = []

    def result(self, timeout: float | None = None) -> Any:
        assert timeout is not None
        self.waits.append(timeout)
        raise TimeoutError


@pytest.mark.parametrize("encoding_s", [0.0, 0.3, 1.9, 5.0])
def test_nobody_waits_beyond_the_deadline(encoding_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the encoder takes here is part of it."""
    now = 100.0
    monkeypatch.setattr("whispertide.methods.pilot.hybrid.time.perf_counter", lambda: now)
    with stages(f"http://127.0.0.1:{closed_port()}", within_s=2.0) as found:
        answer = Noted()
        monkeypatch.setattr(found.remote, "send", lambda audio, within_s: answer)
        plan = last_round()
        opened = found.encode(plan, audio_between(0, plan.window.end), None)
        now += encoding_s
        assert texts(found.decode(plan, opened, DecodeOptions())) == LOCAL
        assert Noted.waits.pop() == pytest.approx(max(2.0 - encoding_s, 0.0))
        assert answer.cancelled()


@dataclass
class Clock:
    """Time that passes where somebody computes or waits."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


class Arriving(Future[Any]):
    """An answer that is there at a moment of the clock; None: the server fails then."""

    def __init__(self, clock: Clock, at: float, answer: Any) -> None:
        super().__init__()
        self.clock, self.at, self.answer = clock, at, answer

    def result(self, timeout: float | None = None) -> Any:
        assert timeout is not None
        waited = min(max(self.at - self.clock.now, 0.0), timeout)
        is_there, self.clock.now = self.at <= self.clock.now + timeout, self.clock.now + waited
        if not is_there:
            raise TimeoutError
        if self.answer is None:
            raise RemoteError("the server failed")
        return self.answer


@dataclass
class Slow(Local):
    """Stages that take their time."""

    clock: Clock = field(default_factory=Clock)
    encode_s: float = 0.0
    decode_s: float = 0.3

    def encode(self, plan: RoundPlan, audio: Any, state: Any) -> Any:
        self.clock.now += self.encode_s
        return super().encode(plan, audio, state)

    def decode(self, plan: RoundPlan, opened: Any, options: DecodeOptions, guards: Any = ()) -> RoundResult[Any]:
        self.clock.now += self.decode_s
        return super().decode(plan, opened, options, guards)


@pytest.mark.slow
def test_the_text_is_there_within_the_deadline_whatever_the_server_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand utterances, computing included: the search here begins so early that it ends in time."""
    clock, dice = Clock(), np.random.default_rng(7)
    monkeypatch.setattr("whispertide.methods.pilot.hybrid.time.perf_counter", clock)
    with stages(f"http://127.0.0.1:{closed_port()}", within_s=2.0) as found:
        found.local = slow = Slow(PilotOracle(WORDS), clock)
        found.decode(replace(last_round(), is_last=False), Opened(), DecodeOptions())  # a pilot: now its time is known
        heard: Counter[str] = Counter()
        for number in range(1000):
            waits_s, slow.encode_s, arrives_s = dice.uniform(0, [0.5, 0.8, 4.0])
            ended, answer = clock.now, {"text": TEXT} if number % 3 else None
            arriving = Arriving(clock, ended + waits_s + arrives_s, answer)
            monkeypatch.setattr(found.remote, "send", lambda audio, within_s, arriving=arriving: arriving)
            clock.now += waits_s  # another round came first
            plan = last_round(number)
            opened = found.encode(plan, audio_between(0, plan.window.end), None, since=ended)
            heard[" ".join(texts(found.decode(plan, opened, DecodeOptions())))] += 1
            assert clock.now <= ended + 2.0 + 1e-9
    assert set(heard) == {TEXT, " ".join(LOCAL)}
    assert heard[TEXT] == found.counts["there"] > 200
    assert heard[" ".join(LOCAL)] == found.counts["failed"] > 200


def test_the_deadline_counts_from_the_end_of_speech_though_the_round_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pilot of another session is under way; when it has ended no time is left to ask in."""
    clock, began, goes_on = Clock(), threading.Event(), threading.Event()
    monkeypatch.setattr("whispertide.methods.pilot.hybrid.time.perf_counter", clock)
    with fake_remote("good") as fake, stages(fake.url, within_s=2.0) as found:
        encode = found.local.encode

        def waiting(plan: RoundPlan, *given: Any) -> Any:
            if not plan.is_last:
                began.set()
                goes_on.wait()
            return encode(plan, *given)

        monkeypatch.setattr(found.local, "encode", waiting)
        executor, audio = HybridExecutor(found), audio_between(0, 4 * SAMPLE_RATE)
        pilot = executor.begin(replace(last_round(), is_last=False), audio, DecodeOptions())
        began.wait()
        last = executor.begin(last_round(1), audio, DecodeOptions())
        clock.now += 2.0
        goes_on.set()
        pilot.result()
        assert texts(last.result()) == LOCAL
        assert (found.counts, fake.bodies) == ({"here": 1}, [])


def one_question(found: HybridStages, monkeypatch: pytest.MonkeyPatch) -> Noted:
    """The answer to the next question, which tells whether a server that failed is back."""
    answer = Noted()
    monkeypatch.setattr(found.remote, "send", lambda audio, within_s: answer)
    found.breaker = CircuitBreaker(most=1, rest_s=0.0)
    found.breaker.failed()
    return answer


def assert_taken_back(found: HybridStages, answer: Noted) -> None:
    assert answer.cancelled()
    found.breaker.rest_s = 1000.0
    assert found.breaker.asks(), "the question decided nothing"


@pytest.mark.parametrize("fails", [False, True])
def test_a_question_whose_audio_is_nothing_here_is_taken_back(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is too little to encode, or the encoder fails."""
    with stages(f"http://127.0.0.1:{closed_port()}") as found:
        answer = one_question(found, monkeypatch)

        def encode(*_: Any) -> None:
            if fails:
                raise GraphError("no graph")

        monkeypatch.setattr(found.local, "encode", encode)
        with pytest.raises(GraphError) if fails else nullcontext():
            assert found.encode(last_round(), audio_between(0, 4 * SAMPLE_RATE), None) is None
        assert_taken_back(found, answer)
        assert found.counts["failed"] == 0


def test_a_round_that_is_given_up_between_its_stages_takes_its_question_back(monkeypatch: pytest.MonkeyPatch) -> None:
    encoding, given_up = threading.Event(), threading.Event()
    with stages(f"http://127.0.0.1:{closed_port()}") as found:
        answer = one_question(found, monkeypatch)

        def encode(*_: Any) -> Opened:
            encoding.set()
            assert given_up.wait(10)
            return Opened()

        monkeypatch.setattr(found.local, "encode", encode)
        begun = HybridExecutor(found).begin(last_round(), audio_between(0, 4 * SAMPLE_RATE), DecodeOptions())
        assert encoding.wait(10)
        begun.cancel()
        given_up.set()
        with pytest.raises(CancelledError):
            begun.result()
        assert_taken_back(found, answer)


def test_a_server_that_fails_again_and_again_is_left_alone_for_a_while() -> None:
    now = 0.0
    with fake_remote(*["broken 500"] * 4, "good") as fake, stages(fake.url) as found:
        found.breaker = CircuitBreaker(most=2, rest_s=10.0, clock=lambda: now)
        executor = HybridExecutor(found)
        assert [hear(executor, last_round(number)) for number in range(5)] == [LOCAL] * 5
        assert found.counts == {"failed": 2, "here": 3}
        assert len(fake.bodies) == 2
        now = 10.0
        assert [hear(executor, last_round(number)) for number in range(3)] == [LOCAL] * 3
        assert found.counts == {"failed": 3, "here": 5}, "one question, which failed too"
        now = 25.0
        assert hear(executor, last_round()) == LOCAL
        now = 40.0
        assert [hear(executor, last_round(number)) for number in range(3)] == [TEXT.split()] * 3
        assert found.counts == {"failed": 4, "here": 5, "there": 3}


def test_nothing_is_sent_early_to_a_server_that_is_left_alone() -> None:
    with fake_remote("broken 500") as fake, stages(fake.url) as found:
        found.early, found.breaker = True, CircuitBreaker(most=1, rest_s=1000.0)
        executor = HybridExecutor(found)
        hear(executor, last_round())
        assert found.breaker.is_open
        hear(executor, replace(last_round(), is_last=False))
        assert found._uploads == []
        assert len(fake.bodies) == 1
