"""How windows reach a checkpoint that may never have heard short ones: the meaning of `framing=auto`.

Whisper was trained on windows padded to 30 s. On a bare one, as long as its audio, it makes words up (NPUsper, table 2:
base on a third of the clips). Checkpoints that heard windows of many lengths say so in their generation configuration
(`short_windows`), and theirs are bare. Any other gets the padding it knows where this machine encodes 30 s within half
a step; else windows are bare, and NPUsper's guard watches for backward shifts.

What is chosen depends on the recipe, on what the checkpoint says and on one measurement; so it can be chosen again, or
asked for by name (`framing=pad30`). Knows nothing of rounds or sessions.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from whispertide.streaming.framing import Bare, Open, Pad30
from whispertide.streaming.recipe import Recipe
from whispertide.types import N_FRAMES

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel

SHARE = 0.5  # of a step that encoding 30 s may take; the rest is for decoding
_REPEATS = 3
_SLOW_S = 2.0  # no recipe's step makes this quick; one measurement tells


@dataclass(frozen=True, slots=True)
class Framed:
    """`recipe` with its framing chosen; `why` says in a sentence for the user what was chosen, and for what reason."""

    recipe: Recipe
    why: str


def choose_framing(recipe: Recipe, knows_short: bool, encode_s: Callable[[], float] | None) -> Framed:
    """The recipe for a checkpoint that knows short windows or does not; any framing but "auto" stays as it is.

    `encode_s` tells how many seconds this machine takes to encode 30 s of audio, and is asked only where that counts.
    None: the audio is not live, so that the machine does not count.
    """
    if not isinstance(recipe.framing, Open):
        return Framed(recipe, f"framing={recipe.framing.kind}, as the recipe says")
    if knows_short:
        return Framed(as_tuned(recipe), "bare windows, because this checkpoint has heard short ones")
    reason = "because this checkpoint has not heard short windows"
    if encode_s is None:
        return Framed(recipe.replace(framing=Pad30()), f"30 s of padding, {reason} and nobody waits")
    taken, bound = encode_s(), SHARE * recipe.schedule.step_s
    reason += f" and this machine encodes 30 s in {taken:.2f} s"
    if taken <= bound:
        return Framed(recipe.replace(framing=Pad30()), f"30 s of padding, {reason} (within half a step, {bound:.2f} s)")
    guarded = {"shift_guard": True} if recipe.has("shift_guard") else {}
    return Framed(
        recipe.replace(framing=Bare(), **guarded),
        f"bare windows with the backward-shift guard, {reason} (more than half a step, {bound:.2f} s)",
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
