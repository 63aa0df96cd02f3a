"""How quality falls and rises with the load."""

from each_row import each_row
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import RECIPES, get_recipe
from whispertide.server.load import FALL_S, LEVELS, RISE_S, Load, settings_at


def late(load: Load, factor: float, seconds: float, now: float) -> float:
    """Rounds that take `factor` steps, for so many seconds."""
    for _ in range(round(10 * seconds)):
        now += 0.1
        load.note(factor, 1.0, now)
    return now


def test_quality_falls_step_by_step_and_comes_back_slowly() -> None:
    load = Load()
    now = late(load, 3.0, 1.0, 0.0)
    assert load.level == 0, "a moment is not enough"
    now = late(load, 3.0, RISE_S + 0.3, now)
    assert load.level == 1
    now = late(load, 3.0, 10, now)
    assert load.level == LEVELS
    assert load.overloaded
    now = late(load, 0.1, FALL_S / 2, now)
    assert load.level == LEVELS
    assert not load.overloaded
    late(load, 0.1, 5 * FALL_S, now)
    assert load.level == 0


def test_quality_stays_where_rounds_are_in_time() -> None:
    load = Load()
    late(load, 0.9, 60, 0.0)
    assert load.level == 0


def test_without_degrading_sessions_are_only_refused() -> None:
    load = Load(enabled=False)
    late(load, 3.0, 20, 0.0)
    assert load.level == 0
    assert load.overloaded


@each_row("name", list(RECIPES))
def test_every_level_is_a_recipe_and_level_0_restores_it(name: str) -> None:
    recipe, options = get_recipe(name), DecodeOptions()
    for level in range(LEVELS + 1):
        values = settings_at(level, recipe, options)
        changed = recipe.replace(**{name: value for name, value in values.items() if name != "temperatures"})
        assert (changed == recipe) or level > 0
    assert settings_at(3, recipe, options)["step_s"] == 2 * recipe.schedule.step_s
