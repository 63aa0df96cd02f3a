"""An item of a paper: what it lacks, and how that is said."""

import pytest

from each_row import each_row
from whispertide.errors import OptionError
from whispertide.tuning.page import Table
from whispertide_lab.evaluation import paper
from whispertide_lab.evaluation.paper import Claim, Item, Outcome, Plot, joined, missing_line
from whispertide_lab.evaluation.plots import Bar, bars


def item(needs: tuple[str, ...], measure: str = "whisperflow.step_figure", covers: str = "") -> Item:
    return Item("figure 1", "title", "page 1", "talks", needs, measure, covers)


def test_a_network_is_there_if_it_can_be_trained() -> None:
    needs = ("network late", "network conformer", "network hearsay")
    assert item(needs).missing == ("network hearsay",)


def test_an_item_becomes_whole_with_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    half = item(("recipe dream", "framing=pad30", "a sound studio"), covers="half")
    assert half.missing == ("recipe dream", "a sound studio")
    assert missing_line(half) == "figure 1 (title): in part (half); missing: recipe dream, a sound studio"
    monkeypatch.setattr(paper, "RECIPES", {"dream": object()})
    assert item(("recipe dream", "framing=pad30")).state == "whole"
    assert item(("recipe dream",), measure="").lacks == "its measurement"


VALUES = {
    "published": "It is so.",
    "why": "Because.",
    "here": "1 s",
    "result": "LOG: A",
    "command": "whispertide",
}


@each_row(
    ("change", "said"),
    [
        ({"verdict": "likely"}, "expected a verdict among confirmed, refuted"),
        ({"why": ""}, "a reason"),
        ({"command": ""}, "with result and command, or none"),
        ({"result": ""}, "with result and command, or none"),
        ({"here": ""}, "with result and command, or none"),
        ({"here": "", "result": "", "command": ""}, "a stored result for 'refuted'; got none"),
        ({"own": True}, "no verdict by them"),  # rule 1: nothing of Whisper is decided by a checkpoint of our own
        ({"own": True, "verdict": "confirmed"}, "no verdict by them"),
    ],
)
def test_no_verdict_stands_without_a_stored_result(change: dict[str, str], said: str) -> None:
    values = {**VALUES, "verdict": "refuted"}
    Claim(**values)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=said):
        Claim(**(values | change))  # type: ignore[arg-type]


def test_what_is_the_same_on_all_corpora_is_told_once() -> None:
    """And each of the other tables, plots and notes says on which corpus it was made."""
    paper_s, drawing = Table(("a",), (("0",),), "The paper's"), bars([Bar("x", 1.0)], x_label="s", title="late")
    found = {
        name: Outcome((Table(("a",), ((name,),)), paper_s), (Plot(drawing, "How late"),), note="Of words.")
        for name in ("talks", "noisy")
    }
    whole = joined(found)
    assert [table.title for table in whole.tables] == ["talks", "noisy", "The paper's"]
    assert [plot.caption for plot in whole.plots] == ["How late: talks", "How late: noisy"]
    assert whole.note == "talks: Of words. noisy: Of words."
    assert joined({"talks": found["talks"]}) is found["talks"]
