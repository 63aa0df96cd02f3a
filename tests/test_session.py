"""A session step by step; what holds for every stream is in test_session_properties."""

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oracle import Oracle, audio_between, make_gate, speech
from session_steps import PAUSED, RECIPE, TALK, confirmed, exact, kinds, push, said
from whispertide.errors import AudioError, OptionError, UnknownRecipeError
from whispertide.events import Confirmed, End, Hypothesis, Lag, RoundStats, TurnEnd
from whispertide.methods.agreement.local_agreement import AgreementState, LocalAgreement
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.session import Session
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.schedule import Recorded
from whispertide.types import SAMPLE_RATE, Span

S = SAMPLE_RATE


# --- simple use -----------------------------------------------------------------------------------------------------


def test_speech_becomes_words() -> None:
    session = Session(RECIPE, exact())
    events = push(session, 2.0)
    assert kinds(events) == ["hypothesis", "confirmed", "hypothesis"]
    assert confirmed(events) == "one"
    events = push(session, 4.0) + session.finish()
    assert confirmed(events) == "two three four five six"
    assert events[-2:] == [TurnEnd(events[-2].seq, 4 * S, 4 * S), End(events[-1].seq, 4 * S, 4 * S)]
    assert said(session.transcript.words) == "one two three four five six"


def test_the_final_text_is_that_of_the_whole_audio_at_once() -> None:
    streamed = Session(RECIPE, exact())
    push(streamed, 4.3)
    streamed.finish()
    whole = Session(RECIPE, exact())
    whole.push(audio_between(0, round(4.3 * S)))
    whole.finish()
    assert said(streamed.transcript.words) == said(whole.transcript.words) == said(TALK)


def test_events_say_when_and_what_they_cost() -> None:
    class Busy(Oracle):
        def run(self, plan: RoundPlan, *args: Any) -> RoundResult[Any]:
            result = super().run(plan, *args)
            return RoundResult(plan, result.heard, stats=RoundStats(decode_s=0.25, tokens=7))

    session = Session(RECIPE, Busy(TALK))
    events = push(session, 2.0)
    assert [event.at for event in events] == [S, 2 * S, 2 * S]
    first, second = (RoundStats(i, 0, (i + 1) * S, decode_s=0.25, tokens=7) for i in (0, 1))
    told = [event.stats for event in events if isinstance(event, Hypothesis | Confirmed)]
    assert told == [first, second, second]
    session.flush()
    (shown,) = push(session, 3.0)
    assert isinstance(shown, Hypothesis)
    assert shown.stats == RoundStats(3, 2 * S, 3 * S, decode_s=0.25, tokens=7)


def test_a_guess_that_the_last_round_does_not_hear_goes_at_the_end_of_its_turn() -> None:
    class Deaf(Oracle):
        def run(self, plan: RoundPlan, *args: Any) -> RoundResult[Any]:
            result = super().run(plan, *args)
            return RoundResult(plan, stats=RoundStats(tokens=7)) if plan.is_last else result

    session = Session(RECIPE, Deaf(TALK))
    push(session, 1.0)
    assert session.transcript.hypothesis
    gone = session.finish()[0]
    assert isinstance(gone, Hypothesis)
    assert (gone.at, gone.words, gone.stats) == (S, (), RoundStats(1, 0, S, tokens=7))


def test_a_guess_is_shown_without_loops_whatever_the_policy_and_what_is_confirmed_stays() -> None:
    loop = speech(*(("rich" if i % 2 else "she", 5 + 0.25 * i, 5.25 + 0.25 * i) for i in range(6)))

    class Looping(LocalAgreement):
        def apply(self, state: AgreementState, result: RoundResult[Any]) -> Commit:
            commit = super().apply(state, result)
            return commit if result.plan.is_last else replace(commit, hypothesis=(*commit.hypothesis, *loop))

    def played(*, loop_guard: bool) -> tuple[list[str], str]:
        session = Session(RECIPE.replace(policy=Looping(loop_guard=loop_guard)), exact())
        events = push(session, 8.0) + session.finish()
        return [said(event.words) for event in events if isinstance(event, Hypothesis)], confirmed(events)

    (guesses, text), (raw, same) = played(loop_guard=True), played(loop_guard=False)
    assert text == same == "one two three four five six"
    assert {guess.count("she rich") for guess in raw if guess} == {3}
    assert {guess.count("she rich") for guess in guesses if guess} == {1}


def test_in_noise_unlikely_words_are_not_written_but_single_ones_are() -> None:
    class Muttering(LocalAgreement):
        def apply(self, state: AgreementState, result: RoundResult[Any]) -> Commit:
            commit = super().apply(state, result)
            return replace(commit, confirmed=tuple(replace(word, probability=0.2) for word in commit.confirmed))

    def written(until: float, **settings: Any) -> str:
        recipe = RECIPE.replace(policy=Muttering(**settings))
        session = Session(recipe, exact(PAUSED))
        events = push(session, 4.5) + session.flush()
        state = session.snapshot()  # what is known of the words before goes with it
        session = Session(recipe, exact(PAUSED))
        session.restore(state)
        return confirmed(events + push(session, until) + session.finish())

    assert written(10.5) == "one two three four five six seven eight"
    assert written(9.4, drop_below=0.5).split()[-1] == "seven"
    assert "four" not in written(9.4, drop_below=0.5)


def test_an_utterance_shorter_than_anything_is_decoded() -> None:
    oracle = exact()
    session = Session(RECIPE, oracle)
    session.push(audio_between(0, 1))
    session.finish()
    assert [(plan.window, plan.is_last) for plan in oracle.plans] == [(Span(0, 1), True)]


def test_no_audio_at_all() -> None:
    session = Session(RECIPE, exact())
    assert session.finish() == [End(0, 0, 0)]
    session = Session(RECIPE, exact())
    assert session.push(np.zeros(0, np.float32)) == []
    assert kinds(session.finish()) == ["end"]


def test_a_whole_file_in_one_push_loses_nothing() -> None:
    words = speech(*((f"w{i}", i, i + 0.7) for i in range(100)))
    session = Session(RECIPE, exact(words))
    session.push(audio_between(0, 101 * S))
    session.finish()
    assert said(session.transcript.words) == said(words)


def test_a_session_is_made_by_the_name_of_its_recipe() -> None:
    assert Session("whisper-streaming").recipe == RECIPE
    with pytest.raises(UnknownRecipeError):
        Session("tsunami")


# --- audio that comes in --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([0.0, 0.1], "expected samples as a numpy array.*got list"),
        (b"\0\0", "got bytes"),
        (np.zeros(10, np.int32), "float32, float64 or int16; got an array of int32"),
        (np.zeros(10, np.complex64), "got an array of complex64"),
        (np.zeros((10, 2), np.float32), r"shape \[n\] at 16 kHz; got shape \[10, 2\]"),
        (np.float32(1.0), "got float32"),
    ],
)
def test_what_is_no_audio_is_refused(samples: Any, message: str) -> None:
    session = Session(RECIPE, exact())
    with pytest.raises(AudioError, match=message):
        session.push(samples)
    assert session.received == 0


def test_other_sample_types_are_converted() -> None:
    session = Session(RECIPE)
    session.ingest(np.array([-32768, 0, 16384], np.int16))
    session.ingest(np.array([0.25, -0.5], np.float64))
    session.request("flush")
    plan = session.due()
    assert plan is not None
    audio = session.window(plan)
    assert audio.dtype == np.float32
    np.testing.assert_array_equal(audio, np.array([-1, 0, 0.5, 0.25, -0.5], np.float32))
    assert session.replaced == 0


def test_what_are_no_numbers_becomes_silence_and_is_counted() -> None:
    session = Session(RECIPE)
    session.ingest(np.array([0.5, np.nan, -np.inf, 2.0], np.float32))
    session.ingest(np.array([1e300], np.float64))
    session.request("flush")
    plan = session.due()
    assert plan is not None
    np.testing.assert_array_equal(session.window(plan), np.array([0.5, 0, 0, 2, 0], np.float32))
    assert session.replaced == 3


def test_pushed_arrays_are_copied() -> None:
    session = Session(RECIPE)
    block = np.full(4, 0.5, np.float32)
    session.ingest(block)
    block[:] = 0
    session.request("flush")
    plan = session.due()
    assert plan is not None
    assert session.window(plan).tolist() == [0.5] * 4


# --- snapshots ---


def test_a_session_that_nobody_has_is_gone_at_once() -> None:
    """Its audio does not wait for the collector of cycles."""
    gc.disable()
    try:
        session = Session(RECIPE, exact(PAUSED), make_gate(PAUSED))
        push(session, 4.0)
        gone = weakref.ref(session)
        del session
        assert gone() is None
    finally:
        gc.enable()


def test_from_a_snapshot_the_same_audio_gives_the_same_events_again() -> None:
    session = Session(RECIPE, exact(PAUSED), make_gate(PAUSED))
    push(session, 2.0)
    kept = session.snapshot()
    futures = []
    for _ in range(2):
        futures.append(push(session, 12.0) + session.finish())
        assert session.ended
        session.restore(kept)
        assert (session.received, session.ended) == (2 * S, False)
        assert said(session.transcript.words) == "one"
    assert futures[0] == futures[1]
    assert confirmed(futures[0]) == "two three four five six seven eight"


def test_a_snapshot_has_the_events_that_nobody_took() -> None:
    session = Session(RECIPE)
    session.request("flush")
    assert session.due() is None
    kept = session.snapshot()
    for _ in range(2):
        assert session.drain() == [TurnEnd(0, 0, 0)]
        assert session.drain() == []
        session.restore(kept)


# --- settings -------------------------------------------------------------------------------------------------------


def test_settings_reach_the_next_round() -> None:
    oracle = exact()
    session = Session(RECIPE, oracle, options=DecodeOptions(language="en", prompt="Hello"))
    push(session, 1.0)
    assert oracle.options == DecodeOptions(language="en", prompt="Hello", beam=5)
    session.configure(language="de", search="greedy", step_s=0.5, hard_cap_s=20)
    push(session, 1.5)
    assert oracle.options == DecodeOptions(language="de", prompt="Hello", beam=1)
    assert [plan.window.end for plan in oracle.plans] == [S, 3 * S // 2]
    assert session.recipe == RECIPE.replace(search="greedy", step_s=0.5, hard_cap_s=20)


def test_options_that_a_recipe_has_no_use_for_are_warned_of() -> None:
    """A stream that only grows is told no text before it; how many tokens a round adds is a setting of its policy."""
    asked = DecodeOptions(prompt="Ebbe, Flut", max_tokens=9)
    with pytest.warns(UserWarning, match=r"recipe whisperrt.*without effect: prompt, max_tokens$"):
        session = Session("whisperrt", options=asked)
    with pytest.warns(UserWarning, match="without effect: prompt$"):
        session.configure(max_tokens=None)
    for recipe in ("tide", "whisper-streaming", "simulstreaming", "pilot"):
        Session(recipe, options=asked).configure(prompt="")  # the tests take a warning for an error
    Session("whisperrt", options=DecodeOptions(beam=2, keyterms=("Ebbe",)))


def test_another_delay_of_words_has_its_step() -> None:
    session = Session(get_recipe("tide"), exact())
    session.configure(delay_s=1.5)
    assert session.recipe.schedule.step_s == 0.8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"langage": "de"}, r"settings that can change: schedule, .*step_s.*language.*; got langage"),
        ({"vad": False}, "settings that can change in a session; got vad: start another"),
        ({"framing": "bare", "beam": 1}, "; got framing:"),
        ({"vad_pause_s": 1.0, "executor": "auto", "step_s": 2.0}, "; got executor, vad_pause_s:"),
        ({"policy": "align-att"}, "; got policy:"),
        ({"margin_s": 0.2}, "'margin_s' belongs to policy=align-att or policy=tide"),
        ({"step_s": -1.0, "language": "de"}, "step_s between"),
        ({"step_s": 2.0, "task": "sing"}, "task to be one of"),
        ({"step_s": 2.0, "patience": 0.05}, r"beam \* patience >= 1; got 5 and 0.05"),
    ],
)
def test_impossible_settings_change_nothing(changes: dict[str, Any], message: str) -> None:
    session = Session(RECIPE, exact())
    with pytest.raises(OptionError, match=message):
        session.configure(**changes)
    assert session.recipe == RECIPE
    assert session.options == DecodeOptions(beam=5)


def test_windows_get_no_shorter_than_the_utterance_that_is_being_heard() -> None:
    session = Session(RECIPE, exact())
    push(session, 8.0)
    with pytest.raises(OptionError, match=r"room for the 8.0 s .* windows of at most 5 s: change them after its end"):
        session.configure(hard_cap_s=5, trim_s=3)
    assert session.recipe == RECIPE
    session.configure(hard_cap_s=10, trim_s=3)
    session.flush()
    session.configure(hard_cap_s=5)
    push(session, 16.0)
    session.finish()
    assert said(session.transcript.words) == said(TALK)


# --- lag ------------------------------------------------------------------------------------------------------------


def test_falling_behind_is_told_and_so_is_catching_up() -> None:
    oracle = exact()
    session = Session(RECIPE.replace(lag_s=2))
    told: list[tuple[float, int]] = []

    def rounds(arrived_meanwhile: float) -> None:
        plan = session.due()
        assert plan is not None
        session.ingest(audio_between(session.received, session.received + round(arrived_meanwhile * S)))
        events = session.apply(oracle.run(plan, session.window(plan), session.options))
        lags = [event for event in events if isinstance(event, Lag)]
        assert all(event.at == plan.window.end for event in lags)
        told.extend((event.behind / S, event.level) for event in lags)

    session.ingest(audio_between(0, S))
    for arrived in (1.0, 1.9, 2.5, 3.0, 4.5, 1.5, 0.9):
        rounds(arrived)
    # Late by more than 2 s, by more than 4 s, less than 2 s (not worth a word yet), at most 1 s.
    assert told == [(2.5, 0), (4.5, 0), (0.9, 0)]  # nothing lowers quality here
    session.ingest(audio_between(session.received, session.received + S))
    rounds(3.0)
    session.request("flush")
    rounds(2.5)  # what comes after a flush is not late
    assert told[3:] == [(3.0, 0), (0.0, 0)]


def test_a_schedule_of_ones_own_stays_when_settings_change() -> None:
    session = Session(RECIPE, exact(), schedule=Recorded((S // 2, 3 * S)))
    session.configure(language="de")
    session.push(audio_between(0, 4 * S))
    assert session.boundaries == (S // 2, 3 * S)


def test_a_replay_is_never_late() -> None:
    oracle = exact()
    session = Session(RECIPE.replace(lag_s=1), oracle, schedule=Recorded((S, 2 * S)))
    assert not [event for event in session.push(audio_between(0, 20 * S)) if isinstance(event, Lag)]


def test_whoever_holds_audio_back_says_how_much() -> None:
    session = Session(RECIPE.replace(lag_s=1), exact())
    session.tells_lag = False
    assert not [event for event in session.push(audio_between(0, 8 * S)) if isinstance(event, Lag)]
    session.note_lag(8 * S, 3 * S, 2)
    session.note_lag(9 * S, 3 * S, 2)  # no news
    assert [(event.at, event.behind, event.level) for event in session.drain() if isinstance(event, Lag)] == [
        (8 * S, 3 * S, 2)
    ]
