"""Tables of which few rows are fast tests, one of each kind, and the others slow ones, which CI runs too."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(rows: Iterable[Any], *quick: Any) -> list[Any]:
    """The rows for `pytest.mark.parametrize`, marked slow but for the quick ones.

    Raises ValueError where one of these is no row, so that it would not be tested.
    """
    table = list(rows)
    if missing := [row for row in quick if row not in table]:
        raise ValueError(f"expected rows of {table!r:.1000}; {missing!r:.1000} are none")
    return [row if row in quick else _slow(row) for row in table]


def _slow(row: Any) -> Any:
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.slow)
