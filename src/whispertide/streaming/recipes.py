"""The published systems and our own as recipes, under their names, and what a recipe asks to be built.

This module builds schedules, policies and gates; framing, search and executor are built where the model is. It knows
no model and no audio.
"""

from collections.abc import Mapping
from dataclasses import replace as replace_fields
from types import MappingProxyType

from whispertide.audio.vad import GateOptions, SpeechGate
from whispertide.decoding.backward_shift import BackwardShift
from whispertide.decoding.reference import Reference
from whispertide.errors import UnknownRecipeError
from whispertide.options import DecodeOptions
from whispertide.streaming.align_att import AlignAtt
from whispertide.streaming.doubt import Doubt
from whispertide.streaming.grounded import Grounded
from whispertide.streaming.local_agreement import LocalAgreement
from whispertide.streaming.policy import AnyPolicy
from whispertide.streaming.recipe import FOLLOWING, WINDOW_OF, Recipe
from whispertide.streaming.round import Listening
from whispertide.streaming.schedule import Adaptive, BestEffort, FixedStep, Schedule
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, to_samples

FRAMES_PER_S = SAMPLE_RATE // FRAME_SAMPLES

_WHISPER_STREAMING = Recipe(name="whisper-streaming", schedule="fixed", step_s=1.0, beam=5)
# The paper runs the stages on two processors; `executor=pipelined` does. Its pruning is `prune_align=first` without
# recovery; ours finds its place by time and gets narrow again. Rounds that follow each other so fast make the same
# mistakes about a word that is still being spoken, so agreement alone is not enough: doubt is ours, and so is leaving
# what breaks off to the next round (docs/LOG.md).
_WHISPERFLOW = Recipe(
    name="whisperflow",
    schedule="best-effort",
    step_s=0.1,
    framing="hush",
    search="pruned",
    prune_align="time",
    reread=False,
    doubt=0.8,
    settle_s=0.6,
)
_SIMULSTREAMING = Recipe(
    name="simulstreaming",
    schedule="fixed",
    step_s=1.2,
    search="greedy",
    policy="align-att",
    truncate="none",
    must_speak=True,
    context_tokens=400,
    word_times="attended",
    hard_cap_s=30.0,
    no_speech=0.5,
)
_NPUSPER = Recipe(
    name="npusper",
    schedule="fixed",
    step_s=2.0,
    framing="bare",
    search="greedy",
    policy="grounded",
    margin_s=0.6,
    shift_guard=True,
    carry=3,
    carry_back_s=0.0,
    same_token=3,
    least_s=1.0,
    silence_s=1.0,
    heads_first=True,
    hard_cap_s=30.0,
)
# Ours: tuned by measurement, the ablations in docs/LOG.md and a search around it (benchmarks/search.py).
_TIDE = Recipe(
    name="tide",
    schedule="adaptive",
    step_s=0.3,
    framing="auto",
    search="greedy",
    policy="align-att",
    margin_s=0.24,
    margin_last_s=0.04,
    rewind_s=2.0,
    backward_s=0.06,
    attention_floor=0.1,
    truncate="near-end",
    hold_s=0.5,
    doubt=0.5,
    memory="words",
    window_s=5.0,
    carry=2,
    context_tokens=60,
    beyond=12,
    verify=True,
    rescue_logprob=-1.0,
    silence_s=1.0,
    shed_s=1.5,
    hard_cap_s=20.0,
)
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {recipe.name: recipe for recipe in (_WHISPER_STREAMING, _WHISPERFLOW, _SIMULSTREAMING, _NPUSPER, _TIDE)}
)
# What each is like, in a line, for whoever has to choose one (docs/guides/choosing.md has the figures).
ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "whisper-streaming": "Two rounds must agree on a word. Suits every model; words are late.",
        "whisperflow": "Like whisper-streaming on short windows, as often as the machine can.",
        "simulstreaming": "AlignAtt as published: the model's attention decides, every 1.2 s.",
        "npusper": "Made for NPUs: short windows, the least computing, words every 2 s.",
        "tide": "The model's attention decides, every 0.3 s: words soon, at little cost.",
    }
)


def get_recipe(name: str) -> Recipe:
    """The recipe of that name. Raises `UnknownRecipeError`, which lists those that exist."""
    if name not in RECIPES:
        raise UnknownRecipeError(f"expected a recipe among {', '.join(RECIPES)}; got {name!r}")
    return RECIPES[name]


def usual_window_s(recipe: Recipe) -> float:
    """How long windows usually get at most, in seconds without padding: what a round has to be computed for."""
    if recipe.policy == "align-att" and recipe.memory == "segments":
        return recipe.hard_cap_s
    window: float = recipe.carried_s if recipe.policy == "grounded" else getattr(recipe, WINDOW_OF[recipe.policy])
    return min(window + recipe.step_s, recipe.hard_cap_s)


def make_schedule(recipe: Recipe) -> Schedule:
    """When rounds start."""
    step = to_samples(recipe.step_s)
    if recipe.schedule == "adaptive":
        return Adaptive(step, to_samples(recipe.longest_step_s))
    return FixedStep(step) if recipe.schedule == "fixed" else BestEffort(step)


def make_policy(recipe: Recipe) -> AnyPolicy:
    """What is confirmed when."""
    if recipe.policy == "align-att":
        return _align_att(recipe)
    return _grounded(recipe) if recipe.policy == "grounded" else _local_agreement(recipe)


def _local_agreement(recipe: Recipe) -> LocalAgreement:
    return LocalAgreement(
        agreement=recipe.agreement,
        compare=recipe.compare,
        boundary=recipe.boundary,
        trim_at=recipe.trim,
        trim=to_samples(recipe.trim_s),
        hard_cap=to_samples(recipe.hard_cap_s),
        no_speech=recipe.no_speech,
        prompt_chars=recipe.prompt_chars,
        doubt=Doubt(recipe.doubt, to_samples(recipe.settle_s)),
        guard=recipe.loop_guard,
        reread=recipe.reread,
        reuse=_reuse(recipe),
    )


def _reuse(recipe: Recipe) -> Reference | None:
    if recipe.search not in FOLLOWING:
        return None
    return Reference(align=recipe.prune_align, recover=recipe.prune_recover, block=recipe.search == "verified")


def _align_att(recipe: Recipe) -> AlignAtt:
    return AlignAtt(
        margin=_frames(recipe.margin_s),
        margin_last=_frames(recipe.margin_last_s),
        rewind=_frames(recipe.rewind_s) or None,
        back=_frames(recipe.backward_s) or None,
        floor=recipe.attention_floor,
        shift=_backward_shift(recipe) if recipe.shift_guard else None,
        truncate=recipe.truncate,
        hold=to_samples(recipe.hold_s),
        doubt=Doubt(recipe.doubt, to_samples(recipe.settle_s)),
        memory=recipe.memory,
        window=to_samples(recipe.window_s),
        carry=recipe.carry,
        hard_cap=to_samples(recipe.hard_cap_s),
        context=recipe.context_tokens > 0,
        beyond=recipe.beyond if recipe.search != "beam" else 0,
        verify=recipe.verify and recipe.search == "greedy",
        shed=to_samples(recipe.shed_s),
        loop_guard=recipe.loop_guard,
        listen=replace_fields(_listening(recipe), must_speak=recipe.must_speak, rescue=recipe.rescue_logprob or None),
    )


def _grounded(recipe: Recipe) -> Grounded:
    return Grounded(
        carry=recipe.carry,
        watch=replace_fields(
            _backward_shift(recipe), near_end=_frames(recipe.margin_s) or None, finish_word=recipe.finish_word
        ),
        back=to_samples(recipe.carry_back_s),
        most=to_samples(recipe.carried_s),
        hard_cap=to_samples(recipe.hard_cap_s),
        loop_guard=recipe.loop_guard,
        listen=replace_fields(_listening(recipe), real_end=recipe.real_end, same_token=recipe.same_token),
    )


def _backward_shift(recipe: Recipe) -> BackwardShift:
    return BackwardShift(
        detect=recipe.shift_guard,
        median=recipe.shift_median,
        average=recipe.shift_average,
        row=recipe.shift_row,
        search_from=_frames(recipe.shift_from_s),
    )


def _listening(recipe: Recipe) -> Listening:
    return Listening(
        least=to_samples(recipe.least_s),
        silence=to_samples(recipe.silence_s),
        no_speech=recipe.no_speech,
        loop_guard=recipe.loop_guard,
        max_tokens=recipe.max_tokens,
        context_tokens=recipe.context_tokens,
        static_prompt=recipe.static_prompt,
        times=recipe.word_times,
        heads_first=recipe.heads_first,
        rescue_beam=recipe.beam,
        unrolled=recipe.search == "unrolled",
    )


def _frames(seconds: float) -> int:
    return round(seconds * FRAMES_PER_S)


def make_gate(recipe: Recipe) -> SpeechGate | None:
    """The voice gate, or None if the recipe has none. Raises `CheckpointError` if its weights are missing."""
    if not recipe.vad:
        return None
    pad = min(GateOptions().post_pad, recipe.vad_pause_s)
    return SpeechGate(GateOptions(min_silence=recipe.vad_pause_s, pre_roll=recipe.vad_pre_roll_s, post_pad=pad))


def decode_options(recipe: Recipe, options: DecodeOptions) -> DecodeOptions:
    """`options` with the recipe's search: `beam` is the recipe's affair, what is written down the user's."""
    return replace_fields(options, beam=recipe.hypotheses)
