"""The last round of an utterance here or on a server, and every way in which a server can fail."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from each_row import each_row
from fake_remote import FAILURES, HANGING, TEXT, closed_port, fake_remote
from oracle import audio_between, make_gate, speech
from pilot_oracle import PilotOracle, scored
from test_session_properties import said
from whispertide.audio.pcm import to_int16
from whispertide.decoding.draft import Reference
from whispertide.errors import GraphError
from whispertide.methods.pilot.circuit_breaker import CircuitBreaker
from whispertide.methods.pilot.hybrid import HybridExecutor, HybridStages, hybrid_executor, server_here
from whispertide.methods.pilot.offramp import Hybrid, Offramp
from whispertide.methods.pilot.pilot import HeardUtterance, Pilot, Scores
from whispertide.methods.pilot.remote import Remote, RemoteError, Server, wav
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.session import Session
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import SAMPLE_RATE, Span

WORDS = speech(("one", 0.3, 0.7), ("two", 0.9, 1.3), ("three", 1.5, 2.0), ("four", 2.2, 2.7), ("five", 2.9, 3.3))
LOCAL = ["one", "two", "three", "four", "five"]
ALWAYS, NEVER = Offramp(threshold=0.0), Offramp(threshold=1e6)
PILOT = get_recipe("pilot")
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


# --- who hears it -----------------------------------------------------------------------------------------------------


def test_what_is_sent_is_the_utterance_and_what_comes_back_is_its_text() -> None:
    with fake_remote("good") as fake, stages(fake.url, key="secret", model="large") as found:
        assert hear(HybridExecutor(found), last_round()) == TEXT.split()
        assert found.counts == {"there": 1}
        body = fake.bodies[0]
    assert wav(audio_between(0, 4 * SAMPLE_RATE)) in body
    assert b'name="model"\r\n\r\nlarge\r\n' in body


def test_a_threshold_of_nothing_sends_everything_and_an_infinite_one_nothing() -> None:
    for signal in ("perplexity", "entropy", "random"):
        everything, nothing = Offramp(signal, 0.0), Offramp(signal, float("inf"))
        for number in range(20):
            found = Scores((-0.001 * number,), 0.1 + number)
            assert everything.sends(found, Span(0, 320 * number))
            assert not nothing.sends(found, Span(0, 320 * number))
        assert not everything.sends(None, Span(0, 320))  # nobody knows anything


def test_random_choice_sends_its_share_and_the_same_each_time() -> None:
    ramp = Offramp("random", 0.7)
    sent = [ramp.sends(Scores(), Span(0, 320 * number)) for number in range(2000)]
    assert 0.25 < np.mean(sent) < 0.35
    assert sent == [ramp.sends(Scores(), Span(0, 320 * number)) for number in range(2000)]


def test_the_perplexity_of_a_text() -> None:
    assert Scores(tuple(np.log([0.5, 0.125]))).perplexity == pytest.approx(4.0)
    assert Scores().perplexity == 1.0


def test_a_sure_pilot_and_pilots_themselves_stay_here() -> None:
    with fake_remote("good") as fake, stages(fake.url, Offramp(threshold=2.0)) as found:
        executor = HybridExecutor(found)
        assert hear(executor, last_round(scores=scored(1.5))) == LOCAL
        assert hear(executor, last_round(scores=None)) == LOCAL
        assert hear(executor, replace(last_round(), is_last=False)) == LOCAL
        assert fake.bodies == []
        assert hear(executor, last_round(scores=scored(2.5))) == TEXT.split()


def test_a_window_that_begins_with_confirmed_words_stays_here() -> None:
    """A server would write them again."""
    with fake_remote("good") as fake, stages(fake.url) as found:
        assert hear(HybridExecutor(found), replace(last_round(), prefix=(0,))) == LOCAL[1:]
        assert (found.counts, fake.bodies) == ({"here": 1}, [])


def test_what_is_to_be_translated_is_translated_here() -> None:
    with fake_remote("good") as fake, stages(fake.url) as found:
        assert hear(HybridExecutor(found), last_round(), DecodeOptions(task="translate")) == LOCAL
        assert found.counts == {"here": 1}


def test_without_a_server_everything_is_heard_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHISPERTIDE_REMOTE", raising=False)
    assert server_here() is None
    assert hear(hybrid_executor(Local(PilotOracle(WORDS)), Hybrid(threshold=0.0)), last_round()) == LOCAL
    for name, value in {"": "http://host:1", "_MODEL": "large", "_KEY": "key"}.items():
        monkeypatch.setenv(f"WHISPERTIDE_REMOTE{name}", value)
    assert server_here(3) == Server("http://host:1", "large", "key", 3)


# --- what fails -------------------------------------------------------------------------------------------------------


@each_row("way", [way for way in FAILURES if way not in HANGING])
def test_a_server_that_fails_leaves_the_utterance_here(way: str) -> None:
    with fake_remote(way) as fake, stages(fake.url) as found:
        assert hear(HybridExecutor(found), last_round()) == LOCAL
        assert found.counts == {"failed": 1}


@pytest.mark.parametrize("way", HANGING)
def test_a_server_that_takes_too_long_leaves_the_utterance_here(way: str) -> None:
    with fake_remote(way) as fake, stages(fake.url, within_s=0.1) as found:
        assert hear(HybridExecutor(found), last_round()) == LOCAL


def test_a_server_that_hears_nothing_where_a_pilot_heard_words_is_not_believed() -> None:
    with fake_remote("nothing") as fake, stages(fake.url) as found:
        assert hear(HybridExecutor(found), last_round()) == LOCAL
        # Also where the search does not begin with what the pilot heard.
        assert hear(HybridExecutor(found), replace(last_round(), reference=None)) == LOCAL
        assert hear(HybridExecutor(found), last_round(scores=Scores(entropy=9.0))) == []


@pytest.mark.parametrize("tries", [100, pytest.param(1000, marks=pytest.mark.soak)])
def test_failures_lose_nothing(tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is gone, slow, refusing or answering nonsense: each utterance is heard here, none waits long."""
    within_s = 0.2
    taken: list[float] = []
    waits: list[float] = []

    class Waited(Future[Any]):
        """Notes how long an answer is waited for, and waits."""

        def __init__(self, answer: Future[Any]) -> None:
            super().__init__()
            self.answer = answer

        def result(self, timeout: float | None = None) -> Any:
            assert timeout is not None
            waits.append(timeout)
            return self.answer.result(timeout)

        def cancel(self) -> bool:
            return self.answer.cancel()

    send = Remote.send
    monkeypatch.setattr(Remote, "send", lambda remote, *given: Waited(send(remote, *given)))
    # It stands still, or a machine that is slow would have no time left to ask in.
    monkeypatch.setattr("whispertide.methods.pilot.hybrid.time.perf_counter", lambda: 0.0)

    def attempt(number: int) -> bool:
        found, plan = ways[number % len(ways)], last_round(number)
        began = time.monotonic()
        heard = hear(HybridExecutor(found), plan)
        taken.append(time.monotonic() - began)
        return heard == LOCAL

    with fake_remote() as fake, stages(fake.url, within_s=within_s, tries=2) as bad:
        fake.ways[:] = [FAILURES[number % len(FAILURES)] for number in range(5 * tries)]
        with stages(f"http://127.0.0.1:{closed_port()}", within_s=within_s, tries=2) as gone:
            ways = (bad, bad, gone)
            with ThreadPoolExecutor(16) as pool:
                assert all(pool.map(attempt, range(tries)))
            assert bad.counts["failed"] + gone.counts["failed"] == tries
    print(
        f"{tries} of {tries}; the longest took {max(taken):.2f} s, the deadline is {within_s} s and the time to hear it"
    )
    assert len(waits) == tries
    assert max(waits) <= within_s, "nobody waits for the server beyond the deadline"
    assert threading.active_count() < 20  # and nothing is left


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


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("way", "text"), [("good", TEXT), ("broken 500", " ".join(LOCAL)), ("gone", " ".join(LOCAL))])
def test_a_stream_says_what_the_server_heard_or_what_was_heard_here(way: str, text: str) -> None:
    with fake_remote(way if way != "gone" else "good") as fake:
        url = fake.url if way != "gone" else f"http://127.0.0.1:{closed_port()}"
        with stages(url) as found:
            session = Session(PILOT, HybridExecutor(found), make_gate(WORDS), live=True)
            events: list[Any] = []
            while session.received < 5 * SAMPLE_RATE:
                events += session.push(audio_between(session.received, session.received + SAMPLE_RATE // 10))
            events += session.finish()
    assert said(session.transcript.words) == text.split()
    assert session.transcript.hypothesis == ()


def test_an_upload_may_begin_while_somebody_speaks() -> None:
    """The last round adds what is new to what was sent; who sent it is found by the audio."""
    with fake_remote("good") as fake, stages(fake.url) as found:
        found.early = True
        executor = HybridExecutor(found)
        for number, end in enumerate((2, 3)):
            hear(executor, replace(last_round(number, end * SAMPLE_RATE), is_last=False))
        other = RoundPlan(7, Span(320, 3 * SAMPLE_RATE), Pilot(before=scored(3.0)), is_last=False)
        hear(executor, other)  # somebody else's
        assert fake.bodies == []
        assert hear(executor, last_round(2)) == TEXT.split()
        assert len(fake.bodies) == 1
        assert to_int16(audio_between(0, 4 * SAMPLE_RATE)).astype("<i2").tobytes() in fake.bodies[0]
        assert hear(executor, replace(other, id=8, is_last=True)) == TEXT.split()


def test_an_early_upload_that_nobody_wants_ends() -> None:
    with fake_remote("good") as fake, stages(fake.url, Offramp(threshold=2.0)) as found:
        found.early = True
        executor = HybridExecutor(found)
        hear(executor, replace(last_round(0, 2 * SAMPLE_RATE), is_last=False))
        assert len(found._uploads) == 1
        assert hear(executor, last_round(1, scores=scored(1.1))) == LOCAL
        assert found._uploads == []
        assert fake.bodies == []
