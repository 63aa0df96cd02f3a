"""The helper that sorts the rows of tables: which it marks slow, and what it refuses."""

import pytest

from slow_rows import slow_but


def test_all_but_the_quick_ones_are_slow() -> None:
    quick, *slow = slow_but(("a", ("b", 1), None), "a")
    assert quick == "a"
    assert [row.values for row in slow] == [("b", 1), (None,)]
    assert all([mark.name for mark in row.marks] == ["slow"] for row in slow)


def test_a_quick_row_that_is_none_of_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected rows of \['a'\]; \['b'\] are none"):
        slow_but(["a"], "b")
