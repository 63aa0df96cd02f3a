"""Which words are left out as unlikely."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.streaming.unlikely import AFTER, BEFORE, without_unlikely
from whispertide.types import Word


def words(*chances: float) -> list[Word]:
    return [Word(f" {number}", number, number + 1, chance) for number, chance in enumerate(chances)]


def kept(*chances: float, before: tuple[float, ...] = (), after: tuple[float, ...] = (), below: float = 0.5) -> str:
    return "".join(
        word.text.strip() for word in without_unlikely(words(*chances), below, before=before, after=words(*after))
    )


@pytest.mark.parametrize(
    ("chances", "expected"),
    [
        ((0.9, 0.9, 0.1, 0.9, 0.9), "01234"),
        ((0.1, 0.2, 0.1, 0.2), "0"),
        ((0.1, 0.2, 0.6, 0.2), "02"),
        ((0.9, 0.9, 0.9, 0.1, 0.1, 0.1, 0.9, 0.9), "012367"),
        ((0.1,), "0"),
        ((0.1, 0.1), "01"),
        ((0.5, 0.49, 0.5), "02"),
        ((0.5, 0.5, 0.5), "012"),
    ],
    ids=["one", "all but the first", "a likely one among them", "a stretch", "alone", "two", "just below", "just not"],
)
def test_words_in_an_unlikely_stretch_are_left_out(chances: tuple[float, ...], expected: str) -> None:
    assert kept(*chances) == expected


def test_what_comes_before_and_after_counts() -> None:
    assert kept(0.1, before=(0.1, 0.1, 0.1)) == ""
    assert kept(0.1, before=(0.9, 0.9, 0.9)) == "0"
    assert kept(0.3, before=(0.5, 0.5), after=(0.9,)) == "0"
    assert kept(0.3, before=(0.5, 0.5), after=(0.1,)) == ""


@given(st.lists(st.floats(0, 1), max_size=20), st.floats(0, 1))
def test_likely_words_always_stay_and_in_order(chances: list[float], below: float) -> None:
    said = words(*chances)
    left = without_unlikely(said, below)
    assert [word for word in said if word in left] == list(left)
    assert set(left) >= {word for word in said if word.probability >= below}
    assert without_unlikely(said, 0.0) == tuple(said)


@given(st.lists(st.floats(0, 1), max_size=20), st.integers(0, 20))
def test_words_may_come_in_two_portions(chances: list[float], cut: int) -> None:
    """If the next word is known at the cut."""
    said = words(*chances)
    first, second = said[:cut], said[cut:]
    known = tuple(word.probability for word in first[-BEFORE:])
    parts = (
        without_unlikely(first, 0.5, after=second[:AFTER]),
        without_unlikely(second, 0.5, before=known),
    )
    assert parts[0] + parts[1] == without_unlikely(said, 0.5)
