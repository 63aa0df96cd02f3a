"""Every recipe with a checkpoint that says nothing of short windows, as OpenAI's: hardly a word is made up.

Two sentences with a pause between them and silence around. What is inserted is what counts here; a small checkpoint
mishears some words.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from unheard_windows import without_short_windows
from whispertide.api import Transcriber, load
from whispertide.audio.file import load_audio
from whispertide.errors import CheckpointNotFoundError
from whispertide.events import Confirmed
from whispertide.recipes.calibration import Calibration
from whispertide.recipes.catalogue import RECIPES
from whispertide.recipes.recipe import Recipe
from whispertide.recipes.short_windows import Costs, choose_framing
from whispertide.streaming.framing import Zeros
from whispertide.tuning.framing_choice import guard_changes
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.wer import align

TESTS = Path(__file__).parents[1]
CLIP = TESTS / "clips" / "winter.flac"
MOST_INSERTED, MOST_WRONG = 1, 6  # of 13 words
TUNED = Calibration(guard_changes(Zeros()), "it was measured")
TIDE = RECIPES["tide"]


@pytest.fixture(scope="module")
def transcriber(tmp_path_factory: pytest.TempPathFactory) -> Transcriber:
    return load(str(without_short_windows(tmp_path_factory.mktemp("unsaid"))), threads=1, provider="cpu")


@cache
def speech() -> FloatArray:
    return np.concatenate([load_audio(CLIP), np.zeros(SAMPLE_RATE, np.float32)])


def recipes() -> list[Recipe]:
    """All but whisperrt, which needs an adapter: whisperflow with zeros in place of the hush word and fewer rounds,
    and tide in all of its careful forms and as it would be tuned.
    """
    others = [recipe for name, recipe in RECIPES.items() if name not in ("tide", "whisperflow", "whisperrt")]
    others.append(RECIPES["whisperflow"].replace(framing="zeros", step_s=0.5))
    forms = [choose_framing(TIDE, False, lambda seconds=seconds: Costs(seconds)).recipe for seconds in (0.1, 0.42, 9.0)]  # type: ignore[misc]
    return [*others, *forms, choose_framing(TIDE, False, None, TUNED).recipe]


def named(recipe: Recipe) -> str:
    return f"{recipe.name}-{recipe.framing.name}"


IN_CI = ("whisperflow-1 s of padding", "tide-30 s of padding")  # one of each kind of policy
CASES = [
    pytest.param(recipe, id=named(recipe), marks=() if named(recipe) in IN_CI else pytest.mark.soak)
    for recipe in recipes()
]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", CASES)
def test_hardly_anything_is_made_up(transcriber: Transcriber, recipe: Recipe) -> None:
    session = transcriber.session(recipe)
    audio = speech()
    events = [event for at in range(0, len(audio), 1600) for event in session.push(audio[at : at + 1600])]
    events += session.finish()
    heard = [word.text.strip() for event in events if isinstance(event, Confirmed) for word in event.words]
    errors = align(CLIP.with_suffix(".txt").read_text().split(), heard).words
    assert errors.insertions <= MOST_INSERTED, heard
    assert errors.substitutions + errors.deletions <= MOST_WRONG, heard


def test_the_others_need_more_than_the_checkpoint(transcriber: Transcriber) -> None:
    assert not any(transcriber.can_stream(RECIPES[name]) for name in ("whisperflow", "whisperrt"))
    for name, command in (("whisperflow", "hush"), ("whisperrt", "causal")):
        with pytest.raises(CheckpointNotFoundError, match=f"whispertide train {command} .*nano-unsaid.en"):
            transcriber.session(name)
