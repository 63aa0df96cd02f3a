"""What a recipe is: five choices, changed field by field or exchanged, refused when impossible."""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import pytest

from whispertide.errors import OptionError
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.grounded import Grounded
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(("names", "fits"), TOGETHER.items(), ids=map("-".join, TOGETHER))
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


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda one: one.name)
def test_settings_make_the_recipe_again(recipe: Recipe) -> None:
    typed = [f"{name}={value}" for name, value in recipe.settings().items()]
    for other in RECIPES.values():
        assert other.replace(name=recipe.name, **recipe.settings()) == recipe
        assert parse_overrides(other, [*typed, f"name={recipe.name}"]) == recipe
