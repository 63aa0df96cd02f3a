"""The planner's memory: rounds that are taken back or disowned, and copies to go on from."""

from dataclasses import dataclass
from typing import Any

import pytest

from whispertide.audio.vad import SpeechCertain, SpeechStarted, SpeechStopped
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.turn_state import EndRequest, PlannedRound, TurnState, Utterance
from whispertide.types import Span


@dataclass
class Memory:
    """A policy's state."""

    words: int = 0

    def copy(self) -> "Memory":
        return Memory(self.words)


class Begun:
    """A round under way."""

    def __init__(self, result: Any = None) -> None:
        self.done = result is not None
        self.found = result
        self.cancelled = False

    def result(self) -> Any:
        return self.found

    def cancel(self) -> None:
        self.cancelled = True


def plan(number: int, end: int = 32_000) -> RoundPlan:
    return RoundPlan(number, Span(0, end), SinglePass())


def state(*rounds: PlannedRound) -> TurnState:
    utterance = Utterance(0, 1_000, Memory(), 0, last_end=3_000, last_planned=True)
    return TurnState(
        utterance=utterance, in_flight=list(rounds), boundaries=[1_000 * n for n in range(1, 4)], loads=[0, 0, 9]
    )


def planned(number: int, *, recorded: bool = True, under_way: Any = None) -> PlannedRound:
    return PlannedRound(plan(number), 32_000, last_end=2_000, recorded=recorded, under_way=under_way)


def test_what_the_gate_says_is_kept_in_order_and_certainty_apart() -> None:
    turns = TurnState()
    turns.hear([SpeechStarted(0, 100, False), SpeechCertain(300), SpeechStopped(500, 700), SpeechStarted(900, 950)])
    assert turns.certain == [300, *([950] if SpeechStarted(900, 950).is_certain else [])]
    assert [type(event).__name__ for event in turns.gate_events] == ["SpeechStarted", "SpeechStopped", "SpeechStarted"]
    click = Utterance(0, 100, Memory(), 0, 0)
    assert not turns.is_certain(click, 299)
    assert turns.is_certain(click, 300)


def test_a_stop_counts_from_when_it_was_decided_on() -> None:
    turns = TurnState(gate_events=[SpeechStopped(500, 700), SpeechStarted(900, 950)])
    assert turns.next_stop(699) is None
    assert turns.next_stop(700) == SpeechStopped(500, 700)
    assert turns.next_stop(10_000) is None  # what comes next is no stop
    assert len(turns.gate_events) == 1


def test_a_round_that_is_taken_back_was_never_planned() -> None:
    begun = Begun()
    turns = state(planned(1), planned(2, under_way=begun))
    turns.take_back()
    assert [each.plan.id for each in turns.in_flight] == [1]
    assert turns.utterance is not None
    assert (turns.utterance.last_end, turns.utterance.last_planned) == (2_000, False)
    assert (turns.boundaries, turns.loads) == ([1_000, 2_000], [0, 0])
    assert begun.cancelled
    assert turns.stale == set()


def test_a_round_that_is_no_part_of_the_record_leaves_it_alone() -> None:
    turns = state(planned(1, recorded=False))
    turns.take_back()
    assert turns.boundaries == [1_000, 2_000, 3_000]


def test_a_result_that_nobody_wants_is_ignored_where_it_may_come_all_the_same() -> None:
    begun = Begun()
    turns = state(planned(1, under_way=begun), planned(2))
    turns.give_up()  # computed elsewhere: who computes it cannot always stop
    assert turns.stale == {2}
    turns.give_up_all()
    assert (turns.stale, turns.in_flight, begun.cancelled) == ({2}, [], True)
    assert turns.boundaries == [1_000, 2_000]


def test_all_rounds_go_where_one_is_under_way() -> None:
    one, two = Begun(), Begun()
    turns = state(planned(1, under_way=one), planned(2, under_way=two))
    turns.abandon()
    assert (turns.in_flight, one.cancelled, two.cancelled) == ([], True, True)
    turns.in_flight.append(planned(3))
    turns.abandon()
    assert len(turns.in_flight) == 1  # computed elsewhere


def test_the_oldest_result_is_ready_once_it_is_there() -> None:
    first: RoundResult[Any] = RoundResult(plan(1))
    assert not state(planned(1)).is_ready
    assert not state(planned(1, under_way=Begun())).is_ready
    turns = state(planned(1, under_way=Begun(first)), planned(2, under_way=Begun()))
    assert turns.is_ready
    assert turns.oldest() is first


def test_a_round_begins_after_what_the_one_before_it_left() -> None:
    left = EncoderState({}, 7)
    given: list[Any] = []

    class Once:
        def run(self, plan: RoundPlan, audio: Any, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
            given.append(state)
            return RoundResult(plan, state=left)

    turns = state(planned(1), planned(2))
    assert turns.utterance is not None
    turns.utterance.encoder = None
    last = turns.in_flight.pop()
    turns.begin(Once(), None, DecodeOptions())  # type: ignore[arg-type]
    turns.in_flight.append(last)
    turns.begin(Once(), None, DecodeOptions())  # type: ignore[arg-type]
    assert given == [None, left]


@pytest.mark.parametrize("always", [False, True])
def test_a_turn_stays_open_in_mid_sentence(always: bool) -> None:
    turns = state()
    utterance = turns.utterance
    assert utterance is not None
    assert not turns.leave_open(utterance, 5_000, always=always)  # a noise
    utterance.spoken, utterance.language = True, "de"
    assert turns.leave_open(utterance, 5_000, always=always) is always
    utterance.unfinished = True
    assert turns.leave_open(utterance, 6_000, always=always)
    assert turns.turn is not None
    assert (turns.turn.end, turns.turn.language) == (6_000, "de")
    noise = Utterance(0, 0, Memory(), 0, 0)
    assert turns.leave_open(noise, 9_000, always=always)
    assert turns.turn.end == 6_000  # it does not put off the end of a turn


def test_the_record_is_forgotten_but_for_what_can_be_taken_back() -> None:
    turns = state(planned(1), planned(2, recorded=False))
    turns.forget()
    assert (turns.boundaries, turns.loads) == ([3_000], [9])


def test_a_copy_is_a_place_to_go_on_from() -> None:
    turns = state(planned(1, under_way=Begun()))
    turns.requests.append(EndRequest("flush", 5_000))
    copy = turns.copy()
    assert copy.in_flight[0].under_way is None
    assert copy.utterance is not None
    copy.utterance.policy.words = 5
    copy.take_back()
    copy.requests.clear()
    copy.stale.add(3)
    copy.hear([SpeechCertain(1)])
    assert turns.utterance is not None
    assert turns.utterance.policy.words == 0
    before = state(planned(1))
    before.requests.append(EndRequest("flush", 5_000))
    assert turns == before
