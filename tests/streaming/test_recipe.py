"""What a recipe is: changed field by field, refused when impossible."""

from typing import Any

import pytest

from whispertide.errors import OptionError
from whispertide.streaming.recipe import Recipe, field_types, parse_overrides
from whispertide.streaming.recipes import get_recipe

BASE, SIMUL, NPUSPER, TIDE = (get_recipe(name) for name in ("whisper-streaming", "simulstreaming", "npusper", "tide"))


@pytest.mark.parametrize(
    ("setting", "field", "value"),
    [
        ("step_s=0.5", "step_s", 0.5),
        ("step_s=2", "step_s", 2.0),
        ("step-s = 1e-1 ", "step_s", 0.1),
        ("beam=1", "beam", 1),
        ("vad=off", "vad", False),
        ("vad=Yes", "vad", True),
        ("search=greedy", "search", "greedy"),
        ("search=pruned", "search", "pruned"),
        ("prune_align=first", "prune_align", "first"),
        ("prune-recover=off", "prune_recover", False),
        ("compare=exact", "compare", "exact"),
        ("name=mine", "name", "mine"),
    ],
)
def test_overrides_are_typed(setting: str, field: str, value: object) -> None:
    changed = parse_overrides(BASE, [setting])
    assert getattr(changed, field) == value
    assert type(getattr(changed, field)) is type(value)
    assert BASE.replace(**{field: value}) == changed


def test_the_last_override_counts_and_none_changes_nothing() -> None:
    assert parse_overrides(BASE, []) == BASE
    assert parse_overrides(BASE, ["beam=2", "beam=3"]).beam == 3
    # Fields that bound each other may come in any order.
    assert parse_overrides(BASE, ["trim_s=20", "hard_cap_s=22"]) == parse_overrides(
        BASE, ["hard_cap_s=22", "trim_s=20"]
    )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("stepp=1", "expected a field of a recipe; got 'stepp'; did you mean step_s"),
        ("qqq=1", "got 'qqq'; there are: schedule, step_s, .*lag_s$"),
        ("step_s", "FIELD=VALUE.*got 'step_s'"),
        ("step_s=fast", "step_s to be a number; got 'fast'"),
        ("step_s=nan", "step_s between 0.02 and 30; got nan"),
        ("step_s=0", "step_s between"),
        ("beam=2.5", "beam to be a whole number; got '2.5'"),
        ("beam=0", "beam between 1 and 64; got 0"),
        ("vad=maybe", "vad to be true or false; got 'maybe'"),
        ("search=dowsing", "search to be one of greedy, beam, unrolled, pruned, verified; got 'dowsing'"),
        ("agreement=1", "agreement between 2 and 10; got 1"),
        ("hard_cap_s=31", "hard_cap_s between 4 and 30; got 31"),
        ("trim_s=29", "trim_s between 1 and 28; got 29"),
        ("no_speech=2", "no_speech between 0 and 1"),
    ],
)
def test_impossible_overrides_are_refused(setting: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_overrides(BASE, [setting])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stepp": 1}, "expected a field of a recipe; got 'stepp'; did you mean step_s"),
        ({"step_s": "1"}, "step_s to be of type float; got '1'"),
        ({"beam": True}, "beam to be of type int; got True"),
        ({"vad": 1}, "vad to be of type bool; got 1"),
        ({"search": None}, "search to be one of"),
    ],
)
def test_impossible_changes_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        BASE.replace(**changes)


def test_every_field_is_documented() -> None:
    assert Recipe.__doc__ is not None
    assert all(
        f"{name} " in Recipe.__doc__ or f"`{name}`" in Recipe.__doc__ for name in field_types() if name != "name"
    )


@pytest.mark.parametrize(
    ("recipe", "setting", "message"),
    [
        (TIDE, "window_s=21", "window_s between 1 and 20"),
        (NPUSPER, "carry=4", "carry between 1 and 3"),
        (NPUSPER, "shift_median=6", "shift_median to be odd"),
        (TIDE, "longest_step_s=0.1", "longest_step_s between 0.3 and 30"),
        (TIDE, "rescue_logprob=1", "rescue_logprob between -20 and 0"),
        (SIMUL, "truncate=maybe", "truncate to be one of none, last-word, near-end, detector"),
        (TIDE, "search=pruned", "policy=local-agreement with search=pruned.*got policy=align-att"),
        (NPUSPER, "search=verified", "policy=local-agreement with search=verified.*got policy=grounded"),
        (BASE, "prune_align=last", "prune_align to be one of bigram, time, first; got 'last'"),
        (SIMUL, "framing=buckets3", "framing to be one of pad30, bare, buckets, buckets-masked"),
    ],
)
def test_impossible_settings_of_the_other_policies(recipe: Recipe, setting: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_overrides(recipe, [setting])
