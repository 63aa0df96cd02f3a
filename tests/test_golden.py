"""The words, times and events of every recipe are those of the stored traces (`golden_traces`)."""

from difflib import SequenceMatcher
from functools import cache
from typing import Any

import pytest

from golden_traces import AUDIO, arithmetic, digest, load, replay
from whispertide.errors import WhispertideError
from whispertide.streaming.recipes import RECIPES
from whispertide.types import SAMPLE_RATE, FloatArray

# `make slow` replays the beginning of the recordings; `make golden` all of them, and the talks, which takes minutes.
BEGINNING_S = 20
CASES = [
    pytest.param("recordings", BEGINNING_S, marks=pytest.mark.slow),
    pytest.param("recordings", None, marks=pytest.mark.golden),
    pytest.param("talks", None, marks=pytest.mark.golden),
]


@cache
def sound(name: str) -> FloatArray | None:
    try:
        return AUDIO[name]()
    except WhispertideError:
        return None


def confirmed(events: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    return [word for event in events if event["type"] == "confirmed" for word in event["words"]]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("name", "seconds"), CASES)
def test_the_same_boundaries_give_the_same_events(name: str, seconds: int | None, recipe: str) -> None:
    audio, golden = sound(name), load(name, recipe)
    if audio is None:
        pytest.skip("the synthesizers of the talks are not installed")
    if name == "talks" and digest(audio) != golden.audio:
        pytest.skip("these synthesizers speak otherwise than those of the trace")
    assert digest(audio) == golden.audio
    until = None if seconds is None else seconds * SAMPLE_RATE
    heard = replay(recipe, audio[:until], golden, beginning=seconds is not None)
    expected = golden.events[: len(heard)] if seconds is not None else golden.events
    if arithmetic(recipe) == golden.arithmetic:
        assert heard == expected
        assert len(confirmed(heard)) > 20
        return
    # another processor: rounding may decide where two tokens are as likely
    before, after = confirmed(expected), confirmed(heard)
    matched = SequenceMatcher(
        None, [word["text"] for word in before], [word["text"] for word in after], autojunk=False
    ).get_matching_blocks()
    pairs = [(before[at + k], after[other + k]) for at, other, size in matched for k in range(size)]
    assert len(pairs) >= 0.97 * max(len(before), len(after))
    near = [abs(one["start"] - two["start"]) <= 0.04 * SAMPLE_RATE for one, two in pairs]
    assert sum(near) >= 0.97 * len(near)
