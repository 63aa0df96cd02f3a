"""The labelling rule of NPUsper's tables, on decodes that are written down."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attention_ramps import looking_at
from whispertide.checkpoint import load_checkpoint
from whispertide.decoding.backward_shift import BackwardShift
from whispertide.decoding.token_kinds import TokenKinds
from whispertide.decoding.watch import Scene
from whispertide.lab.evaluation.clips import Clip
from whispertide.lab.evaluation.guard_items import Unguarded, label, stop_of

TOKENIZER = load_checkpoint("nano.en").tokenizer
MODEL: Any = SimpleNamespace(
    tokenizer=TOKENIZER,
    dims=SimpleNamespace(n_text_layer=1, n_text_head=2),
    generation=SimpleNamespace(alignment_heads=((0, 0), (0, 1))),
)
FRAMES = 150


def decode(text: str, places: list[int]) -> Unguarded:
    """`places`: where the queries look that predict the tokens of `text`."""
    tokens = tuple(TOKENIZER.encode(text))
    assert len(tokens) == len(places)
    scene = Scene(TokenKinds(TOKENIZER, "en"), ((0, 0), (0, 1)), 2, (), FRAMES)
    return Unguarded(tokens, looking_at([0, *places], FRAMES), scene)


def clip(words: list[str]) -> Clip:
    return Clip(tuple(words), np.zeros(0, np.float32))


ONWARD = decode(" the cat sat down", [20, 50, 80, 110])
INVENTED = decode(" the cat sat and then it", [20, 50, 80, 30, 60, 90])


def test_a_decode_without_a_guard_is_judged_by_its_insertions() -> None:
    found = label(MODEL, clip(["the", "cat", "sat"]), INVENTED, None)
    assert (found.hallucinated, found.shifted, found.undesired) == (True, False, False)
    assert found.counts.insertions == 3
    assert not label(MODEL, clip(["the", "cat", "sat", "down"]), ONWARD, None).hallucinated


def test_a_stop_that_only_cuts_inventions_is_wanted() -> None:
    found = label(MODEL, clip(["the", "cat", "sat"]), INVENTED, BackwardShift())
    assert (found.hallucinated, found.shifted, found.undesired) == (False, True, False)
    assert found.counts.rate == 0


def test_a_stop_that_loses_a_right_word_is_not() -> None:
    found = label(MODEL, clip(["the", "cat", "sat", "and", "ran"]), INVENTED, BackwardShift())
    assert found.undesired


@pytest.mark.parametrize(("what", "keep"), [(ONWARD, None), (INVENTED, 3)])
def test_a_guard_is_played_over_what_was_decoded(what: Unguarded, keep: int | None) -> None:
    assert stop_of(MODEL, what, BackwardShift()) == keep
