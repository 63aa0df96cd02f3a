"""When rounds start."""

import pytest

from whispertide.errors import OptionError
from whispertide.streaming.schedule import Adaptive, BestEffort, Fixed, Recorded, Schedule


def test_a_fixed_step_waits_for_the_step_and_then_takes_all() -> None:
    schedule = Fixed(step_s=1.0)
    assert schedule.frontier(last=0, known=0, received=15_999) is None
    assert schedule.frontier(last=0, known=0, received=16_000) == 16_000
    assert schedule.frontier(last=0, known=0, received=50_000) == 50_000
    assert schedule.frontier(last=50_000, known=0, received=65_999) is None


def test_best_effort_takes_whatever_has_arrived() -> None:
    assert BestEffort(step_s=0.02).frontier(last=100, known=0, received=419) is None
    assert BestEffort(step_s=0.02).frontier(last=100, known=0, received=420) == 420
    assert BestEffort(step_s=0.05).frontier(last=100, known=0, received=899) is None
    assert BestEffort(step_s=0.05).frontier(last=100, known=0, received=9_500) == 9_500


def test_a_record_is_replayed_boundary_by_boundary_however_much_has_arrived() -> None:
    schedule = Recorded((10, 20, 35))
    assert schedule.frontier(last=0, known=0, received=9) is None
    assert schedule.frontier(last=0, known=0, received=100) == 10
    assert schedule.frontier(last=10, known=0, received=100) == 20
    assert schedule.frontier(last=20, known=0, received=34) is None
    assert schedule.frontier(last=20, known=0, received=35) == 35
    assert schedule.frontier(last=35, known=0, received=100) is None
    assert Recorded((10, 11)).frontier(last=10, known=0, received=100) == 11


def test_boundaries_before_an_utterance_was_known_of_belong_to_no_round() -> None:
    assert Recorded((10, 20, 35)).frontier(last=5, known=15, received=100) == 20
    assert Recorded((10, 20, 35)).frontier(last=5, known=20, received=100) == 20


def test_only_a_record_is_recorded() -> None:
    assert [s.recorded for s in (Fixed(), BestEffort(), Adaptive(), Recorded(()))] == [False] * 3 + [True]


def test_impossible_schedules_are_refused() -> None:
    for kind in (Fixed, BestEffort, Adaptive):
        with pytest.raises(OptionError, match=r"step_s between 0\.02 and 30; got 0"):
            kind(step_s=0)
    for boundaries in ((0,), (5, 5), (7, 3)):
        with pytest.raises(OptionError, match="positive and rise"):
            Recorded(boundaries)


def test_adaptive_leaves_half_of_the_time() -> None:
    schedule = Adaptive(step_s=0.25, longest_step_s=2.0)
    assert schedule.frontier(0, 0, 3_999) is None
    assert schedule.frontier(0, 0, 4_000) == 4_000
    assert schedule.frontier(0, 0, 9_000) == 9_000  # all that has arrived
    assert schedule.frontier(0, 0, 11_999, spent=6_000) is None
    assert schedule.frontier(0, 0, 12_000, spent=6_000) == 12_000
    assert schedule.frontier(0, 0, 32_000, spent=100_000) == 32_000


@pytest.mark.parametrize("schedule", [Fixed(step_s=0.25), BestEffort(step_s=0.25), Adaptive(step_s=0.25)])
def test_only_what_computing_takes_of_a_step_is_load(schedule: Schedule) -> None:
    assert schedule.load(100, 32_100, spent=1_000) == 0  # a large portion came in
    assert schedule.load(100, 32_100, spent=2_000) == 0  # as long as steps are anyway
    assert schedule.load(100, 32_100, spent=3_000) == 6_000
    assert schedule.load(100, 32_100, spent=40_000) == 32_000
    assert schedule.load(100, 32_100, spent=3_000, waited=20_000) == 20_000


def test_recorded_rounds_have_the_load_of_then() -> None:
    schedule = Recorded((10, 20, 35), (0, 7, 0))
    assert [schedule.load(0, end, spent=10**6) for end in (10, 20, 35)] == [0, 7, 0]
    assert Recorded((10, 20)).load(0, 20, spent=10**6) == 0
    with pytest.raises(OptionError, match="load for each"):
        Recorded((10, 20), (1,))


def test_adaptive_needs_possible_steps() -> None:
    assert Adaptive(step_s=0.02, longest_step_s=0.02).frontier(0, 0, 320, spent=10**6) == 320
    for step_s, longest_s, message in ((0.5, 0.4, r"longest_step_s between 0\.5 and 30; got 0\.4"), (0, 1, "step_s")):
        with pytest.raises(OptionError, match=message):
            Adaptive(step_s=step_s, longest_step_s=longest_s)
