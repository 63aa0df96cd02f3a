"""The published systems and our own as recipes, under their names.

Five choices each, on one screen. This module knows no model and no audio.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from whispertide.errors import UnknownRecipeError
from whispertide.methods.agreement.held_agreement import HeldAgreement
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.grounded import Grounded
from whispertide.methods.attention.tide import Tide
from whispertide.methods.causal.blocks import Blocks
from whispertide.methods.causal.stable import Stable
from whispertide.methods.pilot.final import Final
from whispertide.methods.pilot.pilots import Pilots
from whispertide.recipes.recipe import Recipe
from whispertide.streaming.framing import AutoFraming, Bare, Hush, Pad30
from whispertide.streaming.schedule import Adaptive, BestEffort, Fixed
from whispertide.streaming.searches import Beam, Greedy, Pruned, Verified

_WHISPER_STREAMING = Recipe(
    "whisper-streaming",
    schedule=Fixed(step_s=1.0),
    framing=Pad30(),
    search=Beam(beam=5),
    policy=LocalAgreement(),
)
# The paper runs the stages on two processors; `executor=pipelined` does. Its pruning is `align=first follows=shown`
# without recovery; ours finds its place by time and gets narrow again. Rounds that follow each other so fast make the
# same mistakes about a word that is still being spoken, so agreement alone is not enough: `least_probability` is ours,
# and so is leaving what breaks off to the next round (lab/log).
_WHISPERFLOW = Recipe(
    "whisperflow",
    schedule=BestEffort(step_s=0.1),
    framing=Hush(),
    search=Pruned(beam=5, align="time"),
    policy=LocalAgreement(reread=False, least_probability=0.8, settle_s=0.6),
)
_SIMULSTREAMING = Recipe(
    "simulstreaming",
    schedule=Fixed(step_s=1.2),
    framing=Pad30(),
    search=Greedy(),
    policy=AlignAtt(
        truncate="none",
        must_speak=True,
        context_tokens=400,
        word_times="attended",
        hard_cap_s=30.0,
        no_speech=0.5,
    ),
)
_NPUSPER = Recipe(
    "npusper",
    schedule=Fixed(step_s=2.0),
    framing=Bare(),
    search=Greedy(),
    policy=Grounded(
        near_end_s=0.6,
        shift_guard=True,
        way=3,
        carry_back_s=0.0,
        same_token=3,
        least_s=1.0,
        silence_s=1.0,
        heads_first=True,
        hard_cap_s=30.0,
    ),
)
# The paper's chunks of 300 ms are `block_s=0.3`; what is confirmed is ours, as published nothing ever is.
# A stream that hears one sentence keeps its place better than one that hears many, so short pauses end utterances.
_WHISPERRT = Recipe(
    "whisperrt",
    schedule=Fixed(step_s=0.1, vad_pause_s=0.2),
    framing=Blocks(block_s=0.1),
    search=Greedy(),
    policy=Stable(confirm_s=0.1, least_probability=0.7, settle_s=0.8, drop_below=0.45),
)
# As Argmax's open app has it, without what that loses. The paper's encoder is a framing of its own.
_WHISPERKIT = Recipe(
    "whisperkit",
    schedule=Fixed(step_s=1.0),
    framing=Pad30(),
    search=Greedy(),
    policy=HeldAgreement(),
)
# For voice commands. The paper's network is not Whisper's, whose encoder hears a window as a whole: what pilots save is
# the search.
_PILOT = Recipe(
    "pilot",
    schedule=Pilots(),
    framing=AutoFraming(),
    search=Beam(beam=5),
    policy=Final(),
)
# Ours: tuned by measurement, the ablations in lab/log and a search around it (benchmarks/search.py). What its
# policy is set to stands there, and nobody else uses it.
_TIDE = Recipe(
    "tide",
    schedule=Adaptive(step_s=0.4, vad_turn_s=1.5),
    framing=AutoFraming(),
    search=Verified(beam=1),
    policy=Tide(context_tokens=60, word_times="checked", hard_cap_s=20.0),
)
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            _WHISPER_STREAMING,
            _WHISPERFLOW,
            _SIMULSTREAMING,
            _NPUSPER,
            _WHISPERRT,
            _WHISPERKIT,
            _PILOT,
            _TIDE,
        )
    }
)
# A line about each, to choose by (lab/docs/benchmarks.md has the figures).
ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "whisper-streaming": "Two rounds must agree on a word. Works with every model, but words come late.",
        "whisperflow": "Like whisper-streaming, with short windows and rounds as often as the machine can.",
        "simulstreaming": "AlignAtt as published: the model's attention decides, every 1.2 s.",
        "npusper": "Made for NPUs: short windows, the least computing, a round every 2 s.",
        "whisperrt": "Every tenth of a second is encoded only once. Needs a model with a causal adapter.",
        "whisperkit": "Made for Apple's chips: two rounds must agree, every second, and the last two words wait.",
        "pilot": "For voice commands: confirms a whole utterance after its end, prepared during speech.",
        "tide": "The model's attention and a learned rule decide, every 0.4 s: words come soon, at little cost.",
    }
)


def get_recipe(name: str) -> Recipe:
    """The recipe of that name. Raises `UnknownRecipeError`, which lists those that exist."""
    if name not in RECIPES:
        near = get_close_matches(name, RECIPES, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UnknownRecipeError(f"expected a recipe among {', '.join(RECIPES)}; got {name!r}{hint}")
    return RECIPES[name]
