"""The inventory agrees with the papers' items, with the page made of it, and with the stored results."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from whispertide.errors import OptionError
from whispertide.lab.evaluation import inventory as module
from whispertide.lab.evaluation.inventory import Claim, Entry, build, inventory, read_inventory
from whispertide.lab.evaluation.papers import PAPERS

DOCS = Path(__file__).parents[3] / "docs"
STORED = [(entry, claim) for entry in inventory() for claim in entry.claims if claim.result]
FIGURE = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def test_the_page_is_that_of_the_data() -> None:
    """If this fails: python -m whispertide.lab.evaluation.inventory docs/papers.md."""
    assert (DOCS / "papers.md").read_text(encoding="utf-8") == build()


def test_every_item_is_in_the_inventory_once_and_no_other() -> None:
    items = [(paper.name, item.id) for paper in PAPERS.values() for item in paper.items]
    assert sorted((entry.paper, entry.id) for entry in inventory()) == sorted(items)


def test_every_item_has_a_statement() -> None:
    assert [(entry.paper, entry.id) for entry in inventory() if not entry.claims] == []


@cache
def section(result: str) -> str:
    """The section of the documentation that `result` names; a heading of the log stands after its date."""
    file, _, heading = result.partition(": ")
    text = (DOCS / file).read_text(encoding="utf-8")
    found = re.search(rf"^#+ (?:\d{{4}}-\d\d-\d\d )?{re.escape(heading)}$(.*?)(?=^#+ |\Z)", text, re.M | re.S)
    assert found, f"{file} has no section {heading!r}"
    return found.group(1)


def test_every_figure_stands_in_the_stored_result() -> None:
    """So nobody can invent one, nor keep one when the result is measured again."""
    for _, claim in STORED:
        stored = set(FIGURE.findall(section(claim.result)))
        assert [figure for figure in FIGURE.findall(claim.here) if figure not in stored] == [], claim


def test_every_command_is_one_of_ours() -> None:
    for _, claim in STORED:
        program, *rest = claim.command.split()
        assert program in ("whispertide", "python"), claim
        if program == "python":
            assert (DOCS.parent / rest[0]).is_file(), claim


def test_a_command_of_a_paper_makes_the_item_that_it_stands_for() -> None:
    commands = [(entry, claim.command) for entry, claim in STORED if "bench paper" in claim.command]
    assert commands
    for entry, command in commands:
        words = shlex.split(command)
        paper, items = words[words.index("paper") + 1], words[words.index("--items") + 1].split(",")
        assert paper == entry.paper, command
        assert entry.id in items, command
        assert set(items) <= {item.id for item in PAPERS[paper].items if item.state != "missing"}, command


VALUES = {"published": "It is so.", "why": "Because.", "here": "1 s", "result": "LOG.md: A", "command": "whispertide"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "likely"}, "expected a verdict among confirmed, refuted"),
        ({"why": ""}, "a reason"),
        ({"command": ""}, "with result and command, or none"),
        ({"result": ""}, "with result and command, or none"),
        ({"here": ""}, "with result and command, or none"),
        ({"here": "", "result": "", "command": ""}, "a stored result for 'refuted'; got none"),
    ],
)
def test_no_verdict_stands_without_a_stored_result(change: dict[str, str], said: str) -> None:
    values = {**VALUES, "verdict": "refuted"}
    Claim(**values)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=said):
        Claim(**(values | change))  # type: ignore[arg-type]


TEXT = """
[[item]]
paper = "whisperflow"
id = "table 1"
source = "table 1"
stand_in = "talks"
result = "LOG.md: A"
command = "whispertide bench"

[[item.claim]]
published = "It is so."
here = "1 s"
verdict = "confirmed"
why = "Because."

[[item.claim]]
published = "It is otherwise."
verdict = "not measured yet"
why = "For want of time."
"""


def test_statements_with_figures_take_the_result_of_their_item() -> None:
    (entry,) = read_inventory(TEXT)
    assert [(claim.result, claim.command) for claim in entry.claims] == [("LOG.md: A", "whispertide bench"), ("", "")]


@pytest.mark.parametrize("change", [("published = ", "says = "), ('stand_in = "talks"\n', "")])
def test_what_is_no_entry_is_said(change: tuple[str, str]) -> None:
    with pytest.raises(OptionError, match="expected an item with its claims"):
        read_inventory(TEXT.replace(*change))


def test_the_page_says_which_extra_an_item_needs() -> None:
    assert 'bench paper pilot --items "table 3"`, which needs the extra `train`' in build()


def test_the_page_counts_verdicts_and_names_results(monkeypatch: pytest.MonkeyPatch) -> None:
    (about,) = read_inventory(TEXT)
    entries = [
        Entry(paper.name, item.id, about.source, about.stand_in, about.claims)
        for paper in PAPERS.values()
        for item in paper.items
    ]
    monkeypatch.setattr(module, "inventory", lambda: tuple(entries))
    text = build()
    count = len(PAPERS["whisperkit"].items)
    assert f"| whisperkit | {count} | {count} | 0 | 0 | {count} |" in text
    assert '[LOG.md](LOG.md), "A": `whispertide bench`' in text
