"""What a recipe is: changed field by field, refused when impossible."""

import math
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


# Every number of a recipe: the least and the most that it may be. A pair of fields is one that another policy bounds.
RANGES: dict[str, tuple[float, float]] = {
    "step_s": (0.02, 30),
    "longest_step_s": (0.5, 30),  # from the step on
    "hush_s": (0.1, 5.0),
    "beam": (1, 64),
    "agreement": (2, 10),
    "trim_s": (1, 20),  # to the hard cap
    "window_s": (1, 20),
    "carry_most_s": (1, 20),
    "hard_cap_s": (4, 30),
    "prompt_chars": (0, 2000),
    "margin_s": (0, 30),
    "margin_last_s": (0, 30),
    "rewind_s": (0, 30),
    "backward_s": (0, 30),
    "attention_floor": (0, 1),
    "hold_s": (0, 30),
    "carry": (1, 20),
    "context_tokens": (0, 400),
    "beyond": (0, 224),
    "rescue_logprob": (-20, 0),
    "shed_s": (0, 30),
    "carry_back_s": (0, 30),
    "shift_median": (1, 101),  # odd
    "shift_average": (1, 100),
    "shift_from_s": (0, 30),
    "same_token": (0, 100),
    "doubt": (0, 1),
    "settle_s": (0, 30),
    "least_s": (0, 30),
    "silence_s": (0, 30),
    "max_tokens": (1, 400),
    "no_speech": (0, 1),
    "vad_pause_s": (0.1, 30),
    "vad_pre_roll_s": (0, 30),
    "lag_s": (0.1, 3600),
}
# Where a range depends on other fields: these, so that the table holds.
BOUNDED: dict[str, dict[str, Any]] = {
    "longest_step_s": {"schedule": "adaptive", "step_s": 0.5},
    "trim_s": {"hard_cap_s": 20.0, "policy": "local-agreement"},
    "window_s": {"hard_cap_s": 20.0, "policy": "align-att"},
    "carry_most_s": {"hard_cap_s": 20.0, "policy": "grounded"},
    "carry": {"policy": "align-att"},
}
PLAIN = Recipe(name="plain", trim_s=3.0, window_s=3.0)


def beyond(name: str, value: float, sign: int) -> float:
    """The next number that the field can hold."""
    if field_types()[name] is float:
        return math.nextafter(value, sign * math.inf)
    return value + sign * (2 if name == "shift_median" else 1)


def test_every_number_has_its_range() -> None:
    assert {name for name, kind in field_types().items() if kind in (int, float)} == set(RANGES)


@pytest.mark.parametrize("name", RANGES)
def test_a_number_may_be_its_least_and_its_most_and_nothing_beyond(name: str) -> None:
    recipe = PLAIN.replace(**BOUNDED.get(name, {}))
    for value, sign in zip(RANGES[name], (-1, 1), strict=True):
        assert getattr(recipe.replace(**{name: value}), name) == value
        with pytest.raises(OptionError, match=f"expected {name} between"):
            recipe.replace(**{name: beyond(name, value, sign)})


def test_only_the_window_of_its_own_policy_must_fit() -> None:
    """Grounded rounds carry over whatever they need where no most is set, and up to three words."""
    assert PLAIN.replace(policy="grounded").carry_most_s == 0
    for policy, name in {"local-agreement": "window_s", "align-att": "trim_s", "grounded": "trim_s"}.items():
        assert getattr(PLAIN.replace(**{"policy": policy, name: 99.0}), name) == 99
    with pytest.raises(OptionError, match="carry between 1 and 3"):
        PLAIN.replace(policy="grounded", carry=4)
    assert PLAIN.replace(policy="grounded", carry=3).carry == 3
    assert PLAIN.replace(step_s=20.0).longest_step_s == 2  # of adaptive schedules alone
    for median in range(1, 102, 2):
        assert PLAIN.replace(shift_median=median).shift_median == median
        with pytest.raises(OptionError, match="shift_median"):
            PLAIN.replace(shift_median=median + 1)


# policy, search, framing, executor -> whether they go together
TOGETHER = {
    ("local-agreement", "unrolled", "pad30", "serial"): False,
    ("align-att", "unrolled", "pad30", "serial"): True,
    ("grounded", "unrolled", "buckets", "serial"): True,
    ("align-att", "unrolled", "buckets-masked", "auto"): True,
    ("align-att", "unrolled", "bare", "serial"): False,
    ("align-att", "unrolled", "hush", "serial"): False,
    ("align-att", "unrolled", "auto", "serial"): False,
    ("align-att", "greedy", "bare", "serial"): True,
    ("local-agreement", "beam", "pad30", "pipelined"): True,
    ("align-att", "beam", "pad30", "pipelined"): False,
    ("grounded", "beam", "pad30", "pipelined"): False,
    ("align-att", "beam", "pad30", "auto"): True,
    ("local-agreement", "pruned", "auto", "pipelined"): True,
    ("align-att", "pruned", "pad30", "serial"): False,
    ("grounded", "verified", "pad30", "serial"): False,
    ("local-agreement", "verified", "hush", "serial"): True,
}


@pytest.mark.parametrize(("choices", "fits"), TOGETHER.items(), ids=map("-".join, TOGETHER))
def test_what_goes_together(choices: tuple[str, ...], fits: bool) -> None:
    changes: dict[str, Any] = dict(zip(("policy", "search", "framing", "executor"), choices, strict=True))
    if fits:
        PLAIN.replace(**changes)
    else:
        with pytest.raises(OptionError, match=r"expected (policy|search)="):
            PLAIN.replace(**changes)


def test_what_is_carried_over_at_most() -> None:
    """What the recipe says, or else two steps, but no more than half of the longest window."""
    assert PLAIN.replace(policy="grounded", carry_most_s=3.0).carried_s == 3
    assert PLAIN.replace(step_s=1.5).carried_s == 3
    assert PLAIN.replace(step_s=9.0, hard_cap_s=20.0).carried_s == 10


@pytest.mark.parametrize(("search", "most"), [("greedy", 1), ("beam", 7), ("pruned", 7), ("verified", 7)])
def test_hypotheses_at_most(search: str, most: int) -> None:
    assert PLAIN.replace(search=search, beam=7).hypotheses == most
    assert PLAIN.replace(search="unrolled", policy="align-att", beam=7).hypotheses == 1


def test_an_unknown_field_is_named_with_those_like_it() -> None:
    with pytest.raises(OptionError, match="got 'aaa'"):
        PLAIN.replace(zzz=1, aaa=2)
    with pytest.raises(OptionError, match=r"did you mean shift_row or shift_from_s or shift_guard\?"):
        parse_overrides(PLAIN, ["shift_ro=1"])
    with pytest.raises(OptionError, match="got 'names'; there are"):
        parse_overrides(PLAIN, ["names=1"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("yes", True),
        ("on", True),
        ("1", True),
        ("false", False),
        ("no", False),
        ("OFF", False),
        ("0", False),
    ],
)
def test_a_switch_is_typed_in_many_ways(text: str, value: bool) -> None:
    assert parse_overrides(PLAIN, [f"vad={text}"]).vad is value
    assert parse_overrides(PLAIN, [f"must_speak={text}"]).must_speak is value
