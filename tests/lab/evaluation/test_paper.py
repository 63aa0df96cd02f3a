"""An item of a paper: what it lacks, and how that is said."""

import pytest

from whispertide.lab.evaluation import paper
from whispertide.lab.evaluation.page import Table
from whispertide.lab.evaluation.paper import Item, Outcome, Plot, joined, missing_line
from whispertide.lab.evaluation.plots import Bar, bars


def test_a_network_is_there_if_it_can_be_trained() -> None:
    needs = ("network late", "network conformer", "network hearsay")
    assert Item("table 1", "title", needs, "whisperflow.step_figure").missing == ("network hearsay",)


def test_an_item_becomes_whole_with_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    item = Item(
        "figure 1", "title", ("recipe dream", "framing=pad30", "a sound studio"), "whisperflow.step_figure", "half"
    )
    assert item.missing == ("recipe dream", "a sound studio")
    assert missing_line(item) == "figure 1 (title): in part (half); missing: recipe dream, a sound studio"
    monkeypatch.setattr(paper, "RECIPES", {"dream": object()})
    assert Item("figure 1", "title", ("recipe dream", "framing=pad30"), "whisperflow.step_figure").state == "whole"
    assert Item("figure 1", "title", ("recipe dream",)).lacks == "its measurement"


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
