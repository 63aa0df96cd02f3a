"""Why a round holds a word back: the feature of the learned rule, or the threshold, that keeps it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scripted_model import ScriptedModel, Story, story
from whispertide.methods.attention.steadiness import FEATURES, Facts, Rule, read_rule
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.framing import BARE
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation.holding import (
    ANOTHER_ROUND,
    GOES_ON,
    HEARD_ONCE,
    NEAR_THE_END,
    UNSURE,
    furthest_short,
    holds_back,
)

TIDE = get_recipe("tide").replace(vad=False, step_s=2.0)
THRESHOLDS = get_recipe("simulstreaming").replace(vad=False, step_s=2.0, truncate="last-word")
SETTLED = Facts(SAMPLE_RATE, SAMPLE_RATE, 5, 0.99, 0.98, 1.0, 0.99, 3, 3, True, False, SAMPLE_RATE // 4)


def reason(recipe: Recipe, told: Story, **heard: Any) -> str:
    """Of the first round, which hears 2 s, with a change to what it heard."""
    session = Session(recipe, SerialExecutor(RoundResources(ScriptedModel(lambda encoded: told), BARE)))  # type: ignore[arg-type]
    session.ingest(np.zeros(2 * SAMPLE_RATE, np.float32))
    plan = session.due()
    assert plan is not None
    assert session.executor is not None
    result = session.executor.run(plan, session.window(plan), session.options, session.encoder)
    found: Any = result.heard
    return holds_back(session, replace(result, heard=replace(found, **heard)))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"frontier": 0, "ended": 0}, NEAR_THE_END),
        ({"probability": 0.02, "least": 0.02}, UNSURE),
        ({"rounds": 1, "after": 0, "following": None}, HEARD_ONCE),
    ],
)
def test_the_part_that_is_worst_is_named(change: dict[str, Any], expected: str) -> None:
    weights = {
        "frontier_0.5s": 2.0,
        "ended_0.3s": 1.0,
        "probability": 2.0,
        "least": 1.0,
        "heard_twice": 1.0,
        "one_after": 1.0,
    }
    rule = Rule(tuple(weights.get(name, 0.0) for name in FEATURES))
    assert furthest_short(rule, replace(SETTLED, **change)) == expected


def test_with_the_shipped_rule_a_word_at_the_very_end_is_too_near_to_it() -> None:
    assert furthest_short(read_rule(""), replace(SETTLED, frontier=0, ended=0, firm=False)) == NEAR_THE_END


def test_a_word_that_is_sure_has_no_reason() -> None:
    assert reason(TIDE, story((" we", 10), (" walk", 20))) == ""
    assert reason(THRESHOLDS.replace(truncate="none"), story((" we", 10), (" walk", 20))) == ""


def test_a_word_that_is_known_to_go_on_waits_for_that() -> None:
    assert reason(TIDE, story((" we", 10), (" walk", 20)), word_ended=False) == GOES_ON
    assert reason(THRESHOLDS, story((" we", 10), (" walk", 20)), word_ended=False) == GOES_ON


def test_a_last_word_that_is_held_back_may_go_on() -> None:
    assert reason(THRESHOLDS, story((" we", 10), (" walk", 60))) == GOES_ON


def test_another_policy_wants_another_round() -> None:
    assert reason(get_recipe("npusper").replace(vad=False, step_s=2.0), story((" we", 10))) == ANOTHER_ROUND
