from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from whispertide.errors import CorpusError
from whispertide_lab.speech.phrases import phrase, phrase_words
from whispertide_lab.speech.reading import read
from whispertide_lab.speech.sources import spelled_words
from whispertide_lab.speech.text import is_test_sentence
from whispertide_lab.speech.texts import draw_sentence, limited, own_words, read_texts, write_texts

# Found by trying: the rule reserves the first and not the second.
RESERVED = next(text for i in range(100) if is_test_sentence(text := f"The cat is at door number {i}."))
FREE = next(text for i in range(100) if not is_test_sentence(text := f"The cat is at door number {i}."))


@pytest.mark.slow
def test_every_pattern_can_be_read_and_has_no_open_slot() -> None:
    dice = np.random.RandomState(1)
    for text in {phrase(dice) for _ in range(6000)}:
        assert read(text, dice) is not None, text
        assert not set(text) & set("{}|"), text
        assert ".." not in text
        assert text[0].isupper() or text[0].isdigit() or text[0] == "$", text
        assert not any(
            a.lower() == "a" and b[0] in "aeiou" for a, b in pairwise(text.split()) if not b.startswith("one")
        ), text


def test_patterns_say_no_word_outside_their_list() -> None:
    dice = np.random.RandomState(2)
    endings = {"a", "m", "p", "an", "s", "st", "nd", "rd", "th", "year", "old", "o'clock", "million"}
    known = {word.removesuffix("'s") for word in phrase_words()} | endings
    for _ in range(1500):
        assert {word.removesuffix("'s") for word in spelled_words(phrase(dice))} <= known


def test_patterns_vary() -> None:
    dice = np.random.RandomState(3)
    assert len({phrase(dice) for _ in range(1000)}) > 700


def test_test_sentences_are_dropped_and_what_holds_them() -> None:
    longer = RESERVED.removesuffix(".") + " of my house."
    assert not is_test_sentence(longer)
    assert limited([RESERVED, FREE, longer, FREE], None) == [FREE]


def test_the_vocabulary_is_the_most_frequent_words_and_the_patterns_own() -> None:
    often = [f"Wombats like {thing}." for thing in ("houses", "letters", "bread")]
    seldom = ["Quokkas like letters."]
    kept = [text for text in often if not is_test_sentence(text)]
    assert limited(often + seldom, 2) == sorted(kept)
    assert {"houses", "don't", "thursday"} <= own_words()


def test_no_sentence_left_is_an_error() -> None:
    with pytest.raises(CorpusError, match="allow more words"):
        limited(["Quokkas like wombats."], 0)


def test_drawn_sentences_are_never_reserved_and_come_from_everywhere() -> None:
    dice = np.random.RandomState(4)
    drawn = [draw_sentence([FREE, RESERVED], dice).written for _ in range(400)]
    assert not any(is_test_sentence(text) for text in drawn)
    assert FREE in drawn
    assert any(character.isdigit() for text in drawn for character in text if text != FREE)


def test_texts_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_texts(tmp_path / "texts", ["One.", "Two, three."])
    assert read_texts(tmp_path / "texts") == ["One.", "Two, three."]
