"""What a session does when a round, an executor or a policy fails."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from oracle import Oracle, audio_between, make_gate
from session_steps import PAUSED, RECIPE, TALK, confirmed, exact, kinds, push, said
from told_turns import ToldEar
from whispertide.errors import GraphError, SessionError
from whispertide.events import Error, Event
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.agreement.whole_window import HeardSegment, HeardSegments
from whispertide.options import DecodeOptions
from whispertide.session import Session
from whispertide.streaming.end_of_turn import TurnLimits
from whispertide.streaming.policy import Begun
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.turn_gate import TurnGate
from whispertide.types import SAMPLE_RATE, FloatArray, Span, Word

S = SAMPLE_RATE


@dataclass
class Flaky:
    """Fails in the rounds it is told to."""

    oracle: Oracle
    fail_in: set[int] = field(default_factory=set)
    error: BaseException = field(default_factory=lambda: RuntimeError("the graph broke"))
    calls: int = 0

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        self.calls += 1
        if self.calls in self.fail_in:
            raise self.error
        return self.oracle.run(plan, audio, options)


@pytest.mark.parametrize("error", [RuntimeError("the graph broke"), KeyboardInterrupt()])
@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_a_round_that_fails_can_be_run_again_and_nothing_is_lost(error: BaseException, failing: int) -> None:
    plain_session = Session(RECIPE, exact(PAUSED), make_gate(PAUSED))
    expected = push(plain_session, 12.0) + plain_session.finish()
    session = Session(RECIPE, Flaky(exact(PAUSED), {failing}, error), make_gate(PAUSED))
    events: list[Event] = []
    failures = 0
    for _ in range(24):
        try:
            events += session.push(audio_between(session.received, session.received + S // 2))
        except (RuntimeError, KeyboardInterrupt):
            failures += 1
            events += session.push(np.zeros(0, np.float32))
    events += session.finish()
    assert failures == 1
    assert [e.seq for e in events] == list(range(len(events)))
    assert kinds(events) == kinds(expected)
    assert confirmed(events) == confirmed(expected)
    assert session.boundaries == plain_session.boundaries


def test_a_failed_flush_or_finish_can_be_tried_again() -> None:
    session = Session(RECIPE, Flaky(exact(), {3, 6}))
    events = push(session, 2.0)
    with pytest.raises(RuntimeError):
        session.flush()
    events += session.flush() + push(session, 3.5)
    with pytest.raises(RuntimeError):
        session.finish()
    with pytest.raises(SessionError, match="asked to finish"):
        session.push(np.zeros(1, np.float32))
    assert not session.ended
    events += session.finish()
    assert kinds(events).count("turn_end") == 2
    assert session.ended
    assert confirmed(events) == "one two three four five"


def test_a_flush_after_a_failed_one_is_for_all_audio_that_has_come_since() -> None:
    executor = Flaky(exact(), {3, 4, 5})
    session = Session(RECIPE, executor)
    events = push(session, 2.0)
    with pytest.raises(RuntimeError):
        session.flush()
    with pytest.raises(RuntimeError):
        push(session, 4.0, step=2.0)
    executor.fail_in.clear()
    events += session.flush()
    assert confirmed(events) == said(TALK)
    assert session.flush()[-1].kind == "turn_end"
    assert confirmed(session.finish()) == ""


def test_where_a_gate_fails_the_audio_was_not_taken() -> None:
    """It can be pushed again, and nothing is out of step afterwards."""

    class FailingOnce(ToldEar):
        def probability(self, audio: FloatArray) -> float:
            if not self.heard:
                self.heard.append(audio)
                raise GraphError("no memory")
            return 0.1

    plain_session = Session(RECIPE, exact(PAUSED), TurnGate(make_gate(PAUSED), ToldEar((0.1,)), TurnLimits()))
    expected = push(plain_session, 12.0) + plain_session.finish()
    session = Session(RECIPE, exact(PAUSED), TurnGate(make_gate(PAUSED), FailingOnce(), TurnLimits()))
    events, failures = list[Event](), 0
    while session.received < 12 * S:
        try:
            events += session.push(audio_between(session.received, session.received + S // 2))
        except GraphError:
            failures += 1
    assert failures == 1
    assert events + session.finish() == expected


def test_only_the_newest_round_in_flight_can_be_given_back() -> None:
    session = Session(RECIPE, max_in_flight=2)
    session.ingest(audio_between(0, S))
    first = session.due()
    session.ingest(audio_between(S, 2 * S))
    second = session.due()
    assert first is not None
    assert second is not None
    with pytest.raises(SessionError, match="newest round in flight"):
        session.retract(first)
    session.retract(second)
    session.retract(first)
    assert session.boundaries == ()
    again = session.due()
    assert again is not None
    assert again.window == Span(0, 2 * S)


def test_failures_are_told() -> None:
    session = Session(RECIPE, exact())
    push(session, 2.0)
    assert session.fail("a hiccup", fatal=False) == [Error(3, 2 * S, "a hiccup", False)]
    assert not session.ended
    assert session.fail("out of memory") == [Error(4, 2 * S, "out of memory", True)]
    assert session.ended
    assert said(session.transcript.words) == "one"


def test_a_policy_that_makes_no_room_is_found_out() -> None:
    class Stuck(LocalAgreement):
        def limit(self, state: Begun) -> int:
            return S

    session = Session(RECIPE.replace(policy=Stuck()), exact())
    push(session, 2.0)
    with pytest.raises(SessionError, match="expected the policy to make room"):
        session.finish()


def test_a_result_beyond_the_audio_is_brought_into_it() -> None:
    class Dreamer:
        def run(
            self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None
        ) -> RoundResult[Any]:
            words = (Word(" later", plan.window.end + S, plan.window.end + 2 * S),)
            return RoundResult(plan, HeardSegments((HeardSegment(plan.window, words),)))

    session = Session(RECIPE, Dreamer())
    push(session, 1.0)
    session.finish()
    assert [(w.start, w.end) for w in session.transcript.words] == [(S, S)]
