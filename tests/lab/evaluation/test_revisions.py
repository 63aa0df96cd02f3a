"""Restlessness by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_traces import trace
from whispertide_lab.evaluation.revisions import next_row, prefix_distance, revisions
from whispertide_lab.evaluation.score import judge
from whispertide_lab.evaluation.views import look
from whispertide_lab.speech.utterance import Utterance


def count(*views: tuple[float, str, str]) -> int:
    return revisions(look(trace(*views)))


def test_growth_is_no_revision() -> None:
    assert count((1, "", "the"), (2, "", "the cat"), (3, "the cat", "sat"), (4, "sat", "")) == 0


def test_replaced_removed_and_put_in() -> None:
    assert count((1, "", "the bat"), (2, "the cat", "")) == 1
    assert count((1, "", "the bat sat"), (2, "the sat", "")) == 1
    assert count((1, "", "the sat"), (2, "the cat sat", "")) == 1
    assert count((1, "", "the bat sat on"), (2, "", "a cat sat"), (3, "a cat sat on the mat", "")) == 3


def test_a_guess_that_is_taken_back_and_comes_again_is_one_revision_per_word() -> None:
    assert count((1, "", "the cat"), (2, "", ""), (3, "the cat", "")) == 2


def test_confirming_is_no_revision_and_confirmed_words_are_not_compared_again() -> None:
    assert count((1, "the", "cat"), (2, "cat", "sat"), (3, "sat", "the"), (4, "the end", "")) == 0


def test_case_and_punctuation_are_no_revision() -> None:
    assert count((1, "", "the cat"), (2, "", "The cat, sat"), (3, "the cat sat", "")) == 0


def test_a_flash_is_not_seen() -> None:
    assert count((1, "", "the"), (2, "", "a"), (2, "", "the"), (3, "the", "")) == 0


def test_hallucinated_words_are_those_of_the_final_text() -> None:
    said = trace((1, "", "thank you"), (2, "thank", ""), (3, "- you", ""))
    assert judge(Utterance("u", (), 4.0, lambda: np.zeros(64_000, np.float32)), said)["hallucinated"] == 2


LETTERS = st.lists(st.sampled_from("ab"), max_size=6)


def distance(before: list[str], after: list[str]) -> int:
    if not before or not after:
        return len(before) + len(after)
    return min(
        distance(before[:-1], after) + 1,
        distance(before, after[:-1]) + 1,
        distance(before[:-1], after[:-1]) + (before[-1] != after[-1]),
    )


@given(LETTERS, LETTERS)
def test_prefix_distance_is_the_best_over_all_beginnings(before: list[str], after: list[str]) -> None:
    assert prefix_distance(before, after) == min(distance(before, after[:end]) for end in range(len(after) + 1))


@given(LETTERS, LETTERS)
def test_rows_have_the_distance_to_every_beginning(text: list[str], other: list[str]) -> None:
    edits = np.arange(len(other) + 1)
    for letter in text:
        edits = next_row(edits, np.array([letter != one for one in other], bool))
    assert edits.tolist() == [distance(text, other[:end]) for end in range(len(other) + 1)]


@pytest.mark.parametrize(("before", "after", "expected"), [("the bat", "the cat sat", 1), ("a b", "x a b", 1)])
def test_prefix_distance(before: str, after: str, expected: int) -> None:
    assert prefix_distance(before.split(), after.split()) == expected
