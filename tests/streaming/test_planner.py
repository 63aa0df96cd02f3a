"""Which round comes next, and what is remembered of those in flight: sample counts alone, without audio and words.

Where utterances and turns end under a session, and what of that the events say: `test_turns`.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from whispertide.audio.vad import SpeechStarted, SpeechStopped
from whispertide.errors import SessionError
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.streaming.planner import RoundPlanner
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.schedule import Adaptive, Fixed, Recorded
from whispertide.streaming.searches import Greedy
from whispertide.streaming.turn_state import TurnState
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, Span, Word, align_down

S = SAMPLE_RATE


@dataclass
class Memory:
    """A window from `start` on."""

    start: int

    def copy(self) -> "Memory":
        return Memory(self.start)


class Plain:
    """A policy whose windows are `longest` at most, and that moves them as a test says."""

    def __init__(self, longest: int = 10 * S) -> None:
        self.longest = longest
        self.keep = 0
        self.goes_on = False

    def start(self, at: int, after: Any = None) -> Memory:
        return Memory(align_down(at))

    def limit(self, state: Memory) -> int:
        return state.start + self.longest

    def plan(
        self, state: Memory, frontier: int, *, search: Any, round_id: int, is_last: bool, load: int = 0
    ) -> RoundPlan:
        return RoundPlan(round_id, Span(state.start, frontier), SinglePass(), is_last=is_last, level=load)

    def apply(self, state: Memory, result: RoundResult[Any]) -> Commit:
        state.start = align_down(max(state.start, self.keep))
        return Commit((), (), state.start, goes_on=self.goes_on)


@dataclass
class Planned:
    """A planner, and what it told."""

    planner: RoundPlanner
    policy: Plain
    told: list[str] = field(default_factory=list)

    @property
    def state(self) -> TurnState:
        return self.planner.state

    def round(self) -> RoundPlan:
        """The next round, which must be due."""
        plan = self.planner.due()
        assert plan is not None
        return plan

    def done(self, plan: RoundPlan) -> bool:
        """Take a round's result; whether it mattered."""
        taken = self.planner.take(RoundResult(plan))
        if taken is not None:
            self.planner.land(taken[0])
        return taken is not None


def planning(
    schedule: Any = None, *, gated: bool = False, live: bool = False, in_flight: int = 1, longest: int = 10 * S
) -> Planned:
    planner, policy = RoundPlanner(gated=gated, live=live, max_in_flight=in_flight), Plain(longest)
    found = Planned(planner, policy)
    usual: Any = SimpleNamespace(schedule=Fixed(step_s=1.0), policy=policy, search=Greedy())
    planner.choices, planner.schedule, planner.state = usual, schedule or usual.schedule, TurnState()

    def emit(kind: type, at: int, **values: Any) -> None:
        found.told.append(kind.__name__)

    def confirm(word: Word, at: int) -> None:
        found.told.append(word.text)

    planner.emit, planner.confirm = emit, confirm
    return found


def ends(plan: RoundPlan | None) -> tuple[int, int, bool]:
    assert plan is not None
    return plan.window.start, plan.window.end, plan.is_last


def test_a_round_is_due_when_the_schedule_says_so() -> None:
    stream = planning()
    stream.planner.receive(S - 1)
    assert stream.planner.due() is None
    stream.planner.receive(1)
    plan = stream.round()
    assert ends(plan) == (0, S, False)
    assert stream.planner.due() is None  # the next one needs its result
    assert stream.done(plan)
    stream.planner.receive(3 * S)
    assert ends(stream.planner.due()) == (0, 4 * S, False)
    assert stream.state.boundaries == [S, 4 * S]


def test_results_come_in_the_order_of_the_rounds() -> None:
    stream = planning(in_flight=2)
    with pytest.raises(SessionError, match="no round is in flight"):
        stream.done(RoundPlan(0, Span(0, S), SinglePass()))
    stream.planner.receive(S)
    first = stream.round()
    stream.planner.receive(S)
    second = stream.round()
    with pytest.raises(SessionError, match=f"expected round {first.id}; got round {second.id}"):
        stream.done(second)
    with pytest.raises(SessionError, match="newest"):
        stream.planner.retract(first)
    stream.planner.retract(second)
    assert stream.state.boundaries == [S]
    assert ends(stream.round()) == ends(second)  # as if it had not been planned


def test_a_window_that_is_full_has_to_make_room_first() -> None:
    stream = planning(in_flight=2, longest=2 * S)
    stream.planner.receive(3 * S)
    plan = stream.round()
    assert ends(plan) == (0, 2 * S, False)
    assert stream.planner.needs_result
    assert stream.planner.due() is None
    stream.policy.keep = S
    stream.done(plan)
    assert not stream.planner.needs_result
    assert ends(stream.round()) == (S, 3 * S, False)


def test_more_audio_than_a_window_holds_takes_several_rounds_at_the_end() -> None:
    stream = planning(longest=2 * S)
    stream.planner.receive(3 * S)
    stream.planner.request("finish")
    assert stream.planner.finishing
    first = stream.round()
    assert ends(first) == (0, 2 * S, False)
    stream.policy.keep = 2 * S
    stream.done(first)
    last = stream.round()
    assert ends(last) == (2 * S, 3 * S, True)
    stream.done(last)
    assert stream.planner.due() is None
    assert stream.told[-1] == "End"
    assert stream.state.ended


def test_a_last_round_whose_policy_goes_on_was_none() -> None:
    stream = planning()
    stream.planner.receive(S)
    stream.planner.request("flush")
    plan = stream.round()
    stream.policy.goes_on, stream.policy.keep = True, S // 2
    stream.done(plan)
    assert stream.told == []
    stream.policy.goes_on = False
    again = stream.round()
    assert ends(again) == (align_down(S // 2), S, True)
    stream.done(again)
    assert stream.told == ["TurnEnd"]


def test_what_a_gate_hears_counts_from_when_it_was_decided_on() -> None:
    stream = planning(gated=True)
    stream.planner.receive(2 * S, [SpeechStarted(S, S + 4_000, True)])
    plan = stream.round()
    assert ends(plan) == (S, 2 * S, False)
    stream.done(plan)
    stream.planner.receive(2 * S, [SpeechStopped(3 * S, 3 * S + 8_000)])
    last = stream.round()
    assert ends(last) == (S, 3 * S, True)
    stream.done(last)
    assert stream.told == ["SpeechStart", "SpeechStop", "Unheard", "TurnEnd"]
    assert stream.state.floor == 3 * S


def test_audio_is_needed_for_the_window_and_for_rounds_in_flight() -> None:
    stream = planning(gated=True)
    stream.planner.receive(S)
    assert stream.planner.needed_from(700) == align_down(700)  # an utterance may begin there
    stream.planner.receive(S, [SpeechStarted(S, S + 4_000, True)])
    assert stream.planner.needed_from(2 * S) == S
    plan = stream.round()
    stream.policy.keep = S + S // 2
    assert stream.planner.needed_from(2 * S) == S
    stream.done(plan)
    assert stream.planner.needed_from(2 * S) == align_down(S + S // 2)
    assert stream.planner.needed_from(2 * S) % FRAME_SAMPLES == 0


def test_what_is_cleared_does_not_matter_any_more() -> None:
    stream = planning(gated=True)
    stream.planner.receive(2 * S, [SpeechStarted(S, S + 4_000, True)])
    plan = stream.round()
    stream.planner.clear()
    assert stream.told == ["SpeechStart", "SpeechStop"]
    assert not stream.done(plan)  # its result comes all the same
    assert stream.state.stale == set()
    assert stream.planner.due() is None
    assert stream.planner.needed_from(2 * S) == 2 * S


def test_time_spent_counts_where_audio_is_live_alone() -> None:
    for live, step in ((True, 2 * S), (False, S)):
        stream = planning(Adaptive(step_s=1.0, longest_step_s=4.0), live=live)
        stream.planner.receive(S)
        plan = stream.round()
        result: RoundResult[Any] = RoundResult(plan)
        object.__setattr__(result.stats, "encode_s", 1.0)
        taken = stream.planner.take(result)
        assert taken is not None
        stream.planner.land(taken[0])
        stream.planner.receive(step - 1)
        assert stream.planner.due() is None
        stream.planner.receive(1)
        assert ends(stream.planner.due())[1] == S + step


def test_a_replay_has_the_rounds_of_its_record_and_no_lateness() -> None:
    stream = planning(Recorded((S, 3 * S), (0, 7)))
    stream.planner.receive(5 * S)
    first = stream.round()
    assert ends(first) == (0, S, False)
    taken = stream.planner.take(RoundResult(first))
    assert taken is not None
    assert stream.planner.behind(taken[0]) == 0
    second = stream.round()
    assert (ends(second), second.level) == ((0, 3 * S, False), 7)
    stream.done(second)
    assert stream.planner.due() is None


def test_a_live_stream_is_late_by_what_came_after_its_round() -> None:
    stream = planning(live=True)
    stream.planner.receive(S)
    plan = stream.round()
    stream.planner.receive(3 * S)
    taken = stream.planner.take(RoundResult(plan))
    assert taken is not None
    assert stream.planner.behind(taken[0]) == 3 * S
    stream.planner.request("flush")
    assert stream.planner.behind(taken[0]) == 0  # what is asked for is on its way
