"""The table "Shares of one client" of docs/internals/server.md names what is there."""

import re
from pathlib import Path

from each_row import each_row

ROOT = Path(__file__).parents[2]
SERVER, TESTS = ROOT / "src" / "whispertide" / "server", ROOT / "tests" / "server"
# The first words of a row.
RESOURCES = ("loop time", "workers", "memory", "file descriptors", "disk", "log", "connections", "sessions", "journal")


def rows() -> list[list[str]]:
    section = re.split(r"^## ", (ROOT / "docs" / "internals" / "server.md").read_text(encoding="utf-8"), flags=re.M)
    (found,) = (part for part in section if part.startswith("Shares of one client"))
    lines = [line for line in found.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_resource_has_a_row() -> None:
    named = [row[0] for row in rows()]
    assert not [resource for resource in RESOURCES if not any(name.startswith(resource) for name in named)]


@each_row("row", rows())
def test_what_a_row_names_is_there(row: list[str]) -> None:
    _, share, setting, where, tests = row
    assert share
    assert setting
    files, named = re.findall(r"`([^`]+)`", where), re.findall(r"`([^`]+)`", tests)
    assert files
    assert named
    assert all((SERVER / file).is_file() for file in files)
    for name in named:
        file, _, test = name.partition("::")
        source = (TESTS / f"{file}.py").read_text(encoding="utf-8")
        begins = f"def {re.escape(test.removesuffix('…'))}" + ("" if test.endswith("…") else "[(]")
        assert re.search(begins if test else "def test_", source), name
