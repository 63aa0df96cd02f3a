"""What the tables of an outcome say, for tests."""

from typing import Any


def by_first(outcome: Any) -> dict[str, tuple[str, ...]]:
    """The rows of its first table by their first cell."""
    return {row[0]: row[1:] for row in outcome.tables[0].rows}
