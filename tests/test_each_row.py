"""The helper that many tables of the tests go through: what it calls, and what it says of a row that fails."""

import pytest

from each_row import each_row

seen: list[object] = []


@each_row("number", range(3))
@each_row(("letter", "capital"), [("a", "A"), ("b", "B")])
def test_every_row_is_tried(number: int, letter: str, capital: str, tmp_path: object) -> None:
    assert letter.upper() == capital
    assert tmp_path
    seen.append((number, letter))


def test_none_was_left_out() -> None:
    seen.clear()
    test_every_row_is_tried(tmp_path=1)
    assert seen == [(number, letter) for number in range(3) for letter in "ab"]


def test_a_row_that_fails_is_named() -> None:
    @each_row(("text", "length"), [("a", 1), ("four", 3), ("never tried", None)])
    def measured(text: str, length: int) -> None:
        assert len(text) == length

    with pytest.raises(AssertionError) as failed:
        measured()
    assert failed.value.__notes__ == ["in the row {'text': 'four', 'length': 3}"]


def test_so_is_one_that_does_not_raise() -> None:
    @each_row("text", ["x", "1"])
    def refused(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(pytest.fail.Exception) as failed:
        refused()
    assert failed.value.__notes__ == ["in the row {'text': '1'}"]


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="expected rows for number"):
        each_row("number", ())
