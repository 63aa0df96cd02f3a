"""Rounds whose search is `drafted`: what they hear, and when, is what greedy rounds hear; they take fewer runs."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from scripted_model import ScriptedModel, story
from whispertide.decoding.draft import Always, Reference
from whispertide.decoding.ngrams import Ngrams
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.search import Tree
from whispertide.errors import CheckpointNotFoundError, OptionError
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.options import DecodeOptions
from whispertide.recipes.assembly import executor_key, make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.streaming.framing import BARE
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.searches import Drafted
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import Span

SECONDS = 4 * 16_000
SAID = story((" we", 10), (" walk", 40), (" home", 70), (" and", 90), (" we", 100), (" walk", 120), (" home", 140))
TIDE = get_recipe("tide")


@dataclass(frozen=True)
class Knows(Always):
    """Drafts what is said, and something else."""

    wants_hidden = False

    def draft(self, prompt: Prompt) -> "Knows":
        return self

    def propose(self, sampled: Any, hidden: Any = None) -> Tree:
        rest = [token for token, _ in SAID[len(sampled) :]]
        return Tree.merged([(5, 6, 7), rest[:4]])


def hear(drafter: Any, listen: SinglePass, **plan: Any) -> Any:
    model: Any = ScriptedModel(lambda encoded: SAID)
    executor = SerialExecutor(RoundResources(model, BARE, drafter=drafter))
    return executor.run(
        RoundPlan(1, Span(0, SECONDS), hearing=listen, **plan), np.zeros(SECONDS, np.float32), DecodeOptions()
    )


@pytest.mark.parametrize("drafter", [Knows(), Ngrams(2, 4)], ids=["all", "n-grams"])
@pytest.mark.parametrize("listen", [SinglePass(), SinglePass(real_end=False)], ids=["end", "second best"])
def test_a_round_hears_the_same_in_fewer_runs(drafter: Any, listen: SinglePass) -> None:
    expected, found = hear(None, listen), hear(drafter, listen)
    assert found.heard.words == expected.heard.words
    assert len(found.heard.words) == len(SAID)
    assert found.stats.decoder_runs < expected.stats.decoder_runs


def test_what_the_round_before_heard_goes_first() -> None:
    tokens = [token for token, _ in SAID]
    guess = Reference.exactly([*tokens[:2], 9, 9])
    alone, both = (hear(drafter, SinglePass(), reference=guess) for drafter in (None, Knows()))
    assert both.heard.words == alone.heard.words == hear(None, SinglePass()).heard.words
    assert both.stats.decoder_runs == 2  # the guess with the prompt, and what is drafted where it was left
    assert alone.stats.decoder_runs > 2


def test_an_executor_has_the_drafter_of_its_recipe(tmp_path: Any) -> None:
    model: Any = ScriptedModel(lambda encoded: SAID)
    recipe = TIDE.replace(search="drafted", source="ngram", width=2, framing="bare")
    executor: Any = make_executor(model, recipe)
    assert executor.resources.drafter == Ngrams(2, 4)
    assert make_executor(model, TIDE.replace(framing="bare")).resources.drafter is None  # type: ignore[attr-defined]
    assert executor_key(recipe) != executor_key(recipe.replace(width=3))
    assert executor_key(recipe) != executor_key(recipe.replace(search="greedy"))
    assert executor_key(recipe) == executor_key(recipe.replace(margin_s=0.5))
    assert recipe.search.narrowed() is recipe.search
    bare = replace(model.checkpoint, tensors=replace_files(model.checkpoint, tmp_path))
    model.checkpoint = bare
    with pytest.raises(CheckpointNotFoundError, match="whispertide train drafter"):
        make_executor(model, TIDE.replace(search="drafted", framing="bare"))


def replace_files(checkpoint: Any, folder: Any) -> Any:
    """The tensors of a checkpoint that lies elsewhere, where nothing is next to it."""
    from whispertide.checkpoint.weights import TensorStore

    store = checkpoint.tensors
    return TensorStore(store._entries, (folder / "model.safetensors",), store.source)


def test_streams_that_grow_are_not_drafted() -> None:
    with pytest.raises(OptionError, match="greedy or beam with policy=stable; got search=drafted"):
        get_recipe("whisperrt").replace(search="drafted")
    assert Drafted().reuse == Reference(block=True)
