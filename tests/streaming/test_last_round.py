"""The last round of an utterance under tide's policy, with a model that says what it is told and attends there.

What a guard drops in the last round no later round will hear, and what it lets through twice stands twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scripted_model import ScriptedModel, Story, story
from whispertide.decoding.guards import Frontier, Halt
from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.methods.attention.steadiness import FEATURES, Rule
from whispertide.methods.attention.tide import Tide, TideState
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.streaming.framing import BARE
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.searches import Greedy, Verified
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import SAMPLE_RATE, join_words

FIRST = story((" we", 20), (" walk", 60), (" home", 140))  # heard by an earlier round, which confirmed it
REST = story((" then", 180), (" you", 205), (" sing", 230))


BY_FRONTIER = Rule(tuple({"firm": 60.0, "one": -30.0}.get(name, 0.0) for name in FEATURES)).text()


def policy() -> Tide:
    """What the frontier's guard lets stand is confirmed."""
    tide = get_recipe("tide").policy
    assert isinstance(tide, Tide)
    return replace(tide, rule=BY_FRONTIER, min_shown_probability=0.0)


def hear(rule: Tide, state: TideState, model: ScriptedModel, end: float, *, is_last: bool = False) -> Heard:
    """One round up to `end` seconds."""
    executor: Any = SerialExecutor(RoundResources(model, BARE))  # type: ignore[arg-type]
    plan = rule.plan(state, round(end * SAMPLE_RATE), search=Verified(beam=1), round_id=0, is_last=is_last)
    result = executor.run(plan, np.zeros(len(plan.window), np.float32), DecodeOptions())
    commit = rule.apply(state, result)
    assert result.heard is not None
    return Heard(join_words(commit.confirmed), join_words(commit.hypothesis), result.heard)


@dataclass(frozen=True)
class Heard:
    """What came of a round."""

    confirmed: str
    guess: str
    heard: HeardWords


def last_round(bare: Story, padded: Story) -> tuple[Heard, list[int]]:
    """The last window says one thing bare and another one padded; also the lengths of all that were encoded then."""
    rule = policy()
    state = rule.start(0)
    assert hear(rule, state, ScriptedModel(lambda encoded: FIRST), 3.5).confirmed == "we walk home"
    model = ScriptedModel(lambda encoded: padded if encoded.frames == 1500 else bare)
    heard = hear(rule, state, model, 5.0, is_last=True)
    return heard, [window.frames for window in model.windows]


def test_what_is_new_is_confirmed_in_one_decode() -> None:
    heard, windows = last_round([*FIRST, *REST], [])
    assert (heard.confirmed, heard.heard.retried) == ("then you sing", False)
    assert windows == [300]  # with a second of silence


def test_a_sentence_said_again_asks_for_a_padded_window_and_that_one_counts() -> None:
    """The first new token attends to the beginning of what is confirmed already."""
    heard, windows = last_round([*FIRST, *FIRST], [*FIRST, *REST])
    assert (heard.confirmed, heard.heard.retried) == ("then you sing", True)
    assert windows == [300, 1500]


def test_a_sentence_said_again_in_both_framings_is_not_confirmed_twice() -> None:
    assert last_round([*FIRST, *FIRST], [*FIRST, *FIRST])[0].confirmed == ""


def test_nor_after_good_words_and_these_are_kept() -> None:
    """A jump over all of the sentence, more than `rewind_s`."""
    heard, _ = last_round([*FIRST, *REST, *FIRST], [*FIRST, *REST, *FIRST])
    assert heard.confirmed == "then you sing"
    assert heard.heard.halt == Halt("backward-shift", 3, FIRST[0][0])


def test_nor_where_a_window_is_heard_without_the_frontier() -> None:
    """The first word looks into the silence after the audio, so the window is heard again without that guard."""
    told = [*FIRST, *story((" oh", 270)), *FIRST]
    heard, windows = last_round(told, told)
    assert heard.confirmed == "oh"
    assert windows == [300]


def test_a_first_word_that_looks_into_the_silence_does_not_cost_the_sentence() -> None:
    """What follows it looks at the speech after the confirmed words, which is no turning back."""
    told = [*FIRST, *story((" then", 290), (" you", 170), (" sing", 230))]
    assert last_round(told, told)[0].confirmed == "then you sing"


def test_where_both_framings_lose_their_place_the_guess_of_the_round_before_counts() -> None:
    rule = policy()
    state = rule.start(0)
    heard = hear(rule, state, ScriptedModel(lambda encoded: [*FIRST, *story((" then", 172))]), 3.5)
    assert (heard.confirmed, heard.guess) == ("we walk home", "then")
    heard = hear(rule, state, ScriptedModel(lambda encoded: [*FIRST, *FIRST]), 4.0, is_last=True)
    assert (heard.confirmed, heard.guess) == ("then", "")


def test_good_words_before_a_long_jump_are_kept_in_any_round() -> None:
    """A backward shift is looked for before a rewind, which would void the round."""
    rule = policy()
    told = [*FIRST, *story((" then", 170), (" you", 200)), *FIRST]
    assert hear(rule, rule.start(0), ScriptedModel(lambda encoded: told), 5.0).confirmed == "we walk home then you"


def test_as_published_the_last_round_has_no_guard() -> None:
    published = get_recipe("simulstreaming").policy
    assert isinstance(published, AlignAtt)
    plan = published.plan(published.start(0), 80_000, search=Greedy(), round_id=0, is_last=True)
    assert isinstance(plan.hearing, SinglePass)
    assert (plan.hearing.again, plan.hearing.unbounded) == (None, ())
    assert plan.hearing.watch == (Frontier(margin=4, rewind=None, last_frame=-200),)
