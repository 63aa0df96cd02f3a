"""The inventory agrees with the papers' items, with the page made of it, and with the stored results."""

import re
import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from whispertide_lab.evaluation import inventory
from whispertide_lab.evaluation.inventory import build
from whispertide_lab.evaluation.paper import Claim
from whispertide_lab.evaluation.papers import every_paper

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "lab" / "docs"
PAPERS = every_paper()
STORED = [
    (paper, item, claim) for paper in PAPERS.values() for item in paper.items for claim in item.claims if claim.result
]
FIGURE = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def test_the_page_is_that_of_the_data() -> None:
    """If this fails: python -m whispertide_lab.evaluation.inventory lab/docs/papers.md."""
    assert (DOCS / "papers.md").read_text(encoding="utf-8") == build()


def test_every_item_has_a_statement() -> None:
    assert [(paper.name, item.id) for paper in PAPERS.values() for item in paper.items if not item.claims] == []


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
    for *_, claim in STORED:
        stored = set(FIGURE.findall(section(claim.result)))
        assert [figure for figure in FIGURE.findall(claim.here) if figure not in stored] == [], claim


def test_every_command_is_one_of_ours() -> None:
    for *_, claim in STORED:
        program, *rest = claim.command.split()
        assert program in ("whispertide", "python"), claim
        if program == "python":
            assert (ROOT / rest[0]).is_file(), claim


def test_a_command_of_a_paper_makes_the_item_that_it_stands_for() -> None:
    commands = [(paper, item, claim.command) for paper, item, claim in STORED if "bench paper" in claim.command]
    assert commands
    for paper, item, command in commands:
        words = shlex.split(command)
        name, items = words[words.index("paper") + 1], words[words.index("--items") + 1].split(",")
        assert name == paper.name, command
        assert item.id in items, command
        assert set(items) <= {each.id for each in paper.items if each.state != "missing"}, command


def test_a_shape_is_that_of_the_command() -> None:
    """What is said to be another shape than nano.en's was made with a folder of it, and nothing else was."""
    folder = re.compile(r"(--models|-m) \S*FOLDER")
    for paper in PAPERS.values():
        for item in paper.items:
            commands = [claim.command for claim in item.claims if claim.command]
            made = any(folder.search(command) for command in commands)
            told = "shape" in item.stand_in or "widened" in item.stand_in
            assert told == made or "profile MODEL" in str(commands) or "random weights" in item.stand_in, item


def test_the_page_says_which_extra_an_item_needs() -> None:
    assert 'bench paper pilot --items "table 3"`, which needs the laboratory\'s extra `train`' in build()


def test_the_page_counts_verdicts_and_names_results(monkeypatch: pytest.MonkeyPatch) -> None:
    claims = (
        Claim("It is so.", "confirmed", "Because.", "1 s", "../log/2026-11.md: A", "whispertide bench"),
        Claim("It is otherwise.", "not measured yet", "For want of time."),
    )
    papers = {
        name: replace(paper, items=tuple(replace(item, claims=claims) for item in paper.items))
        for name, paper in PAPERS.items()
    }
    monkeypatch.setattr(inventory, "every_paper", lambda: papers)
    text = build()
    count = len(PAPERS["whisperkit"].items)
    assert f"| whisperkit | {count} | {count} | 0 | 0 | {count} |" in text
    assert '[log](../log/2026-11.md), "A": `whispertide bench`' in text


def test_what_was_measured_with_our_own_stands_below_and_not_beside_the_statement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored = ("../log/2026-11.md: A", "whispertide bench")
    own = Claim("It is so.", "not decidable here", "No base.", "12 s", *stored, own=True)
    real = Claim("It is otherwise.", "confirmed", "As told.", "34 s", *stored)
    paper = PAPERS["whisperkit"]
    changed = replace(paper, items=(replace(paper.items[0], claims=(own, real)),))
    monkeypatch.setattr(inventory, "every_paper", lambda: {"whisperkit": changed})
    text = build()
    assert "| It is so. | – | **not decidable here** | No base. |" in text
    assert "| It is otherwise. | 34 s | **confirmed** | As told. |" in text
    below = text[text.index("own checkpoint, synthetic speech: decides nothing |") :]
    assert "| It is so. | 12 s |" in below
    assert "34 s" not in below
