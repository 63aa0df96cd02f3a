"""The recipes there are, found by name, and what is built for a recipe."""

import pytest

from whispertide.audio.vad import SpeechGate
from whispertide.decoding.backward_shift import BackwardShift
from whispertide.decoding.reference import Reference
from whispertide.errors import UnknownRecipeError
from whispertide.options import DEFAULT_RECIPE, DecodeOptions
from whispertide.streaming.align_att import AlignAtt
from whispertide.streaming.doubt import Doubt
from whispertide.streaming.grounded import Grounded
from whispertide.streaming.local_agreement import LocalAgreement
from whispertide.streaming.recipes import (
    ABOUT,
    RECIPES,
    decode_options,
    get_recipe,
    make_gate,
    make_policy,
    make_schedule,
    usual_window_s,
)
from whispertide.streaming.round import Listening
from whispertide.streaming.schedule import Adaptive, BestEffort, FixedStep

BASE = get_recipe("whisper-streaming")


def test_the_baseline_is_as_published() -> None:
    assert (BASE.schedule, BASE.step_s, BASE.framing, BASE.search, BASE.beam) == ("fixed", 1.0, "pad30", "beam", 5)
    assert (BASE.policy, BASE.agreement, BASE.trim, BASE.trim_s) == ("local-agreement", 2, "segment", 15.0)
    assert (BASE.no_speech, BASE.prompt_chars, BASE.vad_pause_s, BASE.vad_pre_roll_s) == (0.9, 200, 0.5, 1.0)


def test_recipes_are_found_under_their_own_names() -> None:
    assert all(recipe.name == name == get_recipe(name).name for name, recipe in RECIPES.items())
    assert DEFAULT_RECIPE in RECIPES


def test_each_is_explained_in_a_line() -> None:
    assert ABOUT.keys() == RECIPES.keys()
    assert all(30 < len(text) < 150 and text.endswith(".") for text in ABOUT.values())


def test_an_unknown_recipe_lists_the_known() -> None:
    with pytest.raises(UnknownRecipeError, match=r"among .*whisper-streaming.*; got 'tsunami'"):
        get_recipe("tsunami")


def test_schedules_are_built() -> None:
    assert make_schedule(BASE.replace(step_s=0.5)) == FixedStep(8_000)
    assert make_schedule(BASE.replace(schedule="best-effort", step_s=0.1)) == BestEffort(1_600)


def test_every_field_of_the_policy_comes_from_the_recipe() -> None:
    recipe = BASE.replace(
        agreement=3, compare="exact", boundary="time", trim="sentence", trim_s=9, hard_cap_s=20, no_speech=0.5,
        prompt_chars=50, loop_guard=False, doubt=0.3, settle_s=0.5, reread=False,
    )  # fmt: skip
    assert make_policy(recipe) == LocalAgreement(
        agreement=3, compare="exact", boundary="time", trim_at="sentence", trim=144_000, hard_cap=320_000,
        no_speech=0.5, prompt_chars=50, guard=False, doubt=Doubt(0.3, 8_000), reread=False,
    )  # fmt: skip


def test_searches_that_follow_what_was_heard_are_told_so() -> None:
    pruned = make_policy(BASE.replace(search="pruned", prune_align="first", prune_recover=False))
    verified = make_policy(BASE.replace(search="verified"))
    assert pruned == LocalAgreement(reuse=Reference(align="first", recover=False))
    assert verified == LocalAgreement(reuse=Reference(align="bigram", recover=True, block=True))
    assert make_policy(BASE) == LocalAgreement(reuse=None)


def test_the_search_of_the_recipe_goes_into_the_decode_options() -> None:
    mine = DecodeOptions(language="de", prompt="Guten Tag", beam=9)
    assert decode_options(BASE, mine) == DecodeOptions(language="de", prompt="Guten Tag", beam=5)
    assert decode_options(BASE.replace(search="greedy"), mine).beam == 1
    assert decode_options(BASE.replace(search="pruned", beam=3), mine).beam == 3
    assert decode_options(BASE.replace(search="verified", beam=1), mine).beam == 1


def test_gates_are_built_where_wanted() -> None:
    gate = make_gate(BASE.replace(vad_pause_s=0.2, vad_pre_roll_s=0.4))
    assert isinstance(gate, SpeechGate)
    assert (gate.options.min_silence, gate.options.pre_roll, gate.options.post_pad) == (0.2, 0.4, 0.2)
    assert make_gate(BASE.replace(vad=False)) is None


# --- the recipes that watch attention --------------------------------------------------------------------------------

SIMUL, NPUSPER, TIDE = get_recipe("simulstreaming"), get_recipe("npusper"), get_recipe("tide")


def test_simulstreaming_is_as_published() -> None:
    policy = make_policy(SIMUL)
    assert isinstance(policy, AlignAtt)
    assert (policy.margin, policy.margin_last, policy.rewind, policy.truncate) == (25, 4, 200, "none")
    assert (policy.memory, policy.hard_cap, policy.context) == ("segments", 480_000, True)
    assert policy.listen == Listening(
        must_speak=True, no_speech=0.5, context_tokens=400, times="attended", static_prompt=True
    )
    assert SIMUL.framing == "pad30"


def test_npusper_is_as_published_but_for_the_end_of_text_and_where_windows_begin() -> None:
    policy = make_policy(NPUSPER)
    assert isinstance(policy, Grounded)
    assert policy.watch == BackwardShift(median=7, average=10, near_end=30)
    assert (policy.carry, policy.back, policy.most, NPUSPER.step_s) == (3, 0, 64_000, 2.0)
    assert (policy.listen.least, policy.listen.silence, policy.listen.same_token) == (16_000, 16_000, 3)
    assert policy.listen.heads_first
    assert policy.listen.real_end


def test_tide_is_the_same_parts_otherwise() -> None:
    policy = make_policy(TIDE)
    assert isinstance(policy, AlignAtt)
    assert (policy.memory, policy.truncate, policy.verify, policy.context) == ("words", "near-end", True, True)
    assert make_schedule(TIDE) == Adaptive(4_800, 32_000)


def test_every_field_of_align_att_comes_from_the_recipe() -> None:
    recipe = TIDE.replace(
        margin_s=0.1, margin_last_s=0.02, rewind_s=0.0, backward_s=0.1, attention_floor=0.2, truncate="detector",
        hold_s=0.25, memory="segments", window_s=7.0, carry=4, hard_cap_s=11.0, context_tokens=0, beyond=3,
        verify=False, shed_s=1.5, loop_guard=False, least_s=0.5, silence_s=0.3, must_speak=True, no_speech=0.3,
        max_tokens=33, static_prompt=False, word_times="attended", heads_first=True, rescue_logprob=-0.7, beam=3,
        doubt=0.4, settle_s=0.75,
        shift_guard=True, shift_median=5, shift_average=4, shift_row="fed", shift_from_s=0.3,
    )  # fmt: skip
    assert make_policy(recipe) == AlignAtt(
        margin=5, margin_last=1, rewind=None, back=5, floor=0.2, truncate="detector", hold=4_000,
        doubt=Doubt(0.4, 12_000), memory="segments", window=112_000, carry=4, hard_cap=176_000, context=False, beyond=3,
        verify=False, shed=24_000, loop_guard=False,
        shift=BackwardShift(median=5, average=4, row="fed", search_from=15),
        listen=Listening(
            least=8_000, silence=4_800, must_speak=True, no_speech=0.3, loop_guard=False, max_tokens=33,
            context_tokens=0, static_prompt=False, times="attended", heads_first=True, rescue=-0.7, rescue_beam=3,
        ),
    )  # fmt: skip


def test_every_field_of_grounded_comes_from_the_recipe() -> None:
    recipe = NPUSPER.replace(
        carry=1, carry_back_s=0.1, carry_most_s=3.0, margin_s=0.0, shift_guard=False, shift_median=5, shift_average=4,
        shift_row="fed", shift_from_s=0.3, finish_word=True, real_end=False, same_token=7, hard_cap_s=9.0,
        loop_guard=False,
    )  # fmt: skip
    policy = make_policy(recipe)
    assert isinstance(policy, Grounded)
    assert policy.watch == BackwardShift(
        detect=False, median=5, average=4, row="fed", search_from=15, near_end=None, finish_word=True
    )
    assert (policy.carry, policy.back, policy.most, policy.hard_cap) == (1, 1_600, 48_000, 144_000)
    assert (policy.listen.real_end, policy.listen.same_token) == (False, 7)
    assert policy.loop_guard is False


def test_usual_windows() -> None:
    assert usual_window_s(BASE) == 16.0
    assert usual_window_s(SIMUL) == 30.0
    assert usual_window_s(NPUSPER) == 6.0
    assert usual_window_s(TIDE.replace(window_s=4.0, step_s=0.5)) == 4.5


def test_a_beam_has_no_guess_and_nothing_to_verify() -> None:
    policy = make_policy(TIDE.replace(search="beam"))
    assert isinstance(policy, AlignAtt)
    assert (policy.beyond, policy.verify) == (0, False)
