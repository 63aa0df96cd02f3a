"""What each field of a recipe may be: its least, its most, its names, and any recipe of these."""

import math
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whispertide.checkpoint.mask import MaskName
from whispertide.errors import OptionError
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.attention.grounded import Grounded
from whispertide.methods.attention.steadiness import FEATURES
from whispertide.methods.attention.tide import Tide
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import CHOICES, Recipe
from whispertide.streaming.choice import Choice, field_types
from whispertide.streaming.schedule import Adaptive, Fixed

PLAIN = Recipe("plain")
BASE = get_recipe("whisper-streaming")
EVERY = [choice for named in CHOICES.values() for choice in named.values()]
# Every number: the least and the most that it may be. Fields of one name mean the same in all choices.
RANGES: dict[str, tuple[float, float]] = {
    "step_s": (0.02, 30),
    "longest_step_s": (0.02, 30),
    "vad_pause_s": (0.1, 30),
    "vad_turn_s": (0, 30),
    "vad_pre_roll_s": (0, 30),
    "lag_s": (0.1, 3600),
    "turn_threshold": (0, 1),
    "turn_eager": (0, 1),
    "turn_timeout_s": (0.2, 60),
    "hush_s": (0.1, 5.0),
    "zeros_s": (0, 30),
    "whole_s": (0, 30),
    "stand_for_all": (1, 1500),
    "beam": (1, 64),
    "agreement": (2, 10),
    "trim_s": (1, 30),
    "prompt_chars": (0, 2000),
    "least_probability": (0, 1),
    "max_revision_rate": (0, 0.5),
    "min_shown_probability": (0, 0.99),
    "drop_below": (0, 1),
    "settle_s": (0, 30),
    "delay_s": (0, 2),
    "hard_cap_s": (4, 30),
    "no_speech": (0, 1),
    "shift_median": (1, 101),
    "shift_average": (1, 100),
    "shift_from_s": (0, 30),
    "least_s": (0, 30),
    "silence_s": (0, 30),
    "short_s": (0, 30),
    "max_tokens": (1, 400),
    "context_tokens": (0, 400),
    "margin_s": (0, 30),
    "margin_last_s": (0, 30),
    "rewind_s": (0, 30),
    "backward_s": (0, 30),
    "attention_floor": (0, 1),
    "window_s": (1, 30),
    "reopen_s": (0, 30),
    "carry": (1, 20),
    "lookahead_tokens": (0, 224),
    "guess_least": (0, 1),
    "rescue_logprob": (-20, 0),
    "rescue_beam": (1, 64),
    "overload_s": (0, 30),
    "near_end_s": (0, 30),
    "way": (1, 3),
    "carry_back_s": (0, 30),
    "carry_most_s": (1, 30),
    "same_token": (0, 100),
    "block_s": (0.04, 1.0),
    "first_s": (0.04, 2.0),
    "confirm_s": (0, 30),
    "stuck_s": (0, 30),
    "stream_s": (4, 29),
    "rescored": (0, 20),
    "most_tokens": (1, 200),
    "hold": (1, 20),
    "least_logprob": (-20, 0),
    "stop_tokens": (0, 224),
    "stop_ratio": (1.1, 20),
    "pilots_from_s": (0.02, 30),
    "pilot_beam": (1, 64),
    "pilot_tokens": (1, 224),
    "allowance": (0, 224),
    "threshold": (0, 1e6),
    "remote_s": (0.05, 60),
    "tries": (1, 10),
}


OTHERWISE = {("stable", "carry"): (0, 20)}  # where a choice has another range than the rest


def range_of(choice: type[Choice], name: str) -> tuple[float, float]:
    return OTHERWISE.get((choice.kind, name), RANGES[name])


# What else may be written: the names.
NAMES = {
    "turn_end": ("pause", "smart-turn"),
    "compare": ("normalised", "exact"),
    "boundary": ("align", "time"),
    "trim": ("segment", "sentence"),
    "truncate": ("none", "last-word", "detector"),
    "shift_row": ("predicting", "fed"),
    "word_times": ("dtw", "attended", "checked"),
    "align": ("bigram", "time", "first"),
    "follows": ("heard", "shown"),
    "holds": ("either", "both", "best"),
    "cut": ("cursor", "full"),
    "mask": get_args(MaskName),
    "offramp": ("perplexity", "entropy", "random"),
}


# What is free text: some of what may be written.
TEXTS = {"rule": ("", " ".join(["0.5"] * len(FEATURES)))}


# Fields that bound others are out of the way here.
ROOM: dict[str, dict[str, float]] = {
    "turn_eager": {"turn_threshold": 1.0},
    "step_s": {"longest_step_s": 30.0},
    "longest_step_s": {"step_s": 0.02},
    "hard_cap_s": {"trim_s": 1.0, "window_s": 1.0, "carry_most_s": 1.0},
    "trim_s": {"hard_cap_s": 30.0},
    "window_s": {"hard_cap_s": 30.0},
    "carry_most_s": {"hard_cap_s": 30.0},
}


NUMBERS = [(one, name) for one in EVERY for name, kind in field_types(one).items() if kind in (int, float)]


def beyond(kind: Any, name: str, value: float, sign: int) -> float:
    """The next number that the field can hold."""
    return (
        math.nextafter(value, sign * math.inf) if kind is float else value + sign * (2 if name == "shift_median" else 1)
    )


def test_the_tables_are_complete() -> None:
    assert {name for _, name in NUMBERS} == RANGES.keys()
    every = {name: kind for one in EVERY for name, kind in field_types(one).items() if name not in RANGES}
    assert {name for name, kind in every.items() if kind is str} == TEXTS.keys()
    others = {name: kind for name, kind in every.items() if name not in TEXTS}
    assert {name: get_args(kind) for name, kind in others.items() if kind is not bool} == NAMES
    assert all(kind is bool or get_origin(kind) is Literal for kind in others.values())


@pytest.mark.parametrize("choice", EVERY)
def test_every_choice_and_field_says_what_it_is(choice: type[Choice]) -> None:
    assert choice.__doc__
    assert choice.__doc__.strip()
    for item in (each for each in fields(choice) if each.init):
        about = item.metadata["about"]
        assert len(about) > 5, item.name
        assert not about.endswith("."), "the fields are listed as parts of a sentence"
        ranged = field_types(choice)[item.name] in (int, float)
        declared = (item.metadata["least"], item.metadata["most"])
        assert declared == (range_of(choice, item.name) if ranged else (None, None)), item.name


@pytest.mark.parametrize("name", RANGES)
def test_a_number_may_be_its_least_and_its_most_and_nothing_beyond(name: str) -> None:
    for choice in (one for one, other in NUMBERS if other == name):
        kind = field_types(choice)[name]
        room = {other: value for other, value in ROOM.get(name, {}).items() if other in field_types(choice)}
        for value, sign in zip(range_of(choice, name), (-1, 1), strict=True):
            assert getattr(choice(**room, **{name: value}), name) == value
            with pytest.raises(OptionError, match=f"expected {name} between"):
                choice(**room, **{name: beyond(kind, name, value, sign)})


@pytest.mark.parametrize(
    ("choice", "name", "bound", "most"),
    [
        (LocalAgreement, "trim_s", "hard_cap_s", 28.0),
        (Tide, "window_s", "hard_cap_s", 28.0),
        (Grounded, "carry_most_s", "hard_cap_s", 28.0),
    ],
)
def test_a_usual_window_fits_into_the_longest(choice: type[Choice], name: str, bound: str, most: float) -> None:
    choice(**{name: most})
    choice(**{name: 9.0, bound: 9.0})
    for wrong in ({name: math.nextafter(most, 99)}, {name: 9.5, bound: 9.0}):
        with pytest.raises(OptionError, match=f"expected {name} between 1 and {wrong.get(bound, most):g}"):
            choice(**wrong)


def test_the_longest_step_is_no_shorter_than_the_step() -> None:
    assert Adaptive(step_s=1.5, longest_step_s=1.5).longest_step_s == 1.5
    with pytest.raises(OptionError, match=r"longest_step_s between 1\.5 and 30; got 1\.4"):
        Adaptive(step_s=1.5, longest_step_s=1.4)
    assert Fixed(step_s=20.0).step_s == 20


def test_a_median_has_a_middle() -> None:
    for median in range(1, 102, 2):
        assert Grounded(shift_median=median).shift_median == median
        with pytest.raises(OptionError, match="shift_median"):
            Grounded(shift_median=median + 1)


@st.composite
def changed(draw: st.DrawFn, choice: type[Choice]) -> Choice:
    """The choice with some of its fields changed."""
    values: dict[str, Any] = {}
    for name in draw(st.sets(st.sampled_from(sorted(field_types(choice))), max_size=4)) if field_types(choice) else ():
        kind = field_types(choice)[name]
        if kind is bool:
            values[name] = draw(st.booleans())
        elif name in NAMES:
            values[name] = draw(st.sampled_from(NAMES[name]))
        elif name in TEXTS:
            values[name] = draw(st.sampled_from(TEXTS[name]))
        else:
            least, most = range_of(choice, name)
            numbers = st.integers(int(least), int(most)) if kind is int else st.floats(least, most)
            values[name] = draw(numbers)
    try:
        return choice(**values)
    except OptionError:  # fields that bound each other
        return choice()


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    drawn = {axis: draw(changed(draw(st.sampled_from(list(named.values()))))) for axis, named in CHOICES.items()}
    try:
        return Recipe(draw(st.text(max_size=5)), **drawn)  # type: ignore[arg-type]
    except OptionError:
        framing = BASE.framing if drawn["framing"].kind == "blocks" else drawn["framing"]
        return Recipe("plain", schedule=drawn["schedule"], framing=framing)  # type: ignore[arg-type]


@given(recipe=recipes())
def test_any_recipe_comes_out_of_its_settings(recipe: Recipe) -> None:
    assert recipe.replace(**recipe.settings()) == recipe
    assert PLAIN.replace(name=recipe.name, **recipe.settings()) == recipe
    assert all(recipe.has(name) for name in recipe.settings())


@given(other=recipes(), recipe=recipes())
@example(other=BASE.replace(step_s=3.0), recipe=Recipe("x", schedule=Adaptive()))
def test_whatever_the_recipe_was_before(other: Recipe, recipe: Recipe) -> None:
    assert other.replace(name=recipe.name, **recipe.settings()) == recipe
