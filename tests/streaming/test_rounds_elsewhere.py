"""Rounds that are run elsewhere, and requests that come meanwhile."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oracle import Oracle, audio_between, speech
from session_steps import RECIPE, TALK, confirmed, exact, kinds, said
from whispertide.errors import SessionError
from whispertide.events import Event, RoundStats, TurnEnd
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.session import Session
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import SAMPLE_RATE, Span

S = SAMPLE_RATE


def test_rounds_can_be_run_elsewhere() -> None:
    oracle = exact()
    session = Session(RECIPE)
    events: list[Event] = []
    session.ingest(audio_between(0, 2 * S))
    plan = session.due()
    assert plan is not None
    assert session.due() is None  # one at a time
    session.ingest(audio_between(2 * S, 4 * S))  # goes on meanwhile
    assert plan.window == Span(0, 2 * S)
    events += session.apply(oracle.run(plan, session.window(plan), session.options))
    session.request("finish")
    while (plan := session.due()) is not None:
        assert plan.is_last
        events += session.apply(oracle.run(plan, session.window(plan), session.options))
    events += session.drain()
    assert confirmed(events) == said(TALK)
    assert kinds(events)[-2:] == ["turn_end", "end"]
    with pytest.raises(SessionError, match="this one has ended"):
        session.ingest(audio_between(0, 1))


def test_a_round_took_what_all_its_stages_took() -> None:
    loads = []

    class Loaded(LocalAgreement):
        def plan(self, *args: Any, load: int = 0, **more: Any) -> RoundPlan:
            loads.append(load)
            return super().plan(*args, load=load, **more)

    recipe = RECIPE.replace(schedule="adaptive", step_s=0.5, longest_step_s=5.0, policy=Loaded())
    session = Session(recipe, live=True)
    session.ingest(audio_between(0, S))
    plan = session.due()
    assert plan is not None
    session.apply(RoundResult(plan, stats=RoundStats(encode_s=0.2, decode_s=0.3, align_s=0.4)))
    session.ingest(audio_between(S, round(2.79 * S)))  # twice as long must pass
    assert session.due() is None
    session.ingest(audio_between(session.received, round(2.8 * S)))
    plan = session.due()
    assert plan is not None
    session.apply(RoundResult(plan, stats=RoundStats(decode_s=0.9)))
    session.ingest(audio_between(session.received, 6 * S))
    session.request("finish")
    assert session.due() is not None
    assert loads == [0, round(1.8 * S), 0]  # the last round looks at what is left, late or not
    assert session.loads == (0, round(1.8 * S))


def test_audio_after_a_flush_waits_for_it() -> None:
    oracle = exact()
    session = Session(RECIPE)
    session.ingest(audio_between(0, 2 * S))
    session.request("flush")
    session.ingest(audio_between(2 * S, 4 * S))
    plan = session.due()
    assert plan is not None
    assert (plan.window, plan.is_last) == (Span(0, 2 * S), True)
    events = session.apply(oracle.run(plan, session.window(plan), session.options))
    assert confirmed(events) == "one two three"
    plan = session.due()
    assert plan is not None
    assert (plan.window, plan.is_last) == (Span(2 * S, 4 * S), False)


def test_audio_after_a_flush_of_nothing_does_not_wait() -> None:
    session = Session(RECIPE)
    session.request("flush")
    session.ingest(audio_between(0, 2 * S))
    plan = session.due()
    assert plan is not None
    assert plan.window == Span(0, 2 * S)
    assert session.drain() == [TurnEnd(0, 0, 0)]


def test_after_a_request_to_finish_no_audio_is_taken() -> None:
    session = Session(RECIPE)
    session.request("finish")
    with pytest.raises(SessionError, match="asked to finish"):
        session.ingest(np.zeros(1, np.float32))
    with pytest.raises(SessionError, match="asked to finish"):
        session.request("flush")


def test_results_come_in_the_order_of_the_plans() -> None:
    oracle = exact()
    session = Session(RECIPE, max_in_flight=2)
    session.ingest(audio_between(0, S))
    first = session.due()
    session.ingest(audio_between(S, 2 * S))
    second = session.due()
    session.ingest(audio_between(2 * S, 3 * S))
    assert session.due() is None
    assert first is not None
    assert second is not None
    assert second.window == Span(0, 2 * S)
    late = oracle.run(second, session.window(second), session.options)
    with pytest.raises(SessionError, match="expected round 0; got round 1"):
        session.apply(late)
    session.apply(oracle.run(first, session.window(first), session.options))
    assert confirmed(session.apply(late)) == "one"
    with pytest.raises(SessionError, match=r"expected no result \(no round is in flight\); got round 1"):
        session.apply(late)


def test_two_rounds_in_flight_lose_nothing() -> None:
    words = speech(*((f"w{i}", i / 2, i / 2 + 0.4) for i in range(160)))
    oracle = Oracle(words, seed=5)
    session = Session(RECIPE.replace(trim_s=5, hard_cap_s=10), max_in_flight=2)
    waiting: list[RoundPlan] = []
    for second in range(82):
        session.ingest(audio_between(session.received, (second + 1) * S))
        if second == 81:
            session.request("finish")
        while (plan := session.due()) is not None or (second == 81 and waiting):
            waiting += [plan] if plan is not None else []
            if len(waiting) == 2 or plan is None:
                oldest = waiting.pop(0)
                session.apply(oracle.run(oldest, session.window(oldest), session.options))
    assert session.ended
    assert said(session.transcript.words) == said(words)


def test_results_that_a_clear_overtook_are_ignored() -> None:
    oracle = exact()
    session = Session(RECIPE)
    session.ingest(audio_between(0, 2 * S))
    plan = session.due()
    assert plan is not None
    result = oracle.run(plan, session.window(plan), session.options)
    session.clear()
    assert session.apply(result) == []
    assert session.transcript.hypothesis == ()
    with pytest.raises(SessionError):
        session.apply(result)


def test_without_an_executor_simple_use_is_refused() -> None:
    session = Session(RECIPE)
    uses: list[Callable[[], object]] = [lambda: session.push(np.zeros(1, np.float32)), session.flush, session.finish]
    for use in uses:
        with pytest.raises(SessionError, match="has none: use ingest, due and apply"):
            use()
    session = Session(RECIPE, exact())
    session.ingest(audio_between(0, S))
    session.due()
    with pytest.raises(SessionError, match="no round in flight"):
        session.finish()
