"""A plug-in for the process that starts the others (`--dist each`): each runs all tests of its share of the files."""

from typing import Any

import pytest
from xdist.scheduler import EachScheduling  # type: ignore[import-untyped]

from file_shares import SHARES


class ByShare(EachScheduling):  # type: ignore[misc]
    """Counts the tests of all processes, where xdist thinks that all have the same."""

    def schedule(self) -> None:
        session: Any = self.config.pluginmanager.getplugin("session")
        session.testscollected = sum(map(len, self.node2collection.values()))
        super().schedule()


def pytest_configure_node(node: Any) -> None:
    """What a process is told before it collects."""
    node.workerinput[SHARES] = True


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByShare:
    """In place of the one that takes the same tests from everyone."""
    return ByShare(config, log)
