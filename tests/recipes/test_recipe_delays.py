"""How soon words shall stand says how often there is a round."""

import pytest

from whispertide.methods.attention.steadiness import read_curve
from whispertide.recipes.catalogue import get_recipe


@pytest.mark.parametrize(("delay_s", "step_s"), [(0.0, 0.4), (0.35, 0.2), (0.94, 0.8), (1.5, 0.8)])
def test_where_words_may_wait_there_are_fewer_rounds(delay_s: float, step_s: float) -> None:
    recipe = get_recipe("tide").replace(delay_s=delay_s)
    assert recipe.schedule.step_s == pytest.approx(step_s)
    assert recipe.replace(delay_s=0.94).schedule.step_s == 0.8  # another wish replaces the one before


def test_a_step_that_somebody_asked_for_stays() -> None:
    tide = get_recipe("tide")
    for asked in (tide.replace(delay_s=1.5, step_s=0.3), tide.replace(delay_s=1.5).replace(step_s=0.3)):
        assert asked.schedule.step_s == 0.3
        assert asked.replace(delay_s=0.47, carry=3).schedule.step_s == 0.3
        assert asked.replace(rule="base").schedule.step_s == 0.3


def test_the_step_of_a_delay_follows_the_rule() -> None:
    asked = get_recipe("tide").replace(delay_s=0.5)
    assert asked.replace(rule="base").schedule.step_s == read_curve("base").patience(0.5).step_s
