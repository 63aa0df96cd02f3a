"""Figures in the README and the documentation are backed: a table of results names its command, the README's stand in a
stored result as well, and what a page calls an entry of the log is one.

A table of results is one whose head has a unit or a measure. It names its command, or the stored result, in its own
section; a page may also name one command for all of it under "How this was made", or be made of a JSON file next to it.
The log is dated history, and docs/papers.md has tests of its own (`lab/evaluation/test_inventory.py`).
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOG = ROOT / "docs" / "LOG.md"
PAGES = [
    page
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.name not in ("LOG.md", "papers.md")
]
_RESULT = re.compile(r"%|\b(?:s|ms|MB|WER|ARWER|GFLOP|p50|p95|p99|latency|errors|result)\b")
_FIGURE = re.compile(r"(?<![\w.=])\d[\d,]*(?:\.\d+)?(?![\w.])")
_COMMAND = re.compile(
    r"`[^`]*\b(?:whispertide|benchmarks/\w+\.py|make|pytest)\s[^`]*`|`python benchmarks/\w+\.py[^`]*`"
)
_BLOCK = re.compile(r"^ {4}(?:whispertide|python|make) ", re.M)
_STORED = re.compile(r"LOG\.md|\.csv\b")
_FOR_ALL = "## How this was made"
_ENTRY = re.compile(r'LOG\.md(?:\]\([^)]*\))?,? (?:in )?"([^"]+)"')


def sections(text: str) -> list[str]:
    """The text from heading to heading; a comment in a program is no heading."""
    shown = re.sub(r"^```.*?^```", lambda block: block.group().replace("\n#", "\n #"), text, flags=re.M | re.S)
    return re.split(r"^(?=#{1,6} )", shown, flags=re.M)


def tables(section: str) -> list[list[str]]:
    """The lines of each table: head, rule, rows."""
    return [found.splitlines() for found in re.findall(r"(?:^\|.*\n)+", section + "\n", re.M)]


def has_results(table: list[str]) -> bool:
    """Whether the head names a measure, and most rows have a figure."""
    head, _, *rows = table
    return bool(_RESULT.search(head)) and 2 * sum(bool(_FIGURE.search(row)) for row in rows) > len(rows)


def unbacked(text: str) -> list[str]:
    """The heads of the tables of results without a command or a stored result in their section."""
    if _FOR_ALL in text:
        return []
    return [
        table[0]
        for section in sections(text)
        if not any(pattern.search(section) for pattern in (_COMMAND, _BLOCK, _STORED))
        for table in tables(section)
        if has_results(table)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_table_of_results_names_its_command(page: Path) -> None:
    if not page.with_suffix(".json").exists():  # a model card's results, with their command
        assert unbacked(page.read_text(encoding="utf-8")) == []


def test_one_command_for_all_is_named() -> None:
    for page in PAGES:
        _, found, how = page.read_text(encoding="utf-8").partition(_FOR_ALL)
        assert not found or "python benchmarks/" in how


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_an_entry_of_the_log_that_a_page_names_exists(page: Path) -> None:
    headings = re.findall(r"^## \d{4}-\d\d-\d\d (.*)$", LOG.read_text(encoding="utf-8"), re.M)
    named = _ENTRY.findall(re.sub(r"\s+", " ", page.read_text(encoding="utf-8")))
    assert [name for name in named if not any(one.startswith(name.rstrip(".… ")) for one in headings)] == []


# --- the README -------------------------------------------------------------------------------------------------------


def measured_rows() -> list[tuple[str, str, str]]:
    """The README's rows: what, result, command."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, *rows = next(table for section in sections(readme) for table in tables(section) if has_results(table))
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [(what, result, command) for what, result, command in cells]


def stands(figure: str, stored: list[float]) -> bool:
    """Whether a figure is one of those stored, rounded as it is."""
    shown, digits = float(figure.replace(",", "")), len(figure.partition(".")[2])
    return any(abs(one - shown) <= 0.5001 * 10**-digits for one in stored)


def values(text: str) -> list[float]:
    return [float(figure.replace(",", "")) for figure in _FIGURE.findall(text) if figure.strip(",")]


def stored_sections() -> list[list[float]]:
    """The figures of every section of the documentation."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return [values(section) for page in pages for section in sections(page.read_text(encoding="utf-8"))]


def test_every_row_of_the_readme_names_its_command() -> None:
    commands = [command for _, _, command in measured_rows()]
    assert commands[0] != "the same"
    assert [command for command in commands if command != "the same" and not _COMMAND.search(command)] == []


@pytest.mark.parametrize("row", measured_rows(), ids=lambda row: row[0][:40])
def test_the_figures_of_a_row_stand_in_one_stored_result(row: tuple[str, str, str]) -> None:
    figures = [figure.rstrip(",") for figure in _FIGURE.findall(row[1])]
    assert figures
    assert any(all(stands(figure, stored) for figure in figures) for stored in stored_sections())


def test_the_table_next_to_other_programs_is_the_one_of_their_page() -> None:
    (shown,) = (
        table
        for section in sections((ROOT / "README.md").read_text(encoding="utf-8"))
        for table in tables(section)
        if "peer:" in "".join(table)
    )
    page = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
    assert shown in [table for section in sections(page) for table in tables(section)]


# --- these tests can fail ---------------------------------------------------------------------------------------------

TABLE = "| recipe | WER % |\n|---|---|\n| tide | 3.4 |\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"# A\n\n{TABLE}", 1),
        (f"# A\n\n`whispertide bench run --excerpt 60`\n\n{TABLE}", 0),
        (f"# A\n\n`python benchmarks/beams.py`:\n\n{TABLE}", 0),
        (f"# A\n\n    whispertide bench run\n\n{TABLE}", 0),
        (f"# A\n\nSee [LOG.md](LOG.md).\n\n{TABLE}", 0),
        (f"# A\n\n`whispertide bench run`\n\n# B\n\n{TABLE}", 1),
        (f"# A\n\n`whispertide`\n\n{TABLE}", 1),
        ("# A\n\n| option | meaning |\n|---|---|\n| `--size` | 0.4 of it |\n", 0),
    ],
)
def test_a_table_without_a_command_is_found(text: str, found: int) -> None:
    assert len(unbacked(text)) == found


@pytest.mark.parametrize(
    ("figure", "found"), [("3.4", True), ("3.3", False), ("4,712", True), ("3", True), ("3.37", True)]
)
def test_figures_are_compared_as_they_are_rounded(figure: str, found: bool) -> None:
    assert stands(figure, [3.37, 4712.0]) is found
