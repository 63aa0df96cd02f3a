"""Processes that each have a share of the test files. To collect all files in each of them, as they must where one
takes tests from another, would cost a quarter of what the fast tests take.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

SHARES = "file_shares"  # in what a process is told at its start


def share_of(files: Sequence[Path], number: int, count: int) -> frozenset[Path]:
    """The files of one of `count` processes. Neighbours, which are alike, go to different ones."""
    return frozenset(sorted(files)[number::count])


class FileShare:
    """For a process that runs tests: it collects no others than those in these files."""

    def __init__(self, files: frozenset[Path]) -> None:
        self.files = files

    @pytest.hookimpl
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return (collection_path.match("test_*.py") and collection_path not in self.files) or None
