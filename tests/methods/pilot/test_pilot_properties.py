"""What holds for every stream under the recipe `pilot`: nothing lost, nothing said twice, nothing before its time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from oracle import audio_between, make_gate, speech
from pilot_oracle import PilotOracle, Slow
from test_session_properties import (
    Talk,
    check_every_word,
    check_not_live,
    check_recorded,
    check_restored,
    confirmed,
    play,
    portions,
    push,
    said,
    said_by,
    talks,
)
from whispertide.events import Confirmed, Hypothesis, SpeechStop
from whispertide.methods.pilot.pilot import HeardUtterance
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.schedule import Recorded
from whispertide.types import SAMPLE_RATE, Word

PILOT = get_recipe("pilot")
RECIPES = {
    "pilot": PILOT,
    "short windows": PILOT.replace(hard_cap_s=6, step_s=0.3),
    "few tokens": PILOT.replace(pilot_tokens=2, step_s=0.3, hard_cap_s=10),
    "nothing reused": PILOT.replace(chain=False, collapse=False, length_cap=False),
    "no pilots": PILOT.replace(pilots_from_s=30.0, hard_cap_s=8),
}


names = st.sampled_from(sorted(RECIPES))


def build(talk: Talk, recipe: Recipe, *, gated: bool, slow_s: float = 0.0, **more: Any) -> Session:
    gate = make_gate(talk.words) if gated else None
    return Session(recipe, PilotOracle(talk.words, talk.seed, slow_s=slow_s), gate, **{"live": True, **more})


@quick(6)
@given(data=st.data(), gated=st.booleans(), name=names)
def test_every_word_is_confirmed_once_and_in_order(data: st.DataObject, gated: bool, name: str) -> None:
    check_every_word(build, RECIPES[name], data, gated, slow_s=data.draw(st.sampled_from([0.0, 4.0])))


@quick(6)
@given(data=st.data(), gated=st.booleans(), name=names)
def test_portions_do_not_matter_for_recorded_boundaries(data: st.DataObject, gated: bool, name: str) -> None:
    check_recorded(build, RECIPES[name], data, gated)


@pytest.mark.slow
@quick(6)
@given(data=st.data(), name=names)
def test_a_restored_session_has_the_same_future(data: st.DataObject, name: str) -> None:
    check_restored(build, RECIPES[name], data, gated=True)


@quick(6)
@given(data=st.data(), gated=st.booleans(), name=names, share=st.sampled_from([0.0, 0.5, 1.0]))
def test_no_word_is_lost_with_pilots_that_are_given_up(
    data: st.DataObject, gated: bool, name: str, share: float
) -> None:
    """In the background, where a pilot may be under way when speech ends; a snapshot then loses nothing either."""
    talk = data.draw(talks())
    slow = Slow(PilotOracle(talk.words, talk.seed), share)
    session = Session(RECIPES[name], slow, make_gate(talk.words) if gated else None, live=True)
    sizes = data.draw(st.composite(portions)(talk.duration))
    here = data.draw(st.integers(0, len(sizes)))
    events = push(session, sizes[:here])
    kept = session.snapshot()
    if data.draw(st.booleans()):
        slow.land()
        events += session.collect()
    else:
        session.restore(kept)
    events += play(session, sizes[here:])
    assert said(session.transcript.words) == said(talk.words)
    assert confirmed(events) == session.transcript.words
    assert not any(flying.cancelled for flying in slow.begun if flying.plan.is_last and not flying.done)


@pytest.mark.slow
@quick(6)
@given(data=st.data(), gated=st.booleans(), name=names)
def test_windows_stay_within_the_cap_and_pilots_confirm_nothing(data: st.DataObject, gated: bool, name: str) -> None:
    talk = data.draw(talks())
    session = build(talk, RECIPES[name], gated=gated)
    events = play(session, data.draw(st.composite(portions)(talk.duration)))
    oracle = session.executor
    assert isinstance(oracle, PilotOracle)
    cap = RECIPES[name].policy.hard_cap_s * SAMPLE_RATE
    assert all(len(plan.window) <= cap for plan in oracle.plans)
    pilots = {plan.id for plan in oracle.plans if plan.provisional}
    assert not any(event.stats.round_id in pilots for event in events if isinstance(event, Confirmed))


# --- what happens when ------------------------------------------------------------------------------------------------

WORDS = speech(("one", 1.2, 1.6), ("two", 1.8, 2.2), ("three", 2.4, 2.9), ("four", 3.1, 3.6), ("five", 3.7, 4.1))


def heard(
    executor: Any, seconds: float, recipe: Recipe = PILOT, words: Sequence[Word] = WORDS
) -> tuple[Session, list[Any]]:
    """A session after so much audio, in portions of 0.1 s."""
    session, events = Session(recipe, executor, make_gate(words)), []
    while session.received < seconds * SAMPLE_RATE:
        events += session.push(audio_between(session.received, session.received + SAMPLE_RATE // 10))
    return session, events


def test_pilots_begin_after_a_second_and_a_half_of_speech_and_come_every_half_second() -> None:
    oracle = PilotOracle(WORDS)
    heard(oracle, 4.0)
    ends = [plan.window.end / SAMPLE_RATE for plan in oracle.plans]
    assert 2.7 <= ends[0] <= 3.0  # speech begins at 1.2 s, and it takes a moment to know
    assert np.allclose(np.diff(ends), 0.5)
    assert all(plan.provisional for plan in oracle.plans)


def test_each_pilot_begins_with_the_one_before_and_the_last_round_with_the_newest() -> None:
    oracle = PilotOracle(WORDS)
    session, events = heard(oracle, 5.5)
    first, *others = oracle.plans
    assert first.reference is None
    assert others[-1].is_last
    assert all(plan.reference is not None for plan in others)
    assert [len(plan.reference.tokens) for plan in others if plan.reference] == sorted(
        len(plan.reference.tokens) for plan in others if plan.reference
    )
    assert said(session.transcript.words) == said(WORDS)
    guesses = [event for event in events if isinstance(event, Hypothesis) and event.words]
    assert said(guesses[0].words)[:2] == ["one", "two"]


def test_a_pilot_under_way_is_given_up_when_speech_ends() -> None:
    slow = Slow(PilotOracle(WORDS))
    session, events = heard(slow, 5.5, PILOT.replace(at_pauses=False))
    pilots = [flying for flying in slow.begun if flying.plan.provisional]
    assert [flying.cancelled for flying in pilots] == [False] * (len(pilots) - 1) + [True]
    assert slow.begun[-1].plan.is_last
    assert said(session.transcript.words) == said(WORDS)
    stop = next(event for event in events if isinstance(event, SpeechStop))
    assert next(event for event in events if isinstance(event, Confirmed)).at == stop.at
    assert pilots[-1].plan.window.end not in session.boundaries  # a replay would have its result
    assert pilots[0].plan.window.end in session.boundaries


def test_a_pilot_that_is_done_when_speech_ends_helps_the_last_round() -> None:
    slow = Slow(PilotOracle(WORDS), quick=1.0)
    session = Session(PILOT, slow, make_gate(WORDS), live=True)
    while session.received < 5.5 * SAMPLE_RATE:
        session.push(audio_between(session.received, session.received + SAMPLE_RATE // 10))
        session.collect()
    assert not any(flying.cancelled for flying in slow.begun)
    newest = slow.begun[-2].found.heard
    assert isinstance(newest, HeardUtterance)
    assert slow.begun[-1].plan.reference is not None
    assert slow.begun[-1].plan.reference.tokens == newest.tokens
    assert said(session.transcript.words) == said(WORDS)


def test_there_is_one_pilot_at_a_time() -> None:
    slow = Slow(PilotOracle(WORDS))
    session = Session(PILOT, slow, None)
    while session.received < 3.9 * SAMPLE_RATE:
        session.ingest(audio_between(session.received, session.received + SAMPLE_RATE // 10))
        while session.step(wait=False) is not None:
            pass
    assert len(slow.begun) == 1
    slow.land()
    while session.step(wait=False) is not None:
        pass
    assert len(slow.begun) == 2


def test_a_given_up_pilot_s_late_result_is_ignored() -> None:
    """Where somebody else computes rounds."""
    oracle = PilotOracle(WORDS)
    session = Session(PILOT, gate=None)
    session.ingest(audio_between(0, 3 * SAMPLE_RATE))
    pilot = session.due()
    assert pilot is not None
    late = oracle.run(pilot, session.window(pilot), session.options)
    assert session.due() is None
    session.request("flush")
    last = session.due()
    assert last is not None
    assert last.is_last
    assert session.apply(late) == []
    session.apply(oracle.run(last, session.window(last), session.options))
    assert session.transcript.hypothesis == ()
    assert [word.text for word in session.transcript.words][:2] == [" one", " two"]


def test_silence_says_nothing() -> None:
    oracle = PilotOracle(())
    session = Session(PILOT, oracle, make_gate(()))
    events = [event for _ in range(60) for event in session.push(np.zeros(SAMPLE_RATE // 10, np.float32))]
    assert not any(isinstance(event, Confirmed | Hypothesis) for event in [*events, *session.finish()])
    assert oracle.plans == []


# --- in a pause -------------------------------------------------------------------------------------------------------

AFTER_A_PAUSE = (*WORDS, *speech(("six", 4.5, 4.8)))  # 0.4 s after the word before


def test_in_a_pause_the_last_round_is_computed_ahead_and_not_again() -> None:
    oracle = PilotOracle(WORDS)
    session, events = heard(oracle, 4.55)  # the gate waits until 4.6 s
    ahead = oracle.plans[-1]
    assert ahead.is_last
    assert ahead.provisional
    assert ahead.window.end == pytest.approx(4.4 * SAMPLE_RATE, abs=512)
    assert not any(isinstance(event, Confirmed) for event in events)
    count = len(oracle.plans)
    session.push(audio_between(session.received, 5 * SAMPLE_RATE))
    assert len(oracle.plans) == count
    assert said(session.transcript.words) == said(WORDS)
    assert ahead.window.end not in session.boundaries


def test_what_was_computed_ahead_is_dropped_where_somebody_speaks_on() -> None:
    oracle = PilotOracle(AFTER_A_PAUSE)
    session, _ = heard(oracle, 6.0, words=AFTER_A_PAUSE)
    first, second = (plan for plan in oracle.plans if plan.is_last)
    assert first.window.end < 4.5 * SAMPLE_RATE < second.window.end
    assert said(session.transcript.words) == said(AFTER_A_PAUSE)


def test_what_was_computed_ahead_is_not_used_with_other_settings() -> None:
    oracle = PilotOracle(WORDS)
    session, _ = heard(oracle, 4.55)
    count = len(oracle.plans)
    session.configure(step_s=1.0)  # nothing that a round depends on
    session.configure(prompt="Hello")
    session.push(audio_between(session.received, 5 * SAMPLE_RATE))
    assert [plan.is_last for plan in oracle.plans[count:]] == [True]
    assert said(session.transcript.words) == said(WORDS)


def test_what_is_being_computed_ahead_is_given_up_with_other_settings() -> None:
    slow = Slow(PilotOracle(WORDS))
    session, _ = heard(slow, 4.5, PILOT.replace(pilots_from_s=30.0))
    session.configure(prompt="Hello")
    session.push(audio_between(session.received, 5 * SAMPLE_RATE))
    assert [flying.cancelled for flying in slow.begun] == [True, False]
    assert said(session.transcript.words) == said(WORDS)


def test_after_other_settings_in_a_pause_there_is_a_snapshot_to_go_on_from() -> None:
    slow = Slow(PilotOracle(WORDS))
    session, _ = heard(slow, 4.5, PILOT.replace(pilots_from_s=30.0))
    session.configure(prompt="Hello")
    assert [flying.cancelled for flying in slow.begun] == [True]
    kept = session.snapshot()
    assert (kept.turns.in_flight, kept.turns.stale) == ([], set())
    for _ in range(2):
        session.push(audio_between(session.received, 5 * SAMPLE_RATE))
        assert said(session.transcript.words) == said(WORDS)
        session.restore(kept)


def test_a_last_round_ahead_that_is_under_way_when_speech_ends_is_waited_for() -> None:
    slow = Slow(PilotOracle(WORDS))
    recipe = PILOT.replace(pilots_from_s=30.0)
    session, _ = heard(slow, 4.5, recipe)
    assert [flying.plan.is_last for flying in slow.begun] == [True]
    session.push(audio_between(session.received, 5 * SAMPLE_RATE))
    assert not any(flying.cancelled for flying in slow.begun)
    assert said(session.transcript.words) == said(WORDS)


@pytest.mark.slow
@quick(6)
@given(data=st.data(), name=names)
def test_nothing_but_the_time_changes_with_what_is_computed_ahead(data: st.DataObject, name: str) -> None:
    talk = data.draw(talks())
    sizes = data.draw(st.composite(portions)(talk.duration))
    live = build(talk, RECIPES[name], gated=True)
    happened = play(live, sizes)
    recorded = Recorded(live.boundaries, live.loads)
    assert said_by(play(build(talk, RECIPES[name], gated=True, schedule=recorded), sizes)) == said_by(happened)


@pytest.mark.slow
@quick(6)
@given(data=st.data(), gated=st.booleans(), slow_s=st.sampled_from([0.2, 4.0]))
def test_where_audio_is_not_live_it_does_not_matter_how_long_rounds_take(
    data: st.DataObject, gated: bool, slow_s: float
) -> None:
    check_not_live(build, PILOT, data, gated, slow_s)
