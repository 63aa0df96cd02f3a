"""The rounds under way of one session: taken in order, and given up one by one or together."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from whispertide.errors import GraphError
from whispertide.options import DecodeOptions
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.stages import Pending
from whispertide.streaming.turn_state import PlannedRound, TurnState, Utterance
from whispertide.types import FloatArray


@dataclass(eq=False)
class Begun:
    plan: Any
    after: Pending | None
    done: bool = False
    cancelled: bool = False

    def result(self) -> RoundResult[Any]:
        if not self.done:
            raise GraphError("expected memory")
        return RoundResult(self.plan, None)

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Overlaps:
    """An executor that only notes what it is to begin."""

    depth: int = 3
    begun: list[Begun] = field(default_factory=list)

    def begin(self, plan: RoundPlan, audio: Any, options: Any, state: Any = None, after: Any = None) -> Begun:
        self.begun.append(Begun(plan, after))
        return self.begun[-1]

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class Plan:
    id: int


@pytest.fixture
def begun() -> tuple[TurnState, list[Begun]]:
    """Rounds 0, 1 and 2."""
    executor: Any = Overlaps()
    state = TurnState(utterance=Utterance(0, 0, policy=None, keep_from=0, last_end=0))
    for number in range(3):
        plan: Any = Plan(number)
        state.in_flight.append(PlannedRound(plan, 0, 0, recorded=False))
        state.begin(executor, np.zeros(1, np.float32), DecodeOptions())
    return state, executor.begun


def test_each_comes_after_the_one_before_it_and_the_oldest_is_taken(begun: tuple[TurnState, list[Begun]]) -> None:
    rounds, (first, second, third) = begun
    assert [each.after for each in (first, second, third)] == [None, first, second]
    assert not rounds.is_ready
    second.done = True
    assert not rounds.is_ready
    first.done = True
    assert rounds.is_ready
    assert rounds.oldest().plan == Plan(0)


def test_one_that_fails_stays_the_oldest(begun: tuple[TurnState, list[Begun]]) -> None:
    rounds, _ = begun
    with pytest.raises(GraphError):
        rounds.oldest()
    assert len(rounds.in_flight) == 3


def test_the_newest_or_all_are_given_up(begun: tuple[TurnState, list[Begun]]) -> None:
    rounds, every = begun
    rounds.give_up()
    assert [each.cancelled for each in every] == [False, False, True]
    rounds.abandon()
    assert all(each.cancelled for each in every)
    assert (rounds.in_flight, rounds.stale) == ([], set())


def test_results_of_rounds_that_are_computed_elsewhere_may_come_all_the_same() -> None:
    planned: list[Any] = [PlannedRound(Plan(number), 0, 0, recorded=False) for number in (5, 6)]  # type: ignore[arg-type]
    state = TurnState(utterance=Utterance(0, 0, policy=None, keep_from=0, last_end=0), in_flight=planned)
    state.give_up()
    assert state.stale == {6}
    state.give_up_all()
    assert (state.stale, state.in_flight) == ({5, 6}, [])


def test_a_copy_has_no_computations(begun: tuple[TurnState, list[Begun]]) -> None:
    rounds, _ = begun
    rounds.utterance = None
    assert all(planned.under_way is None for planned in rounds.copy().in_flight)
