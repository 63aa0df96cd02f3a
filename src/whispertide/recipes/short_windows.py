"""Ways for windows to reach a checkpoint that may never have seen short ones: the meaning of `framing=auto`.

Whisper was trained on windows padded to 30 s. On a bare one, as long as its audio, it makes words up (NPUsper, table 2:
base on a third of the clips). What `whispertide tune` has found out about a checkpoint counts first (`calibration`).
Checkpoints trained on windows of many lengths say so in their generation configuration (`short_windows`), and get bare
ones. Any other hears the padding that it knows, merged (`merged_padding`), for a sixth of what 30 s cost. Where a round
of that does not fit the step on this machine (`COMFORTABLE`, the rule of `whispertide doctor` too), the step is
lengthened. NPUsper's guard watches for backward shifts.

Bare windows of an adapter are the cheapest. Where they make more errors than merged padding, as on base, the package
has a calibration that says so.

What is chosen depends on the recipe and on what is known of the checkpoint, the step also on one measurement; so it can
be chosen again, or asked for by name (`framing=pad30`). Knows nothing of rounds or sessions.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from whispertide.methods.attention.grounded import Grounded
from whispertide.methods.attention.tide import Tide
from whispertide.model.engine import DecodeRequest
from whispertide.model.whisper import WhisperModel
from whispertide.options import EngineOptions
from whispertide.recipes.calibration import Calibration, applied_or_none
from whispertide.recipes.recipe import Recipe
from whispertide.streaming.framing import AutoFraming, Bare, Merged, taught_framing
from whispertide.types import CHUNK_SECONDS, N_FRAMES

COMFORTABLE = 0.8  # share of a step that a round may take; the rest is for the voice gate, the screen, everything else
TOKENS_PER_S = 4.0  # of fluent speech, time marks included
_TENTHS = 10  # steps are lengthened to a tenth of a second
_REPEATS = 3
_SLOW_S = 2.0  # no recipe's step makes this quick; one measurement tells
_FILLER = 11  # any text token; speed does not depend on it


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of a round's parts on this machine, in seconds: encoding 30 s, and a token of a greedy text."""

    encode_s: float
    token_s: float = 0.0

    def round_s(self, recipe: Recipe, padded_s: float) -> float:
        """A round of this recipe whose usual window has so many seconds with its padding."""
        return self.encode_s * padded_s / CHUNK_SECONDS + TOKENS_PER_S * recipe.usual_window_s * self.token_s


@dataclass(frozen=True, slots=True)
class Framed:
    """`recipe` with its framing chosen; `why` says in a sentence for the user what was chosen, and for what reason."""

    recipe: Recipe
    why: str


def choose_framing(
    recipe: Recipe,
    knows_short: bool,
    costs: Callable[[], Costs] | None,
    tuned: Calibration | None = None,
    options: EngineOptions | None = None,
    merged: Callable[[], int] = lambda: 0,
) -> Framed:
    """The recipe for a checkpoint that knows short windows or does not; any framing but "auto" stays as it is. If it
    knows them, they have as many frames of merged padding as `merged` tells. That is asked only then, because an
    adapter has to be read for it.

    `costs` tells what rounds take on this machine, and is asked only where that counts. None: the audio is not live, so
    that the machine does not count. `tuned` is what was found out about the checkpoint before, here or by who made the
    package, `options` those of its engine.
    """
    if not isinstance(recipe.framing, AutoFraming):
        return Framed(recipe, f"framing={recipe.framing.kind}, as the recipe says")
    options = options or EngineOptions()
    if tuned is not None and (framed := applied_or_none(tuned, recipe, options)) is not None:
        return Framed(framed, tuned.said(recipe, framed, options))
    if not knows_short:
        return _careful(recipe, costs)
    framing = taught_framing(merged())
    why = f"{framing.name}, because this checkpoint was trained on short windows"
    return Framed(replace(recipe, framing=framing), why)


def _careful(recipe: Recipe, costs: Callable[[], Costs] | None) -> Framed:
    """With merged padding, guarded; where a round takes longer than the step, that gets longer."""
    framed, step_s = _guarded(replace(recipe, framing=Merged())), recipe.schedule.step_s
    padding = framed.framing.name
    why = f"{padding} and the backward-shift guard, because this checkpoint was not trained on short windows"
    if costs is None:
        return Framed(framed, why)
    round_s = costs().round_s(recipe, framed.framing.length_s(recipe.usual_window_s))
    why = f"{why}; with that a round takes {round_s:.2f} s here"
    if round_s <= COMFORTABLE * step_s:
        return Framed(framed, why)
    longer = min(CHUNK_SECONDS, math.ceil(_TENTHS * round_s / COMFORTABLE) / _TENTHS)
    return Framed(framed.with_step(longer), f"{why}, so the step is {longer:g} s in place of {step_s:g} s")


def _guarded(recipe: Recipe) -> Recipe:
    """With the guard against backward shifts, where the policy has one."""
    if isinstance(recipe.policy, Tide | Grounded):
        return replace(recipe, policy=replace(recipe.policy, shift_guard=True))
    return recipe


def as_tuned(recipe: Recipe) -> Recipe:
    """The recipe for a checkpoint that knows short windows, with which it was tuned."""
    return replace(recipe, framing=Bare()) if isinstance(recipe.framing, AutoFraming) else recipe


def measure_costs(model: WhisperModel) -> Costs:
    """Measure the time to encode 30 s, and for a token: medians of some runs after one that does not count.

    What is slow by far is not repeated.
    """
    # Zeros will do, because the speed does not depend on the values.
    mel = np.zeros((model.dims.n_mels, N_FRAMES), np.float32)
    encode_s = _median_s(lambda: model.encode(mel))
    # Over 5 s, which is the usual window of a stream (`window_s`).
    decoder = model.decoder(model.encode(mel[:, : N_FRAMES // 6]))
    token = DecodeRequest(np.full((1, 1), _FILLER, np.int64), logits_at=(0,))
    return Costs(encode_s, _median_s(lambda: decoder.run(token)))


def _median_s(run: Callable[[], object]) -> float:
    run()
    taken: list[float] = []
    while len(taken) < _REPEATS and max(taken, default=0.0) < _SLOW_S:
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return median(taken)
