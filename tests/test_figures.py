"""Figures in the README and the documentation are backed: a table of results names its command, each figure stands in a
stored result that its section names (`figures.py` has the rule).

A page of lab/docs that a tool made is compared with its data: papers.md and scale.md by tests of their own, the model
cards with the JSON next to them, peers.md and the tables of soak.md and siege.md with the tables that their tools
stored. The log is dated history.
"""

import csv
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from each_row import each_row
from figures import (
    NUMBER,
    ROOT,
    cells,
    figures,
    has_results,
    heading,
    sections,
    stands,
    tables,
    unbacked,
    without_tables,
)
from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide_lab.evaluation.card.page import page as card_page
from whispertide_lab.evaluation.card.results import read_card

DOCS = ROOT / "docs"
LAB = ROOT / "lab" / "docs"
CARDS = sorted(page for page in LAB.glob("model-card*.md") if page.with_suffix(".json").exists())
MADE = ("papers.md", "scale.md", *(card.name for card in CARDS))
PAGES = [
    page
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")), *sorted(LAB.glob("*.md")))
    if page not in [LAB / name for name in MADE]
]
CONSTANTS = tomllib.loads((ROOT / "tests" / "support" / "constants.toml").read_text(encoding="utf-8"))
STORED = {
    "lab/docs/peers.md": LAB / "benchmarks" / "peers.json",
    "lab/docs/soak.md": LAB / "soak" / "figures.json",
    "lab/docs/siege.md": LAB / "siege" / "figures.json",
}
_COMMAND = re.compile(
    r"`[^`]*\b(?:whispertide|benchmarks/\w+\.py|make|pytest)\s[^`]*`|`python benchmarks/\w+\.py[^`]*`"
)
_BLOCK = re.compile(r"^ {4}(?:whispertide|python|make) ", re.M)
_NAMED = re.compile(r"log/(?:README|\d{4}-\d\d)\.md|\.csv\b")
_FOR_ALL = "## How this was made"

TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def made_rows() -> set[str]:
    """The rows that tools stored."""
    return {line.rstrip(",") for file in STORED.values() for line in file.read_text(encoding="utf-8").splitlines()}


def found_in(text: str, page: Path) -> list[str]:
    """The figures of a page that nothing backs."""
    return unbacked(without_tables(text, made_rows()), page, CONSTANTS.get(name_of(page), {}))


def test_every_figure_stands_in_a_stored_result() -> None:
    """A figure that is found: correct it, link the entry of the log in its section, or put a constant on the list."""
    unfounded = {name_of(page): found_in(text, page) for page, text in TEXTS.items()}
    assert {name: found for name, found in unfounded.items() if found} == {}


def test_constants_are_those_of_their_pages() -> None:
    shown = {
        (name_of(page), heading(section), figure)
        for page, text in TEXTS.items()
        for section in sections(text)
        for figure in figures(section)
    }
    listed = {
        (page, name, figure)
        for page, constants in CONSTANTS.items()
        for name, numbers in constants.items()
        for figure in numbers.split()
    }
    assert listed - shown == set()


@cache
def made_page(card: Path) -> str:
    """The page that a tool makes of the data of a card, which takes a second."""
    return card_page(read_card(card.with_suffix(".json")))


@pytest.mark.slow
@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_model_card_is_that_of_its_data(card: Path) -> None:
    """If this fails: `whispertide train card`, which writes both."""
    assert card.read_text(encoding="utf-8") == made_page(card)


@pytest.mark.parametrize("page", STORED)
def test_the_tables_of_a_page_that_a_tool_made_are_those_it_stored(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    made = re.search(r"<!-- figures: .*?-->(.*)<!-- end", text, re.S)
    shown = [row for table in tables(made.group(1) if made else text) for row in cells(table)]
    assert shown == [line.rstrip(",") for line in STORED[page].read_text(encoding="utf-8").splitlines()[1:-1]]


def test_the_weights_that_pages_name_are_those_of_the_package() -> None:
    newest = load_checkpoint(str(BUNDLED_DIR / "nano.en")).content_hash[:12]
    named = {
        (name_of(page), each)
        for page, text in TEXTS.items()
        for each in re.findall(r"\bnano\.en \(([0-9a-f]{12})\)", text)
    }
    assert named
    assert {(name, each) for name, each in named if each != newest} == set()


# --- a table of results names its command -----------------------------------------------------------------------------


def without_a_command(text: str) -> list[str]:
    """The heads of the tables of results without a command or a stored result in their section."""
    if _FOR_ALL in text:
        return []
    return [
        table[0]
        for section in sections(text)
        if not any(pattern.search(section) for pattern in (_COMMAND, _BLOCK, _NAMED))
        for table in tables(section)
        if has_results(table)
    ]


def test_a_table_of_results_names_its_command() -> None:
    assert [(name_of(page), head) for page, text in TEXTS.items() for head in without_a_command(text)] == []


def test_one_command_for_all_is_named() -> None:
    for text in TEXTS.values():
        _, found, how = text.partition(_FOR_ALL)
        assert not found or "python benchmarks/" in how


def test_the_table_of_recipes_is_that_of_its_plot() -> None:
    """WER and when a word is confirmed, as rounded. If this fails: `make pictures`, and the table that it prints."""
    with (LAB / "benchmarks" / "recipes-trade-off.csv").open(encoding="utf-8", newline="") as file:
        plotted = {row[0]: (float(row[2]), float(row[1])) for row in list(csv.reader(file))[1:] if row[1]}
    (table,) = (
        table
        for section in sections((LAB / "benchmarks.md").read_text(encoding="utf-8"))
        for table in tables(section)
        if table[0].startswith("| recipe |")
    )
    shown = {row[0]: (row[2], row[3]) for row in (re.split(r" *\| *", line.strip("| ")) for line in table[2:])}
    assert shown.keys() == plotted.keys()
    wrong = {
        name
        for name, pair in shown.items()
        for each, exact in zip(pair, plotted[name], strict=True)
        if not stands(each, (exact,))
    }
    assert wrong == set()


def test_the_readme_has_one_table_of_results() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len([table for section in sections(readme) for table in tables(section) if has_results(table)]) == 1


# --- these tests can fail ---------------------------------------------------------------------------------------------

TABLE = "| recipe | WER % |\n|---|---|\n| tide | 3.4 |\n"
FORGED = "A round takes 0.437 s, which is 41.7 % less, 3.19x as fast, and 1,337 words."


@each_row(
    ("text", "found"),
    [
        (f"# A\n\n{TABLE}", 1),
        (f"# A\n\n`whispertide bench run --excerpt 60`\n\n{TABLE}", 0),
        (f"# A\n\n`python benchmarks/beams.py`:\n\n{TABLE}", 0),
        (f"# A\n\n    whispertide bench run\n\n{TABLE}", 0),
        (f"# A\n\nSee the [log](../log/2026-11.md).\n\n{TABLE}", 0),
        (f"# A\n\n`whispertide bench run`\n\n# B\n\n{TABLE}", 1),
        (f"# A\n\n`whispertide`\n\n{TABLE}", 1),
        ("# A\n\n| option | meaning |\n|---|---|\n| `--size` | 0.4 of it |\n", 0),
    ],
)
def test_a_table_without_a_command_is_found(text: str, found: int) -> None:
    assert len(without_a_command(text)) == found


@each_row(
    ("figure", "found"), [("3.4", True), ("3.3", False), ("4,712", True), ("3", False), ("3.37", True), ("209", True)]
)
def test_figures_are_compared_as_they_are_rounded(figure: str, found: bool) -> None:
    assert stands(figure, [3.37, 208.7, 4712.0]) is found


@each_row(
    ("text", "found"),
    [
        ("It takes 0.4 s.", ["0.4"]),
        ("It takes 19 to 31 ms, 5 % less, 2.1x as fast.", ["19", "31", "5", "2.1"]),
        ("Of 1,084 words 7 are wrong.", ["1,084"]),
        ("Set `step_s=0.4`, see [it](a-0.4.md), arXiv 2311.17065, Python 3.11 to 3.14, 2026-11-25.", []),
        ("    whispertide listen --set step_s=0.4", []),
        ("```python\nstep_s = 0.4\n```", []),
        ("```\ntide  0.4 s\n```", ["0.4"]),
        ("| field | default |\n|---|---|\n| `step_s` | 0.4 s |\n", []),
        ("| recipe | WER % |\n|---|---|\n| tide | 3 (2 of 7) |\n", ["3", "2", "7"]),
        ("| recipe | said |\n|---|---|\n| tide | 3 words, 2 of them sooner |\n", ["3"]),
    ],
)
def test_what_a_figure_is(text: str, found: list[str]) -> None:
    assert figures(f"# A\n\n{text}\n") == found


def test_a_sentence_with_forged_figures_is_found_everywhere() -> None:
    page = ROOT / "README.md"
    assert len(found_in(f"{TEXTS[page]}\n\n# Forged\n\n{FORGED}\n", page)) == 4
    first, *others = sections(TEXTS[page])
    somewhere = "".join([first, *(f"{section}\n\n{FORGED}\n\n" for section in others)])
    assert len(found_in(somewhere, page)) >= 3 * len(others)


@pytest.mark.soak
def test_most_forged_figures_are_found() -> None:
    """Each figure that is checked, one after the other, is made a third larger. A few then stand there by chance."""
    found = [noticed for page in PAGES for noticed in forgeries(page)]
    assert len(found) > 300
    assert sum(found) > 0.85 * len(found)


def forgeries(page: Path) -> list[bool]:
    """Whether a page with one figure changed is found out, figure by figure."""
    text = without_tables(TEXTS[page], made_rows())
    constants = CONSTANTS.get(name_of(page), {})
    found = []
    for section in sections(text):
        known = constants.get(heading(section), "").split()
        for figure in sorted({each for each in figures(section) if each not in known}):
            one = re.compile(rf"(?<![\d.,]){re.escape(figure)}(?!\d|[.,]\d)")
            found.append(unbacked(one.sub(larger(figure), section, count=1), page, constants) != [])
    return found


def larger(figure: str) -> str:
    """A figure that is a third larger, with as many digits after the point."""
    digits = len(figure.partition(".")[2])
    return f"{float(figure.replace(',', '')) * 1.34 + 3 * 10**-digits:{',' if ',' in figure else ''}.{digits}f}"


@pytest.mark.slow
def test_a_forged_figure_of_a_model_card_is_found() -> None:
    text = CARDS[0].read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| held-out voices, grammar | no |"))
    figure = NUMBER.findall(row)[2]
    assert text.replace(row, row.replace(figure, larger(figure))) != made_page(CARDS[0])


@pytest.mark.parametrize("page", STORED)
def test_a_forged_row_of_a_table_that_a_tool_made_is_found(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    row = next(
        row for section in sections(text) for table in tables(section) if has_results(table) for row in table[2:]
    )
    figure = NUMBER.findall(row)[0]
    (table,) = tables("| forged |\n| --- |\n" + row.replace(figure, larger(figure)) + "\n")
    assert not set(cells(table[2:])) <= made_rows()
    (table,) = tables("| forged |\n| --- |\n" + row + "\n")
    assert set(cells(table[2:])) <= made_rows()


# --- what was put together by hand ------------------------------------------------------------------------------------


def rows_of_peers(*, glance: bool) -> list[list[float]]:
    """The figures of each row of the tables of peers.md: of the one at a glance, or of those that were measured."""
    text = (LAB / "peers.md").read_text(encoding="utf-8")
    return [
        [float(each.replace(",", "")) for each in NUMBER.findall(row.split("|", 2)[2])]  # without the name
        for section in sections(text)
        if (heading(section) == "At a glance") is glance
        for table in tables(section)
        for row in table[2:]
    ]


def test_at_a_glance_has_the_figures_of_the_tables_below_it() -> None:
    """Errors, delay and computing of a program with a model, or errors and computing offline, stand in one row."""
    measured = [set(row) for row in rows_of_peers(glance=False)]
    shown = rows_of_peers(glance=True)
    assert len(shown) > 4
    for row in shown:
        size = 2 if len(row) == 4 else 3
        for one in (row[:size], row[size:]):
            assert any(set(one) <= each for each in measured), one


def delays_of_peers(*, glance: bool) -> dict[tuple[str, str], bool]:
    """Whether each delay of peers.md is marked as not reliable, by itself and its errors."""
    text = (LAB / "peers.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for section in sections(text)
        if (heading(section) == "At a glance") is glance
        for table in tables(section)
        if glance or "confirmed mean s" in table[0]
        for row in table[2:]
    ]
    pairs = [(row[at], row[at + 1]) for row in rows for at in (1, 4)] if glance else [(row[3], row[5]) for row in rows]
    return {(errors, delay.split(" ")[0]): "!" in delay for errors, delay in pairs}


def test_at_a_glance_a_delay_is_marked_as_below() -> None:
    measured = delays_of_peers(glance=False)
    shown = {pair: marked for pair, marked in delays_of_peers(glance=True).items() if pair in measured}
    assert len(shown) > 12
    assert shown == {pair: measured[pair] for pair in shown}


def test_the_plot_of_the_readme_marks_the_same_delays() -> None:
    measured = [
        (*map(float, pair), marked)
        for pair, marked in delays_of_peers(glance=False).items()
        if all(map(NUMBER.fullmatch, pair))
    ]
    with (DOCS / "errors-trade-off.csv").open(encoding="utf-8", newline="") as file:
        points = [row for row in list(csv.reader(file))[1:] if row[1]]
    assert len(points) > 8
    for _, delay, errors, note in points:
        marked = {
            mark
            for other_errors, other_delay, mark in measured
            if abs(float(errors) - other_errors) < 0.00501 and abs(float(delay) - other_delay) < 0.00501
        }
        assert marked == {"!" in note}, (delay, errors)


def test_the_plot_of_the_readme_has_the_figures_of_the_tables() -> None:
    measured = [set(row) for row in rows_of_peers(glance=False)]
    with (DOCS / "errors-trade-off.csv").open(encoding="utf-8", newline="") as file:
        _, *points = csv.reader(file)
    assert len(points) > 8
    for _, delay, errors, _ in points:
        exact = [float(each) for each in (delay, errors) if each]
        shown = (all(any(abs(one - other) < 0.00501 for other in row) for one in exact) for row in measured)
        assert any(shown), (delay, errors)
