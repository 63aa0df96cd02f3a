"""Which tensor gets how many bits: the least divergence for a size, or the published thresholds."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from whispertide_lab.compression.sensitivity import UNCHANGED, Bits, Option, Sensitivity

RECIPES = 3
_ABOVE, _BELOW = 0.98, 1.02  # margins of the thresholds, so that each has an effect


def forced(sensitivities: Sequence[Sensitivity], bits: int) -> Bits:
    """So many bits for each."""
    return {one.name: bits for one in sensitivities}


def size_of(sensitivities: Sequence[Sensitivity], bits: Bits) -> int:
    """Bytes of the tensors at these bits."""
    return sum(one.at(bits[one.name]).nbytes for one in sensitivities)


def within(sensitivities: Sequence[Sensitivity], budget: int) -> Bits:
    """The bits whose summed divergence of the text is least among those that need at most `budget` bytes.

    Every tensor begins with the fewest bits; then the step that gains most for its bytes is taken, again and again.
    Steps lead along the lower convex hull of (bytes, divergence), so a large gain is not hidden after a small one.
    Where not even the fewest bits fit, they are the answer.
    """
    hulls = {one.name: _hull(one.options) for one in sensitivities}
    chosen = {name: hull[0] for name, hull in hulls.items()}
    left = budget - sum(option.nbytes for option in chosen.values())
    steps = sorted(
        ((_gain(fewer, more), name, more) for name, hull in hulls.items() for fewer, more in pairwise(hull)),
        key=lambda step: (-step[0], step[1], step[2].bits),
    )
    closed: set[str] = set()  # what could not take a step takes no later one
    for _, name, option in steps:
        more = option.nbytes - chosen[name].nbytes
        if name in closed or more > left:
            closed.add(name)
            continue
        left -= more
        chosen[name] = option
    return {name: option.bits for name, option in chosen.items()}


def _gain(fewer: Option, more: Option) -> float:
    return (fewer.kl - more.kl) / (more.nbytes - fewer.nbytes)


def _hull(options: Sequence[Option]) -> list[Option]:
    """Those on the lower convex hull, by rising bytes: each step gains less for its bytes than the one before."""
    hull: list[Option] = []
    for option in sorted(options, key=lambda option: (option.nbytes, option.kl)):
        if hull and (option.kl >= hull[-1].kl or option.nbytes == hull[-1].nbytes):
            continue
        while len(hull) > 1 and _gain(hull[-2], hull[-1]) <= _gain(hull[-1], option):
            hull.pop()
        hull.append(option)
    return hull


def by_thresholds(sensitivities: Sequence[Sensitivity]) -> list[Bits]:
    """The published way, from the fewest bits to the most: each tensor gets the fewest bits whose own divergence is
    below a threshold, or is kept.

    Thresholds lie geometrically between the worst divergence at the fewest bits and the worst at the most, apart for
    the encoder, judged by the squared error of its output (the published negative PSNR turns the margins around), and
    the decoder, judged by its text.
    """
    found: list[dict[str, int]] = [{} for _ in range(RECIPES)]
    for in_encoder in (True, False):
        part = [one for one in sensitivities if one.in_encoder is in_encoder]
        if not part:
            continue
        worst = _ABOVE * max(one.published(one.options[0]) for one in part)
        best = _BELOW * max(one.published(one.options[-2]) for one in part)
        tiny = float(np.finfo(np.float64).tiny)
        thresholds = np.geomspace(max(worst, tiny), max(best, tiny), RECIPES)
        for bits, threshold in zip(found, thresholds, strict=True):
            bits |= {one.name: _fewest(one, float(threshold)) for one in part}
    return list(found)


def _fewest(one: Sensitivity, threshold: float) -> int:
    return next((option.bits for option in one.options[:-1] if one.published(option) < threshold), UNCHANGED)
