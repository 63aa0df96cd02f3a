"""Processes that share out the test files: every file is one process's, and every test is counted."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from each_row import each_row
from file_shares import SHARES, FileShare, share_of
from shares_out import ByShare, pytest_configure_node

FILES = [Path("tests", folder, f"test_{name}.py") for folder in ("a", "b") for name in "54321"]


@dataclass(eq=False)
class Node:
    """One of the processes, which notes what it is told."""

    told: list[str] = field(default_factory=list)

    def send_runtest_all(self) -> None:
        self.told.append("run all")

    def shutdown(self) -> None:
        self.told.append("end")


@each_row("count", [1, 3, 4, 12])
def test_every_file_is_in_one_share(count: int) -> None:
    shares = [share_of(FILES, number, count) for number in range(count)]
    assert sorted(file for share in shares for file in share) == sorted(FILES)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert [share_of(FILES[::-1], number, count) for number in range(count)] == shares


def test_no_other_file_is_collected() -> None:
    share = FileShare(share_of(FILES, 0, 2))
    kept = [file for file in FILES if share.pytest_ignore_collect(file) is None]
    assert set(kept) == share.files
    assert len(kept) == 5
    for other in (Path("tests"), Path("tests/a"), Path("tests/conftest.py"), Path("tests/a/support.py")):
        assert share.pytest_ignore_collect(other) is None  # that is for others to say


def test_all_tests_of_all_shares_are_run_and_counted() -> None:
    session = SimpleNamespace(testscollected=0)
    config: Any = SimpleNamespace(
        getvalue=lambda name: {"tx": ["popen"] * 2}[name], pluginmanager=SimpleNamespace(getplugin=lambda _: session)
    )
    scheduler, nodes = ByShare(config), [Node(), Node()]
    for node in nodes:
        scheduler.add_node(node)
    for node, tests in zip(nodes, (["a", "b"], ["c"]), strict=True):
        assert not scheduler.collection_is_completed
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    assert [node.told for node in nodes] == [["run all", "end"]] * 2
    assert session.testscollected == 3


def test_a_process_is_told_that_it_has_a_share() -> None:
    node = SimpleNamespace(workerinput={})
    pytest_configure_node(node)
    assert node.workerinput == {SHARES: True}
