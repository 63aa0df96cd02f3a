"""The recipes there are, found by name, with the values that were published, and what is built for one."""

import math
from typing import Any

import pytest

from each_row import each_row
from whispertide.audio.vad import SpeechGate
from whispertide.decoding.guards import Frontier
from whispertide.errors import UnknownRecipeError
from whispertide.methods.agreement.held_agreement import HeldAgreement
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.backward_shift import BackwardShift
from whispertide.methods.attention.grounded import Grounded
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.methods.attention.tide import Tide
from whispertide.methods.causal.stable import Stable
from whispertide.methods.pilot.final import Final
from whispertide.options import DEFAULT_RECIPE, DecodeOptions
from whispertide.recipes.catalogue import ABOUT, RECIPES, get_recipe
from whispertide.streaming.schedule import Adaptive, BestEffort, Fixed

BASE, SIMUL, NPUSPER, TIDE = (get_recipe(name) for name in ("whisper-streaming", "simulstreaming", "npusper", "tide"))

# What each recipe is, where that does not follow from its choices alone.
PUBLISHED: dict[str, dict[str, Any]] = {
    "whisper-streaming": {
        "schedule": "fixed", "step_s": 1.0, "framing": "pad30", "search": "beam", "beam": 5,
        "policy": "local-agreement", "agreement": 2, "trim": "segment", "trim_s": 15.0, "prompt_chars": 200,
        "compare": "normalised", "boundary": "align", "reread": True, "no_speech": 0.9, "hard_cap_s": 28.0,
        "least_probability": 0.0, "loop_guard": True,
    },
    "whisperflow": {
        "schedule": "best-effort", "step_s": 0.1, "framing": "hush", "hush_s": 0.5, "search": "pruned", "beam": 5,
        "align": "time", "recover": True, "follows": "heard", "policy": "local-agreement", "agreement": 2,
        "reread": False, "least_probability": 0.8, "settle_s": 0.6, "trim": "segment", "trim_s": 15.0,
        "hard_cap_s": 28.0,
    },
    "simulstreaming": {
        "schedule": "fixed", "step_s": 1.2, "framing": "pad30", "search": "greedy", "policy": "align-att",
        "margin_s": 0.5, "margin_last_s": 0.08, "rewind_s": 4.0, "truncate": "none",
        "must_speak": True, "context_tokens": 400, "static_prompt": True, "word_times": "attended", "hard_cap_s": 30.0,
        "no_speech": 0.5,
    },
    "npusper": {
        "schedule": "fixed", "step_s": 2.0, "framing": "bare", "search": "greedy", "policy": "grounded",
        "near_end_s": 0.6, "shift_guard": True, "shift_median": 7, "shift_average": 10, "shift_row": "predicting",
        "shift_from_s": 0.0, "way": 3, "carry_back_s": 0.0, "carry_most_s": 4.0, "same_token": 3, "least_s": 1.0,
        "silence_s": 1.0, "heads_first": True, "real_end": True, "finish_word": False, "hard_cap_s": 30.0,
    },
    "whisperrt": {
        "schedule": "fixed", "step_s": 0.1, "framing": "blocks", "block_s": 0.1, "first_s": 0.6, "search": "greedy",
        "policy": "stable", "confirm_s": 0.1, "least_probability": 0.7, "settle_s": 0.8, "rescored": 2,
        "holds": "either", "most_tokens": 28, "stream_s": 12.0, "stuck_s": 2.0, "carry": 2, "loop_guard": True,
        "vad_pause_s": 0.2,
    },
    "whisperkit": {
        "schedule": "fixed", "step_s": 1.0, "framing": "pad30", "search": "greedy", "policy": "held-agreement",
        "hold": 2, "cut": "cursor", "least_logprob": -1.0, "stop_tokens": 60, "stop_ratio": 2.4, "hard_cap_s": 28.0,
        "no_speech": 0.9, "loop_guard": True,
    },
    "pilot": {
        "schedule": "pilots", "step_s": 0.5, "pilots_from_s": 1.5, "longest_step_s": 2.0, "framing": "auto",
        "search": "beam", "beam": 5, "policy": "final", "pilot_beam": 3, "pilot_tokens": 15, "chain": True,
        "collapse": True, "length_cap": True, "allowance": 5, "hard_cap_s": 28.0, "no_speech": 0.9, "loop_guard": True,
    },
    "tide": {
        "schedule": "adaptive", "step_s": 0.4, "longest_step_s": 2.0, "vad_turn_s": 1.5,
        "framing": "auto", "search": "verified",
        "beam": 1, "policy": "tide", "margin_s": 0.24, "margin_last_s": 0.04, "rewind_s": 2.0, "backward_s": 0.06,
        "attention_floor": 0.1, "max_revision_rate": 0.03, "settle_s": 1.0, "min_shown_probability": 0.7,
        "window_s": 9.0, "carry": 2, "context_tokens": 60, "lookahead_tokens": 12, "guess_least": 0.3,
        "waiting_marks": True, "drop_below": 0.0,
        "rescue_logprob": -1.0,
        "rescue_beam": 5, "silence_s": 1.0, "overload_s": 1.5, "hard_cap_s": 20.0, "shift_guard": False,
        "no_speech": 0.9, "reopen_s": 1.6, "word_times": "checked",
    },
}  # fmt: skip
ALL = {"executor": "serial", "vad": True, "vad_pause_s": 0.5, "vad_turn_s": 0.0, "vad_pre_roll_s": 1.0, "lag_s": 5.0}
ALL |= {"turn_end": "pause"}


@each_row("name", PUBLISHED)
def test_each_is_as_published(name: str) -> None:
    found = get_recipe(name).settings()
    expected = {**ALL, **PUBLISHED[name]}
    assert {name: found[name] for name in expected} == expected


def test_recipes_are_found_under_their_own_names() -> None:
    assert RECIPES.keys() == PUBLISHED.keys()
    assert all(recipe.name == name == get_recipe(name).name for name, recipe in RECIPES.items())
    assert DEFAULT_RECIPE in RECIPES


def test_each_is_explained_in_a_line() -> None:
    assert ABOUT.keys() == RECIPES.keys()
    assert all(30 < len(text) < 150 and text.endswith(".") for text in ABOUT.values())


def test_an_unknown_recipe_lists_the_known() -> None:
    with pytest.raises(UnknownRecipeError, match=r"among .*whisper-streaming.*; got 'tsunami'$"):
        get_recipe("tsunami")
    with pytest.raises(UnknownRecipeError, match="got 'tides'; did you mean tide"):
        get_recipe("tides")


# --- what they come to, in samples and frames -------------------------------------------------------------------------


def listening(name: str) -> SinglePass:
    """How the first round of the recipe listens."""
    recipe = get_recipe(name)
    plan = recipe.policy.plan(recipe.policy.start(0), 16_000, search=recipe.search, round_id=0, is_last=False)
    assert isinstance(plan.hearing, SinglePass)
    return plan.hearing


def test_simulstreaming_is_as_published() -> None:
    assert listening("simulstreaming") == SinglePass(
        must_speak=True, no_speech=0.5, context_tokens=400, times="attended", static_prompt=True,
        watch=(Frontier(margin=25, rewind=200, last_frame=-200),),
    )  # fmt: skip
    assert isinstance(SIMUL.policy, AlignAtt)
    assert SIMUL.policy.hard_cap == 480_000


def test_npusper_is_as_published_but_for_the_end_of_text_and_where_windows_begin() -> None:
    assert listening("npusper") == SinglePass(
        least=16_000, silence=16_000, no_speech=0.9, same_token=3, heads_first=True, real_end=True,
        watch=(BackwardShift(median=7, average=10, near_end=30),),
    )  # fmt: skip
    assert isinstance(NPUSPER.policy, Grounded)
    assert (NPUSPER.policy.most, NPUSPER.policy.hard_cap) == (64_000, 480_000)


def test_tide_is_the_same_parts_otherwise() -> None:
    rule = Frontier(
        margin=12, rewind=100, last_frame=-100, lookahead_tokens=12, doubtful=math.log(0.3), back=3, floor=0.1
    )
    assert listening("tide") == SinglePass(
        silence=16_000, no_speech=0.9, context_tokens=60, rescue=-1.0, rescue_beam=5, times="checked", watch=(rule,)
    )
    assert isinstance(TIDE.policy, Tide)
    assert (TIDE.policy.window, TIDE.policy.hard_cap) == (144_000, 320_000)


@each_row(
    ("name", "kind", "step"),
    [
        ("whisper-streaming", Fixed, 16_000),
        ("whisperflow", BestEffort, 1_600),
        ("simulstreaming", Fixed, 19_200),
        ("npusper", Fixed, 32_000),
        ("tide", Adaptive, 6_400),
    ],
)
def test_when_the_first_round_is_due(name: str, kind: type, step: int) -> None:
    schedule = get_recipe(name).schedule
    assert type(schedule) is kind
    assert (schedule.frontier(0, 0, step - 1), schedule.frontier(0, 0, step)) == (None, step)


def test_usual_windows() -> None:
    assert BASE.usual_window_s == 16.0
    assert SIMUL.usual_window_s == 30.0
    assert NPUSPER.usual_window_s == 6.0
    assert NPUSPER.replace(carry_most_s=3.0, step_s=1.0).usual_window_s == 4.0
    assert TIDE.replace(window_s=4.0, step_s=0.5).usual_window_s == 4.5
    assert BASE.replace(trim_s=10.0, hard_cap_s=10.0).usual_window_s == 10.0


# --- what is built for a recipe ---------------------------------------------------------------------------------------


def test_the_search_of_the_recipe_goes_into_the_decode_options() -> None:
    mine = DecodeOptions(language="de", prompt="Guten Tag", beam=9)
    assert BASE.search.options(mine) == DecodeOptions(language="de", prompt="Guten Tag", beam=5)
    assert BASE.replace(search="greedy").search.options(mine).beam == 1
    assert BASE.replace(search="pruned", beam=3).search.options(mine).beam == 3
    assert BASE.replace(search="verified", beam=1).search.options(mine).beam == 1
    assert TIDE.search.options(mine).beam == 1


def test_gates_are_built_where_wanted() -> None:
    gate = BASE.replace(vad_pause_s=0.2, vad_pre_roll_s=0.4).schedule.gate()
    assert isinstance(gate, SpeechGate)
    assert (gate.options.min_silence, gate.options.pre_roll, gate.options.post_pad) == (0.2, 0.4, 0.2)
    assert BASE.replace(vad=False).schedule.gate() is None


def test_policies_overlap_or_not() -> None:
    assert [name for name, recipe in RECIPES.items() if recipe.policy.overlaps] == ["whisper-streaming", "whisperflow"]
    assert {recipe.policy.kind for recipe in RECIPES.values()} == {
        choice.kind for choice in (LocalAgreement, AlignAtt, Tide, Grounded, HeldAgreement, Stable, Final)
    }
