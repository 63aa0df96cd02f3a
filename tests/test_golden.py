"""The words, times and events of every recipe are those of the stored traces (`golden_traces`)."""

from difflib import SequenceMatcher
from functools import cache
from typing import Any

import pytest

from golden_traces import AUDIO, arithmetic, digest, load, replay
from whispertide.errors import WhispertideError
from whispertide.recipes.catalogue import RECIPES
from whispertide.types import SAMPLE_RATE, FloatArray

# `make slow` replays the beginning of the recordings, more of it where rounds are few and less where they are many;
# `make golden` all of them, and the talks, which takes minutes.
BEGINNING_S = dict.fromkeys(RECIPES, 8) | {"npusper": 12, "pilot": 12, "whisperflow": 4}
CASES = [
    pytest.param("recordings", True, marks=pytest.mark.slow),
    pytest.param("recordings", False, marks=pytest.mark.golden),
    pytest.param("talks", False, marks=pytest.mark.golden),
]
NEAR_S = 0.0401  # two frames; seconds are rounded in a trace


@cache
def sound(name: str) -> FloatArray | None:
    try:
        return AUDIO[name]()
    except WhispertideError:
        return None


def confirmed(events: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    return [word for event in events if event["type"] == "confirmed" for word in event["words"]]


def parted(events: tuple[dict[str, Any], ...]) -> tuple[list[dict[str, Any]], list[float]]:
    """The events without the probabilities of their words, and these."""
    found: list[float] = []
    without = []
    for event in events:
        words = [dict(word) for word in event.get("words", ())]
        found += [word.pop("probability") for word in words]
        without.append(event | {"words": words})
    return without, found


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("name", "beginning"), CASES)
def test_the_same_boundaries_give_the_same_events(name: str, beginning: bool, recipe: str) -> None:
    audio, golden = sound(name), load(name, recipe)
    if audio is None:
        pytest.skip("the synthesizers of the talks are not installed")
    if name == "talks" and digest(audio) != golden.audio:
        pytest.skip("these synthesizers speak otherwise than those of the trace")
    assert digest(audio) == golden.audio
    until = BEGINNING_S[recipe] * SAMPLE_RATE if beginning else None
    heard = replay(recipe, audio[:until], golden, beginning=beginning)
    expected = golden.events[: len(heard)] if beginning else golden.events
    assert len(confirmed(heard)) > (2 * BEGINNING_S[recipe] - 1 if beginning else 15)
    if arithmetic(recipe) == golden.arithmetic:  # of other kernels than the recipe's, so the last digits may differ
        assert parted(heard)[0] == parted(expected)[0]
        assert parted(heard)[1] == pytest.approx(parted(expected)[1], abs=1e-4)
        return
    # another processor: rounding may decide where two tokens are as likely
    before, after = confirmed(expected), confirmed(heard)
    matched = SequenceMatcher(
        None, [word["text"] for word in before], [word["text"] for word in after], autojunk=False
    ).get_matching_blocks()
    pairs = [(before[at + k], after[other + k]) for at, other, size in matched for k in range(size)]
    assert len(pairs) >= 0.97 * max(len(before), len(after))
    near = [abs(one["start"] - two["start"]) <= NEAR_S for one, two in pairs]
    assert sum(near) >= 0.97 * len(near)
