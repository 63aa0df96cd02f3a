"""When the end of a turn is asked for, of what audio, and what is said of the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from oracle import TruthDetector, audio_between, speech
from told_turns import ToldEar
from whispertide.audio.silero import BLOCK
from whispertide.audio.vad import (
    GateEvent,
    GateOptions,
    SpeechCertain,
    SpeechGate,
    SpeechStarted,
    SpeechStopped,
    TurnJudged,
)
from whispertide.errors import GraphError, OptionError
from whispertide.streaming.end_of_turn import TurnLimits
from whispertide.streaming.turn_gate import ASKED_AT, TurnGate
from whispertide.types import SAMPLE_RATE, FloatArray, Word, to_samples

S = SAMPLE_RATE
ONE = speech(("one", 1.024, 2.048))
TWO = (*ONE, *speech(("two", 3.072, 4.096)))  # a second of silence between them
SPOKEN = to_samples(2.048)


def turn_gate(words: Sequence[Word], ear: ToldEar, limits: TurnLimits | None = None, **options: float) -> TurnGate:
    return TurnGate(SpeechGate(GateOptions(**options), TruthDetector(words)), ear, limits or TurnLimits())


def run(gate: TurnGate, until_s: float, portion: int = BLOCK) -> list[GateEvent]:
    end = to_samples(until_s)
    events = [gate.feed(audio_between(at, min(at + portion, end))) for at in range(0, end, portion)]
    return [event for part in events for event in part if not isinstance(event, SpeechCertain)]


def judged(events: Sequence[GateEvent]) -> list[TurnJudged]:
    return [event for event in events if isinstance(event, TurnJudged)]


def in_blocks(samples: int) -> int:
    """The end of the block in which so much audio is complete."""
    return -(-samples // BLOCK) * BLOCK


def test_a_sure_answer_ends_the_turn_before_a_pause_could() -> None:
    gate, at = turn_gate(ONE, ToldEar([0.9])), in_blocks(SPOKEN + ASKED_AT)
    start, stop, over = run(gate, 6.0)
    assert isinstance(start, SpeechStarted)
    assert stop == SpeechStopped(at, at)
    assert over == TurnJudged(at, is_over=True, confidence=0.9)
    assert at < SPOKEN + 0.3 * S


def test_in_doubt_the_utterance_ends_in_its_pause_and_the_turn_by_the_timeout() -> None:
    ear = ToldEar([0.1])
    _, stop, over = run(turn_gate(ONE, ear), 6.0)
    assert isinstance(stop, SpeechStopped)
    assert (stop.end, stop.decided_at) == (SPOKEN + to_samples(0.3), in_blocks(SPOKEN + S // 2))
    assert over == TurnJudged(in_blocks(SPOKEN + 3 * S), is_over=True, confidence=0.1)
    assert len(ear.heard) == 1


def test_the_timeout_ends_the_turn_whatever_the_answers() -> None:
    ear = ToldEar([0.3])
    events = run(turn_gate(ONE, ear, TurnLimits(timeout_s=2.5)), 8.0)
    assert judged(events) == [TurnJudged(in_blocks(SPOKEN + 5 * S // 2), is_over=True, confidence=0.3)]
    assert len(ear.heard) == 1
    soon = run(turn_gate(ONE, ToldEar([0.3]), TurnLimits(timeout_s=0.3)), 8.0)
    assert [type(event) for event in soon] == [SpeechStarted, SpeechStopped, TurnJudged]


def test_a_threshold_of_one_leaves_it_to_the_timeout() -> None:
    (over,) = judged(run(turn_gate(ONE, ToldEar([1.0]), TurnLimits(threshold=1.0)), 8.0))
    assert over.decided_at == in_blocks(SPOKEN + 3 * S)


def test_a_turn_that_may_be_over_is_told_once_a_pause() -> None:
    limits = TurnLimits(threshold=0.8, eager=0.4, timeout_s=3.0)
    events = run(turn_gate(TWO, ToldEar([0.5, 0.6]), limits), 8.0)
    kinds = [type(event) for event in events]
    eager = [SpeechStarted, SpeechStopped, TurnJudged]
    assert kinds == [*eager, *eager, TurnJudged]
    assert [(event.is_over, event.confidence) for event in judged(events)] == [(False, 0.5), (False, 0.6), (True, 0.6)]
    assert isinstance(events[1], SpeechStopped)
    assert events[1].decided_at == in_blocks(SPOKEN + ASKED_AT)  # so its words are confirmed at once


def test_what_is_heard_is_the_turn_from_shortly_before_its_first_word_on() -> None:
    ear = ToldEar([0.0, 0.9])
    run(turn_gate(TWO, ear), 6.0)
    start = ear.heard[0]
    opened = to_samples(1.024) + 3 * BLOCK  # three blocks open the gate
    first = opened - to_samples(0.5)
    np.testing.assert_array_equal(start, audio_between(first, in_blocks(SPOKEN + ASKED_AT)))
    # The second word belongs to the same turn.
    np.testing.assert_array_equal(ear.heard[-1], audio_between(first, in_blocks(to_samples(4.096) + ASKED_AT)))


def test_of_a_long_turn_the_last_seconds_are_heard() -> None:
    ear = ToldEar([0.9], longest=to_samples(2))
    run(turn_gate(speech(("long", 0.512, 6.144)), ear), 8.0)
    end = in_blocks(to_samples(6.144) + ASKED_AT)
    np.testing.assert_array_equal(ear.heard[0], audio_between(end - to_samples(2), end))


def test_a_click_is_no_turn() -> None:
    ear = ToldEar([0.9])
    click = speech(("click", 1.024, 1.12))  # three blocks: too short for a voice
    assert [type(event) for event in run(turn_gate(click, ear), 8.0)] == [SpeechStarted, SpeechStopped]
    assert ear.heard == []


def test_a_click_does_not_put_off_the_end_of_a_turn() -> None:
    click = (*ONE, *speech(("click", 4.096, 4.192)))
    (over,) = judged(run(turn_gate(click, ToldEar([0.1])), 8.0))
    # Only while the gate does not know what it is.
    assert in_blocks(SPOKEN + 3 * S) <= over.decided_at <= in_blocks(SPOKEN + 3 * S + S // 2)


def test_the_end_that_the_caller_asks_for_is_that_of_the_turn() -> None:
    ear = ToldEar([0.1])
    gate = turn_gate(ONE, ear)
    run(gate, 3.2)
    assert gate.finish() == []  # the utterance is over, the turn was not
    assert judged([event for at in range(20) for event in gate.feed(audio_between(at * BLOCK, (at + 1) * BLOCK))]) == []


def test_limits_may_change_while_it_runs() -> None:
    gate = turn_gate(TWO, ToldEar([0.6]), TurnLimits(threshold=0.9))
    assert judged(run(gate, 2.5)) == []
    gate.limits = TurnLimits(threshold=0.5)
    (over,) = judged(gate.feed(audio_between(to_samples(2.5), to_samples(4.5))))
    assert over.confidence == 0.6


@dataclass
class FailingEar(ToldEar):
    """Fails the first times that it is asked."""

    fails: int = 2

    def probability(self, audio: FloatArray) -> float:
        if self.fails:
            self.fails -= 1
            raise GraphError("no memory")
        return ToldEar.probability(self, audio)


@pytest.mark.parametrize("portion", [160, BLOCK, 5000, 10 * S])
def test_where_asking_fails_nothing_was_taken(portion: int) -> None:
    """The same audio can be fed again: no sample is lost or heard twice, and no event is missing."""
    ear, failed, at, end = FailingEar([0.0, 0.9]), 0, 0, 6 * S
    gate, events = turn_gate(TWO, ear), list[GateEvent]()
    while at < end:
        samples, before = audio_between(at, min(at + portion, end)), gate.snapshot()
        try:
            events += gate.feed(samples)
            at += len(samples)
        except GraphError:
            failed += 1
            after = gate.snapshot()
            assert (after.gate.judged, after.start, after.spoken) == (before.gate.judged, before.start, before.spoken)
            assert after.audio.end == at
    sound = ToldEar([0.0, 0.9])
    assert failed == 2
    assert events == turn_gate(TWO, sound).feed(audio_between(0, end))
    for heard, expected in zip(ear.heard, sound.heard, strict=True):
        np.testing.assert_array_equal(heard, expected)


@pytest.mark.slow
@quick(25)
@given(st.lists(st.integers(1, 3 * S), max_size=12), st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_portions_and_snapshots_change_nothing(cuts: list[int], answers: list[float]) -> None:
    limits = TurnLimits(threshold=0.8, eager=0.4)
    whole = turn_gate(TWO, ToldEar(answers), limits).feed(audio_between(0, 8 * S))
    ear = ToldEar(answers)
    gate, events = turn_gate(TWO, ear, limits), []
    edges = sorted({0, *(sum(cuts[:count]) % (8 * S) for count in range(len(cuts))), 8 * S})
    for start, end in pairwise(edges):
        again = turn_gate(TWO, ear, limits)
        again.restore(gate.snapshot())
        gate = again
        events += gate.feed(audio_between(start, end))
    assert events == whole


@pytest.mark.parametrize("wrong", [{"threshold": 1.1}, {"eager": 0.6}, {"timeout_s": 0.1}, {"threshold": float("nan")}])
def test_impossible_limits_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=f"expected {next(iter(wrong))} between"):
        TurnLimits(**wrong)
