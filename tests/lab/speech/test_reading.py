import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from whispertide_lab.speech.reading import ABBREVIATIONS, Sentence, Word, read


def said(text: str, seed: int = 0) -> str:
    sentence = read(text, np.random.RandomState(seed))
    assert sentence is not None
    assert sentence.written == text
    return sentence.said


@each_row(
    ("text", "spoken"),
    [
        ("It was built in 1987.", "It was built in nineteen eighty seven."),
        ("It costs $5.", "It costs five dollars."),
        ("It costs $1.", "It costs one dollar."),
        ("They paid $3 million for it.", "They paid three million dollars for it."),
        ("They paid $3.5 million.", "They paid three point five million dollars."),
        ("At 3:30, we left.", "At three thirty, we left."),
        ("Come at 7:05 p.m.", "Come at seven oh five pee em."),
        ("Can you come at 7:00 a.m.?", "Can you come at seven eigh em?"),
        ("The 11:15 p.m. train is late.", "The eleven fifteen pee em train is late."),
        ("Dr. Smith met Mrs. Hill in St. Louis.", "doctor Smith met missus Hill in saint Louis."),
        ("On May 3, we met.", "On May third, we met."),
        ("It's the 21st century.", "It's the twenty first century."),
        ("Music from the 1990s.", "Music from the nineteen nineties."),
        ("About 25% of them came.", "About twenty five percent of them came."),
        ("Prices fell by 2.5%.", "Prices fell by two point five percent."),
        ("It's in room 101.", "It's in room one oh one."),
        ("Call 555-0123.", "Call five five five, oh one two three."),
        ("They won 3-2.", "They won three to two."),
        ("A 20-year-old son.", "A twenty year old son."),
        ("The U.S. agreed.", "The you ess agreed."),
        ("It was on TV.", "It was on tee vee."),
        ("Books, letters, etc.", "Books, letters, et cetera."),
        ("World War II ended.", "World War two ended."),
        ("12,000 people came.", "twelve thousand people came."),
        ("I don't know, it's well-known.", "I don't know, it's well-known."),
    ],
)
def test_what_is_written_and_what_is_said(text: str, spoken: str) -> None:
    assert said(text) == spoken


@each_row(
    "text",
    ["The XYZ is here.", "At 25:70.", "The 22th.", "Five * two.", "Café.", "B is a letter.", "$5.123", "Fatah-RC.", ""],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    assert read(text, np.random.RandomState(0)) is None


def test_a_number_is_not_always_read_the_same() -> None:
    assert len({said("There are 2,105 of them.", seed) for seed in range(20)}) == 2
    assert len({said("In 2024, it rained.", seed) for seed in range(20)}) == 2


def test_times_of_what_is_said_become_times_of_what_is_written() -> None:
    sentence = Sentence((Word("It's", "It's"), Word("$5", "five dollars"), Word("now.", "now.")))
    spans = sentence.spans([(0, 10), (10, 30), (40, 60), (60, 90)])
    assert spans == ((0, 10), (10, 60), (60, 90))


def test_a_wrong_number_of_times_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 spans"):
        Sentence((Word("$5", "five dollars"),)).spans([(0, 10)])


def test_abbreviations_are_said_in_small_words() -> None:
    assert all(word.isalpha() and word.islower() for reading in ABBREVIATIONS.values() for word in reading.split())


@given(st.integers(0, 10**10), st.integers(0, 2**32 - 1))
def test_every_number_is_read_in_words(number: int, seed: int) -> None:
    sentence = read(f"We have {number:,} of them.", np.random.RandomState(seed))
    assert sentence is not None
    assert not any(character.isdigit() for character in sentence.said)
    assert len(sentence.words) == 5
