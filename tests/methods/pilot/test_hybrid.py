"""The last round of an utterance here or on a server, and every way in which a server can fail."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from each_row import each_row
from fake_remote import FAILURES, HANGING, TEXT, closed_port, fake_remote
from hybrid_rounds import LOCAL, WORDS, Local, hear, last_round, stages
from oracle import audio_between, make_gate
from pilot_oracle import PilotOracle, scored
from test_session_properties import said
from whispertide.audio.pcm import to_int16
from whispertide.methods.pilot.hybrid import HybridExecutor, HybridStages, hybrid_executor, server_here
from whispertide.methods.pilot.offramp import Hybrid, Offramp
from whispertide.methods.pilot.pilot import Pilot, Scores
from whispertide.methods.pilot.remote import Remote, Server, wav
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.session import Session
from whispertide.streaming.round import RoundPlan
from whispertide.types import SAMPLE_RATE, Span

NEVER = Offramp(threshold=1e6)
PILOT = get_recipe("pilot")


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


def test_executors_share_the_connection_to_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a thread of its own, which would outlive the executor."""
    monkeypatch.setenv("WHISPERTIDE_REMOTE", "http://127.0.0.1:9")
    made = [hybrid_executor(Local(PilotOracle(WORDS)), Hybrid(threshold=2 + n)).stages for n in range(3)]
    assert len({id(each.remote) for each in made if isinstance(each, HybridStages)}) == 1
    assert {each.offramp.threshold for each in made if isinstance(each, HybridStages)} == {2.0, 3.0, 4.0}


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


@pytest.mark.slow
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
