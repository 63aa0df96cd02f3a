"""The papers: every table and figure is listed once, is made and tested or says what it lacks, and can be chosen."""

import re
from pathlib import Path

import pytest

from each_row import each_row
from whispertide.errors import OptionError
from whispertide_lab.evaluation.paper import Item, missing_line
from whispertide_lab.evaluation.papers import ALL, choose, every_paper, get_paper, only, read_papers

PAPERS = every_paper()
WANTED = {
    "whisperflow": ("table", (1, 2, 4), "figure", (7, 8, 9, 10, 11, 12)),
    "npusper": ("table", range(1, 9), "figure", (2, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14)),
    "whisperkit": ("table", (1, 2), "figure", (4, 6, 7, 8)),
    "whisperrt": ("table", (), "figure", (3, 4, 5)),
    "pilot": ("table", (3, 4, 5), "figure", (4, 5, 6)),
}
WITHOUT_NUMBER = {"whisperrt": ["complexity"], "whisperflow": ["text"], "whisperkit": ["text"], "pilot": ["text"]}
ITEMS = [item for found in PAPERS.values() for item in found.items]


@each_row("name", WANTED)
def test_every_table_and_figure_is_listed_once(name: str) -> None:
    tables, numbers, figures, more = WANTED[name]
    wanted = [f"{tables} {n}" for n in numbers] + [f"{figures} {n}" for n in more] + WITHOUT_NUMBER.get(name, [])
    assert sorted(item.id for item in get_paper(name).items) == sorted(wanted)


@each_row("item", ITEMS)
def test_every_item_can_be_made_or_says_what_it_lacks(item: Item) -> None:
    assert (item.function() is None) == (item.state == "missing")
    assert bool(missing_line(item)) == (item.state != "whole")
    if item.state == "part":
        assert item.covers
        assert item.missing


WHOLE = [item for item in ITEMS if item.state == "whole"]


@each_row("item", WHOLE)
def test_what_is_whole_has_a_test_of_its_content(item: Item) -> None:
    """The tests of its module make it. That they look at all of its rows and columns only a reader can tell."""
    function = item.function()
    assert function is not None
    *folders, module = function.__module__.split(".")[1:]
    tests = Path(__file__).parents[1].joinpath(*folders, f"test_{module}.py").read_text(encoding="utf-8")
    assert re.search(rf"items\.{function.__name__}\b", tests)


TEXT = """
[[paper]]
name = "hush"
title = "Hush"
summary = "It holds."

[[paper.item]]
id = "table 1"
title = "how late"
source = "table 1"
stand_in = "talks"
result = "LOG: A"
command = "whispertide bench"

[[paper.item.claim]]
published = "It is so."
here = "1 s"
verdict = "confirmed"
why = "Because."

[[paper.item.claim]]
published = "It is otherwise."
verdict = "not measured yet"
why = "For want of time."
"""


def test_statements_with_figures_take_the_result_of_their_item() -> None:
    ((item,),) = (paper.items for paper in read_papers(TEXT))
    assert [(claim.result, claim.command) for claim in item.claims] == [
        ("LOG: A", "whispertide bench"),
        ("", ""),
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("published = ", "says = "), "expected an item with its claims"),
        (('stand_in = "talks"\n', ""), "expected an item with its claims"),
        (("source = ", "sauce = "), "expected an item with its claims.*sauce"),
        (('title = "Hush"', 'titel = "Hush"'), "expected papers, each with its items.*titel"),
    ],
)
def test_what_is_no_paper_is_said(change: tuple[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        read_papers(TEXT.replace(*change))


def test_some_items_alone() -> None:
    chosen = only(get_paper("whisperflow"), ("figure 11", "table 1"))
    assert [item.id for item in chosen.items] == ["table 1", "figure 11"]
    with pytest.raises(OptionError, match=r"table 1, table 2.*got table 9"):
        only(get_paper("whisperflow"), ("table 9", "table 1"))


def test_an_unknown_paper_lists_the_known_ones() -> None:
    with pytest.raises(OptionError, match=re.escape(", ".join(PAPERS))):
        get_paper("whisperfloe")


def test_all_papers_or_some_items_of_one() -> None:
    assert choose(ALL, ()) == tuple(PAPERS.values())
    assert choose("npusper", ()) == (get_paper("npusper"),)
    assert [item.id for item in choose("npusper", ("figure 2",))[0].items] == ["figure 2"]
    with pytest.raises(OptionError, match=r"expected the paper that has figure 2"):
        choose(ALL, ("figure 2",))


def test_what_is_about_inventions_is_made_in_noise() -> None:
    noisy = {item.id for item in get_paper("npusper").items if item.corpora == ("noisy",)}
    assert noisy == {"table 2", "table 3", "table 4", "figure 2", "figure 10"}


def test_what_a_paper_has_of_two_corpora_is_made_on_two() -> None:
    """LibriSpeech and others; Meanwhile and TED-LIUM; LibriSpeech and Earnings; the clean and the other half."""
    two = {(name, item.id): item.corpora for name, paper in PAPERS.items() for item in paper.items if item.corpora[1:]}
    assert two == {
        ("whisperflow", "figure 11"): ("talks", "noisy"),
        ("npusper", "table 5"): ("talks", "rooms"),
        ("whisperkit", "table 1"): ("talks", "rooms"),
        ("whisperrt", "figure 4"): ("talks", "rooms"),
    }
