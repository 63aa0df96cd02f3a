"""How windows reach a checkpoint that may never have heard short ones: the meaning of `framing=auto`.

Whisper was trained on windows padded to 30 s. On a bare one, as long as its audio, it makes words up (NPUsper, table 2:
base on a third of the clips). What `whispertide tune` has found out about a checkpoint counts first (`calibration`).
Checkpoints that heard windows of many lengths say so in their generation configuration (`short_windows`), and theirs
are bare. Any other gets the padding it knows where this machine encodes 30 s within half a step; else as much of it as
the machine can encode in that time, and NPUsper's guard watches for backward shifts.

What is chosen depends on the recipe, on what is known of the checkpoint and on one measurement; so it can be chosen
again, or asked for by name (`framing=pad30`). Knows nothing of rounds or sessions.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from whispertide.options import EngineOptions
from whispertide.streaming.calibration import Calibration, applied_or_none
from whispertide.streaming.framing import BARE, PAD30, Bare, Open, Pad30, Zeros
from whispertide.streaming.recipe import Recipe
from whispertide.types import CHUNK_SECONDS, N_FRAMES

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel

LENGTHS_S = (20, 15, 12, 10, 8)  # to which windows are padded where 30 s is too much
SHARE = 0.5  # of a step that encoding 30 s may take; the rest is for decoding
_REPEATS = 3
_SLOW_S = 2.0  # no recipe's step makes this quick; one measurement tells


@dataclass(frozen=True, slots=True)
class Framed:
    """`recipe` with its framing chosen; `why` says in a sentence for the user what was chosen, and for what reason."""

    recipe: Recipe
    why: str


def choose_framing(
    recipe: Recipe,
    knows_short: bool,
    encode_s: Callable[[], float] | None,
    tuned: Calibration | None = None,
    options: EngineOptions | None = None,
) -> Framed:
    """The recipe for a checkpoint that knows short windows or does not; any framing but "auto" stays as it is.

    `encode_s` tells how many seconds this machine takes to encode 30 s of audio, and is asked only where that counts.
    None: the audio is not live, so that the machine does not count. `tuned` is what was found out about the checkpoint
    before, `options` those of its engine.
    """
    if not isinstance(recipe.framing, Open):
        return Framed(recipe, f"framing={recipe.framing.kind}, as the recipe says")
    if tuned is not None and (framed := applied_or_none(tuned, recipe, options or EngineOptions())) is not None:
        return Framed(framed, f"{framed.framing.name}, because {tuned.why}")
    if knows_short:
        return Framed(as_tuned(recipe), f"{BARE.name}, because this checkpoint has heard short ones")
    reason = "because this checkpoint has not heard short windows"
    if encode_s is None:
        return Framed(recipe.replace(framing=Pad30()), f"{PAD30.name}, {reason} and nobody waits")
    return _careful(recipe, encode_s(), reason)


def _careful(recipe: Recipe, taken: float, reason: str) -> Framed:
    """As much padding as is encoded within half a step; where that is not all of it, guarded."""
    bound = SHARE * recipe.schedule.step_s
    reason += f" and this machine encodes 30 s in {taken:.2f} s"
    if taken <= bound:
        return Framed(recipe.replace(framing=Pad30()), f"{PAD30.name}, {reason} (within half a step, {bound:.2f} s)")
    fits = next((length for length in LENGTHS_S if taken * length / CHUNK_SECONDS <= bound), 0)
    zeros = Zeros(whole_s=float(fits))
    guarded = {"shift_guard": True} if recipe.has("shift_guard") else {}
    return Framed(
        recipe.replace(framing=zeros, **guarded),
        f"{zeros.name} and the backward-shift guard, {reason} (more than half a step, {bound:.2f} s)",
    )


def as_tuned(recipe: Recipe) -> Recipe:
    """The recipe for a checkpoint that knows short windows, with which it was tuned."""
    return recipe.replace(framing=Bare()) if isinstance(recipe.framing, Open) else recipe


def encode_seconds(model: "WhisperModel") -> float:
    """How long this machine takes to encode 30 s: the median of three runs after one that does not count.

    One that is slow by far is not repeated.
    """
    mel = np.zeros((model.dims.n_mels, N_FRAMES), np.float32)
    model.encode(mel)
    taken: list[float] = []
    while len(taken) < _REPEATS and max(taken, default=0.0) < _SLOW_S:
        began = time.perf_counter()
        model.encode(mel)
        taken.append(time.perf_counter() - began)
    return median(taken)
