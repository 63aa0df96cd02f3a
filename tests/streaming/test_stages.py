"""The rounds under way of one session: taken in order, and given up by their ids or together."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from whispertide.errors import GraphError
from whispertide.options import DecodeOptions
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.stages import Pending, UnderWay
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
def begun() -> tuple[UnderWay, list[Begun]]:
    """Rounds 0, 1 and 2."""
    rounds, executor = UnderWay(), Overlaps()
    for number in range(3):
        rounds.begin(executor, Plan(number), None, DecodeOptions(), None)  # type: ignore[arg-type]
    return rounds, executor.begun


def test_each_comes_after_the_one_before_it_and_the_oldest_is_taken(begun: tuple[UnderWay, list[Begun]]) -> None:
    rounds, (first, second, third) = begun
    assert [each.after for each in (first, second, third)] == [None, first, second]
    assert not rounds.is_ready
    second.done = True
    assert not rounds.is_ready
    first.done = True
    assert rounds.is_ready
    assert (rounds.take().plan, len(rounds)) == (Plan(0), 2)


def test_one_that_fails_stays_the_oldest(begun: tuple[UnderWay, list[Begun]]) -> None:
    rounds, _ = begun
    with pytest.raises(GraphError):
        rounds.take()
    assert len(rounds) == 3


def test_some_or_all_are_given_up(begun: tuple[UnderWay, list[Begun]]) -> None:
    rounds, (first, second, third) = begun
    assert rounds.give_up({1, 7}) == {1}
    assert [each.cancelled for each in (first, second, third)] == [False, True, False]
    assert rounds.give_up() == {0, 2}
    assert not rounds
    assert first.cancelled
    assert third.cancelled
