from itertools import islice, pairwise

import numpy as np
import pytest

from whispertide_lab.speech.grammar import RULES
from whispertide_lab.speech.text import is_test_sentence, reserved_sentences, training_sentence


def sentences(seed: int, stream: int, count: int = 300) -> list[str]:
    return list(islice(reserved_sentences(seed, stream), count))


def test_every_sentence_is_reserved_for_tests_and_new() -> None:
    drawn = sentences(0, 0)
    assert all(is_test_sentence(sentence) for sentence in drawn)
    assert len(set(drawn)) == len(drawn)


def test_sentences_to_train_on_are_the_others() -> None:
    dice = np.random.RandomState(0)
    drawn = {training_sentence(dice) for _ in range(300)}
    assert len(drawn) > 280
    assert not any(is_test_sentence(sentence) for sentence in drawn)


def test_a_tenth_of_all_sentences_is_reserved() -> None:
    share = sum(is_test_sentence(f"The number {k} is a number") for k in range(5000)) / 5000
    assert share == pytest.approx(0.1, abs=0.02)


def test_case_punctuation_and_spacing_do_not_change_the_partition() -> None:
    for k in range(50):
        plain = f"it's the {k} river he said"
        assert is_test_sentence(plain) == is_test_sentence(f"  It’s the {k} river, HE said!")


def test_the_partition_never_moves() -> None:
    """Models trained long ago rely on it."""
    assert [k for k in range(60) if is_test_sentence(f"sentence {k}")] == [23, 38, 43, 44, 48, 57]


def test_the_seed_and_the_stream_decide() -> None:
    assert sentences(3, 1, 20) == sentences(3, 1, 20)
    assert sentences(3, 1, 20) != sentences(4, 1, 20)
    assert sentences(3, 1, 20) != sentences(3, 2, 20)


def test_words_count_the_same_written_and_spoken() -> None:
    for sentence in sentences(1, 0):
        assert sentence[0].isupper()
        assert sentence[-1] in ".?"
        assert all(word.strip(",.?").isalpha() for word in sentence.split()), sentence


@pytest.mark.slow
def test_articles_fit() -> None:
    words = " ".join(sentences(2, 0, 600)).lower().split()
    after = {(a, b.strip(".,?")) for a, b in pairwise(words) if a in ("a", "an")}
    assert ("an", "old") in after
    assert ("a", "good") in after
    assert all((article == "an") == (word[0] in "aeiou") for article, word in after)


@pytest.mark.slow
def test_no_name_of_a_rule_is_left_in_the_text() -> None:
    words = {word.strip(".,?") for sentence in sentences(5, 0, 500) for word in sentence.split()}
    assert not words & set(RULES)
    assert len(words) > 350
