"""What a recipe is: five choices, changed field by field or exchanged, refused when impossible."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, get_args, get_origin

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from each_row import each_row
from whispertide.checkpoint.mask import MaskName
from whispertide.errors import OptionError
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.grounded import Grounded
from whispertide.methods.attention.steadiness import FEATURES
from whispertide.methods.attention.tide import Tide
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import RECIPES, get_recipe
from whispertide.recipes.recipe import CHOICES, Recipe, divided, every_field, parse_overrides
from whispertide.streaming.choice import Choice, field_types, setting
from whispertide.streaming.executors import Pipelined, Serial
from whispertide.streaming.framing import BARE, Buckets, Framing, Pad30
from whispertide.streaming.schedule import Adaptive, BestEffort, Fixed
from whispertide.streaming.searches import Beam, Greedy, Pruned, Verified

PLAIN = Recipe("plain")
BASE, SIMUL, NPUSPER, TIDE = (get_recipe(name) for name in ("whisper-streaming", "simulstreaming", "npusper", "tide"))
EVERY = [choice for named in CHOICES.values() for choice in named.values()]


def test_a_recipe_that_says_nothing() -> None:
    assert Recipe("x", Fixed(), Pad30(), Beam(), LocalAgreement(), Serial()) == Recipe("x") != PLAIN
    assert PLAIN.choices == {
        "schedule": Fixed(),
        "framing": Pad30(),
        "search": Beam(),
        "policy": LocalAgreement(),
        "executor": Serial(),
    }


# --- changes as they are typed ----------------------------------------------------------------------------------------


@each_row(
    ("text", "changed"),
    [
        ("step_s=0.5", replace(BASE, schedule=Fixed(step_s=0.5))),
        ("step_s=2", replace(BASE, schedule=Fixed(step_s=2.0))),
        ("step-s = 1e-1 ", replace(BASE, schedule=Fixed(step_s=0.1))),
        ("schedule.step_s=0.1", replace(BASE, schedule=Fixed(step_s=0.1))),
        ("beam=1", replace(BASE, search=Beam(beam=1))),
        ("search.beam=1", replace(BASE, search=Beam(beam=1))),
        ("vad=off", replace(BASE, schedule=Fixed(vad=False))),
        ("vad=Yes", BASE),
        ("compare=exact", replace(BASE, policy=LocalAgreement(compare="exact"))),
        ("policy.trim-s=9", replace(BASE, policy=LocalAgreement(trim_s=9.0))),
        ("search=greedy", replace(BASE, search=Greedy())),
        ("framing=bare", replace(BASE, framing=BARE)),
        ("executor=pipelined", replace(BASE, executor=Pipelined())),
        ("policy=grounded", replace(BASE, policy=Grounded())),
        ("name=mine", replace(BASE, name="mine")),
    ],
)
def test_overrides_are_typed(text: str, changed: Recipe) -> None:
    found = parse_overrides(BASE, [text])
    assert found == changed
    assert [type(value) for value in found.settings().values()] == [type(v) for v in changed.settings().values()]


def test_the_last_override_counts_and_none_changes_nothing() -> None:
    assert parse_overrides(BASE, []) == BASE
    assert parse_overrides(BASE, ["beam=2", "beam=3"]).search == Beam(beam=3)
    assert parse_overrides(BASE, ["search=greedy", "search=beam"]) == BASE


def test_of_two_names_of_a_field_the_last_counts() -> None:
    for short, full, one, two in [
        ("step_s", "schedule.step_s", 0.5, 1.5),
        ("lag_s", "schedule.lag_s", 2.0, 3.0),
        ("beam", "search.beam", 2, 3),
        ("trim_s", "policy.trim_s", 9.0, 12.0),
        ("hard_cap_s", "policy.hard_cap_s", 27.0, 28.0),
    ]:
        for first, last in ((short, full), (full, short)):
            found = parse_overrides(BASE, [f"{first}={one}", f"{last}={two}"])
            assert found == BASE.replace(**{short: two})
            assert parse_overrides(BASE, [f"{last}={one}", f"{first}={one}", f"{last}={two}"]) == found


def test_of_wrong_overrides_the_first_is_named() -> None:
    wrong = [f"wrong{number}=1" for number in range(8)]
    for texts in (wrong, wrong[::-1]):
        with pytest.raises(OptionError, match=f"got '{texts[0][:6]}'"):
            parse_overrides(BASE, texts)


def test_overrides_may_come_in_any_order() -> None:
    """Fields that bound each other, and a choice with fields that only it has."""
    for texts in (["trim_s=20", "hard_cap_s=22"], ["hard_cap_s=4", "trim_s=4"]):
        assert parse_overrides(BASE, texts) == parse_overrides(BASE, texts[::-1])
    for texts in (["search=pruned", "align=first", "recover=no"], ["align=first", "recover=no", "search=pruned"]):
        assert parse_overrides(BASE, texts).search == Pruned(align="first", recover=False)
    for texts in (["framing=buckets", "masked=true"], ["framing.masked=true", "framing=buckets"]):
        assert parse_overrides(BASE, texts).framing == Buckets(masked=True)
    assert parse_overrides(BASE, ["margin_s=0.3", "policy=align-att"]).policy == AlignAtt(margin_s=0.3)


@each_row(
    ("text", "message"),
    [
        ("stepp=1", "expected a field of a recipe; got 'stepp'; did you mean step_s"),
        ("foo=1", "expected a field of a recipe; got 'foo'; there are: schedule"),
        ("qqq=1", "got 'qqq'; there are: schedule, framing, search, policy, executor, step_s, .*settle_s$"),
        ("step_s", "FIELD=VALUE, for example step_s=0.5; got 'step_s'"),
        ("step_s=fast", "step_s to be a number; got 'fast'"),
        ("step_s=nan", "step_s between 0.02 and 30; got nan"),
        ("step_s=0", "step_s between"),
        ("schedule.step_s=0", "step_s between"),
        ("beam=2.5", "beam to be a whole number; got '2.5'"),
        ("beam=0", "beam between 1 and 64; got 0"),
        ("vad=maybe", "vad to be true or false; got 'maybe'"),
        ("search=dowsing", "search to be one of greedy, beam, pruned, verified; got 'dowsing'"),
        (
            "framing=buckets-masked",
            "framing to be one of pad30, bare, buckets, zeros, merged, hush, masked, auto, blocks; "
            "got 'buckets-masked'",
        ),
        ("agreement=1", "agreement between 2 and 10; got 1"),
        ("hard_cap_s=31", "hard_cap_s between 4 and 30; got 31"),
        ("trim_s=29", "trim_s between 1 and 28; got 29"),
        ("no_speech=2", "no_speech between 0 and 1"),
        (
            "margin_s=0.3",
            r"recipe \(.*policy=local-agreement.*'margin_s' belongs to policy=align-att or policy=tide$",
        ),
        ("align=time", "'align' belongs to search=pruned or search=verified$"),
        ("near_end_s=1", "'near_end_s' belongs to policy=grounded$"),
        ("hush_s=1", r"\(schedule=fixed, framing=pad30, .*'hush_s' belongs to framing=hush$"),
        ("longest_step_s=2", "'longest_step_s' belongs to schedule=adaptive or schedule=pilots$"),
        ("shift_guard=on", "'shift_guard' belongs to policy=tide or policy=grounded$"),
        ("policy.step_s=1", "expected a field of policy=local-agreement; got 'step_s'; it has hard_cap_s, "),
        ("executor.beam=1", "expected a field of executor=serial; got 'beam'; it has no fields"),
        ("policies.trim_s=1", "expected a field of"),
        ("carry=3", "'carry' belongs to policy=tide or policy=stable$"),
    ],
)
def test_impossible_overrides_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_overrides(BASE, [text])


@each_row(
    ("recipe", "text", "message"),
    [
        (TIDE, "window_s=21", "window_s between 1 and 20"),
        (TIDE, "longest_step_s=0.1", "longest_step_s between 0.4 and 30"),
        (TIDE, "rescue_logprob=1", "rescue_logprob between -20 and 0"),
        (SIMUL, "truncate=maybe", "truncate to be one of none, last-word, detector; got 'maybe'"),
        (NPUSPER, "way=4", "way between 1 and 3"),
        (NPUSPER, "carry_most_s=31", "carry_most_s between 1 and 30"),
        (NPUSPER, "shift_median=6", "shift_median to be odd; got 6"),
        (NPUSPER, "margin_s=1", "'margin_s' belongs to policy=align-att or policy=tide$"),
        (TIDE, "truncate=none", "'truncate' belongs to policy=align-att$"),
        (SIMUL, "delay_s=1", "'delay_s' belongs to policy=tide$"),
        (NPUSPER, "carry=3", "'carry' belongs to policy=tide or policy=stable$"),
        (BASE.replace(search="pruned"), "align=last", "align to be one of bigram, time, first; got 'last'"),
    ],
)
def test_impossible_settings_of_the_other_choices(recipe: Recipe, text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_overrides(recipe, [text])


@each_row(
    ("changes", "message"),
    [
        ({"stepp": 1}, "expected a field of a recipe; got 'stepp'; did you mean step_s"),
        ({"step_s": "1"}, "step_s to be of type float; got '1'"),
        ({"beam": True}, "beam to be of type int; got True"),
        ({"vad": 1}, "vad to be of type bool; got 1"),
        ({"search": "nothing"}, "search to be one of"),
        ({"schedule": ["fixed"]}, "schedule to be one of fixed, best-effort, adaptive, pilots; got"),
        ({"search": 3}, "search to be one of greedy, beam, pruned, verified; got 3"),
        ({"policy.margin_s": 1.0}, "expected a field of policy=local-agreement; got 'margin_s'"),
    ],
)
def test_impossible_changes_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        BASE.replace(**changes)


# --- names ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepping(Framing):
    """A framing that is only used as a value, and has a field that schedules have too."""

    kind: ClassVar[str] = "stepping"
    step_s: float = setting(1.0, "another step", least=0, most=9)
    stride: int = setting(2, "a field that nobody else has", least=0, most=9)


def test_where_two_choices_have_a_field_of_one_name_the_choice_is_named_too() -> None:
    recipe = Recipe("x", schedule=Fixed(step_s=3.0), framing=Stepping())
    assert recipe.settings()["schedule.step_s"] == 3
    assert recipe.settings()["framing.step_s"] == 1
    assert "step_s" not in recipe.settings()
    assert recipe.short("framing", "step_s") == "framing.step_s"
    assert recipe.short("framing", "stride") == "stride"
    assert recipe.replace(**recipe.settings()) == recipe
    with pytest.raises(OptionError, match=r"expected one of schedule\.step_s, framing\.step_s; got step_s"):
        recipe.replace(step_s=1.0)
    changed = parse_overrides(recipe, ["schedule.step_s=2", "framing.step_s=0.5"])
    assert (changed.schedule.step_s, changed.settings()["framing.step_s"]) == (2, 0.5)
    assert type(changed.schedule.step_s) is float


def test_whether_a_change_is_one_of_the_recipe() -> None:
    for name in ("step_s", "schedule.step_s", "policy", "name", "trim_s", "what.ever"):
        assert BASE.has(name), name
    for name in ("margin_s", "language", "temperatures", "nothing"):
        assert not BASE.has(name), name


def test_changes_of_the_recipe_and_of_the_decode_options() -> None:
    changes = {"step_s": 2.0, "language": "de", "beam": 3, "prompt": "", "policy.trim_s": 9.0}
    of_recipe = {"step_s": 2.0, "beam": 3, "policy.trim_s": 9.0}
    assert divided(BASE, changes) == (of_recipe, {"language": "de", "prompt": ""})
    with pytest.raises(OptionError, match=r"can change: schedule, .*temperatures.*; got nothing, search\.none"):
        divided(BASE, {"nothing": 1, "search.none": 2, "beam": 3})
    assert divided(SIMUL, {"beam": 2}) == ({"beam": 2}, {})  # greedy: the recipe refuses it
    assert {item.name for item in fields(DecodeOptions)} & every_field().keys() == {"beam", "max_tokens"}
    assert divided(TIDE, {"max_tokens": 9}) == ({"max_tokens": 9}, {})
    assert divided(BASE, {"max_tokens": 9}) == ({}, {"max_tokens": 9})


def test_what_may_be_written_of_a_field() -> None:
    known = every_field()
    assert list(known)[:5] == list(CHOICES)
    assert known["policy"] == ("local-agreement", "align-att", "tide", "grounded", "stable", "held-agreement", "final")
    assert known["vad"] == ("true", "false")
    assert known["truncate"] == ("none", "last-word", "detector")
    assert known["step_s"] == ()
    assert known.keys() == {*CHOICES, *(name for choice in EVERY for name in field_types(choice))}


# --- what goes together -----------------------------------------------------------------------------------------------


def test_an_exchanged_choice_keeps_the_fields_that_both_have() -> None:
    paused = BASE.replace(step_s=0.4, vad_pause_s=0.7)
    assert paused.replace(schedule="adaptive").schedule == Adaptive(step_s=0.4, vad_pause_s=0.7)
    assert paused.replace(schedule="best-effort").schedule == BestEffort(step_s=0.4, vad_pause_s=0.7)
    careful = BASE.replace(settle_s=0.3, hard_cap_s=20.0, loop_guard=False, no_speech=0.5, agreement=3)
    assert careful.replace(policy="tide").policy == Tide(settle_s=0.3, hard_cap_s=20.0, loop_guard=False, no_speech=0.5)
    assert TIDE.replace(search="beam").search == Beam()
    assert TIDE.replace(search="verified") == TIDE  # it is that already
    assert BASE.replace(search="verified", beam=1).search == Verified(beam=1)


def test_a_choice_that_is_given_as_a_value_is_taken_as_it_is() -> None:
    assert BASE.replace(schedule=Adaptive()).schedule == Adaptive()
    assert BASE.replace(schedule=Adaptive(), step_s=0.2).schedule == Adaptive(step_s=0.2)
    assert BASE.replace(framing=None) == BASE


@pytest.mark.parametrize(
    ("now", "changes", "found"),
    [
        (
            BASE.replace(step_s=3.0),
            {"schedule": "adaptive", "longest_step_s": 4.0},
            Adaptive(step_s=3.0, longest_step_s=4.0),
        ),
        (BASE.replace(step_s=3.0), {"schedule": "adaptive", "step_s": 0.3}, Adaptive(step_s=0.3)),
        (
            TIDE.replace(hard_cap_s=10.0, drop_below=0.45, search="greedy"),
            {"policy": "local-agreement", "trim_s": 8.0},
            LocalAgreement(hard_cap_s=10.0, drop_below=0.45, trim_s=8.0),
        ),
    ],
)
def test_an_exchanged_choice_and_its_fields_may_come_together(
    now: Recipe, changes: dict[str, Any], found: Choice
) -> None:
    assert found in now.replace(**changes).choices.values()


# policy, search, framing, executor -> whether they go together
TOGETHER = {
    ("align-att", "greedy", "bare", "serial"): True,
    ("align-att", "verified", "auto", "serial"): False,
    ("tide", "verified", "auto", "serial"): True,
    ("tide", "pruned", "bare", "serial"): False,
    ("local-agreement", "beam", "pad30", "pipelined"): True,
    ("align-att", "beam", "pad30", "pipelined"): False,
    ("grounded", "beam", "pad30", "pipelined"): False,
    ("align-att", "beam", "pad30", "auto"): True,
    ("local-agreement", "pruned", "auto", "pipelined"): True,
    ("local-agreement", "greedy", "auto", "serial"): True,
    ("align-att", "pruned", "pad30", "serial"): False,
    ("grounded", "verified", "pad30", "serial"): False,
    ("grounded", "pruned", "pad30", "serial"): False,
    ("grounded", "beam", "bare", "serial"): True,
    ("local-agreement", "verified", "hush", "serial"): True,
    ("stable", "greedy", "blocks", "serial"): True,
    ("stable", "beam", "blocks", "auto"): True,
    ("stable", "verified", "blocks", "serial"): False,
    ("stable", "greedy", "bare", "serial"): False,
    ("stable", "greedy", "blocks", "pipelined"): False,
    ("align-att", "greedy", "blocks", "serial"): False,
    ("local-agreement", "greedy", "masked", "serial"): True,
    ("local-agreement", "beam", "masked", "pipelined"): True,
    ("stable", "greedy", "masked", "serial"): False,
    ("final", "beam", "auto", "hybrid"): True,
    ("local-agreement", "beam", "pad30", "hybrid"): True,
    ("tide", "verified", "auto", "hybrid"): False,
    ("grounded", "greedy", "bare", "hybrid"): False,
    ("stable", "greedy", "blocks", "hybrid"): False,
    ("held-agreement", "greedy", "pad30", "hybrid"): False,
    ("final", "verified", "auto", "serial"): False,
    ("final", "beam", "auto", "pipelined"): False,
}


@each_row(("names", "fits"), TOGETHER.items())
def test_what_goes_together(names: tuple[str, ...], fits: bool) -> None:
    changes: dict[str, Any] = dict(zip(("policy", "search", "framing", "executor"), names, strict=True))
    made = {axis: CHOICES[axis][name]() for axis, name in changes.items()}
    if fits:
        assert PLAIN.replace(**changes) == Recipe("plain", **made)  # type: ignore[arg-type]
        return
    with pytest.raises(OptionError, match=r"expected (policy|search|framing)="):
        PLAIN.replace(**changes)
    with pytest.raises(OptionError, match=r"expected (policy|search|framing)="):
        Recipe("plain", **made)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("recipe", "text", "message"),
    [
        (
            TIDE,
            "search=pruned",
            "search=greedy or beam or verified with policy=tide; got search=prun",
        ),
        (
            NPUSPER,
            "search=verified",
            "expected search=greedy or beam with policy=grounded; got search=ver",
        ),
        (
            TIDE,
            "executor=hybrid",
            "policy=final or local-agreement with executor=hybrid; got policy=tide.*=serial",
        ),
        (TIDE, "executor=pipelined", "policy=local-agreement with executor=pipelined; got policy=tide.*=serial"),
    ],
)
def test_what_does_not_go_together_says_what_would(recipe: Recipe, text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_overrides(recipe, [text])


# --- all of it, flat --------------------------------------------------------------------------------------------------


def test_settings_are_flat() -> None:
    found = BASE.settings()
    assert list(found)[:5] == ["schedule", "framing", "search", "policy", "executor"]
    assert (found["schedule"], found["framing"], found["search"], found["policy"]) == (
        "fixed",
        "pad30",
        "beam",
        "local-agreement",
    )
    assert (found["executor"], found["step_s"], found["beam"], found["agreement"]) == ("serial", 1.0, 5, 2)
    assert "name" not in found
    assert "margin_s" not in found
    assert found.keys() == {*CHOICES, *(name for choice in BASE.choices.values() for name in field_types(type(choice)))}
    assert BASE.replace(framing="hush").settings()["hush_s"] == 0.5


@each_row("recipe", RECIPES.values())
def test_settings_make_the_recipe_again(recipe: Recipe) -> None:
    typed = [f"{name}={value}" for name, value in recipe.settings().items()]
    for other in RECIPES.values():
        assert other.replace(name=recipe.name, **recipe.settings()) == recipe
        assert parse_overrides(other, [*typed, f"name={recipe.name}"]) == recipe


# --- every field ------------------------------------------------------------------------------------------------------

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


@each_row("choice", EVERY)
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


@each_row("name", RANGES)
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


# --- any recipe -------------------------------------------------------------------------------------------------------


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
