"""Learning intents from texts: it learns, it is the same each time, and an unknown sentence is told by its words."""

from functools import cache

import numpy as np
import pytest

from whispertide.understand.intent_words import IntentWords
from whispertide_lab.training.latecontext.intent_words import learn_intents

pytestmark = pytest.mark.slow

PLACES = ["kitchen", "hall", "garden", "attic", "cellar", "office"]
LIGHTS = [f"turn the light {state} in the {place}" for state in ("on", "off") for place in PLACES]
MUSIC = [f"play some {kind} in the {place}" for kind in ("jazz", "music") for place in PLACES]
TEXTS, WANTED = [*LIGHTS, *MUSIC], [0] * len(LIGHTS) + [1] * len(MUSIC)


@cache
def learnt() -> IntentWords:
    return learn_intents(TEXTS, WANTED, 2)


def test_sentences_that_were_never_read_are_told_by_their_words() -> None:
    known = learnt()
    assert known.scores("lights on please").argmax() == 0
    assert known.scores("i want jazz").argmax() == 1
    assert [known.scores(text).argmax() for text in TEXTS] == WANTED


def test_it_is_the_same_each_time_and_what_occurs_twice_counts_once() -> None:
    once, twice = learnt(), learn_intents(TEXTS * 2, WANTED * 2, 2)
    assert np.array_equal(once.weights, twice.weights)
    assert not np.array_equal(once.weights, learn_intents(TEXTS, WANTED, 2, seed=1).weights)
    assert np.array_equal(once.weights, once.weights.astype(np.float16).astype(np.float32))
