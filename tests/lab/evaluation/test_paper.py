"""An item of a paper: what it lacks, and how that is said."""

import pytest

from whispertide.lab.evaluation import paper
from whispertide.lab.evaluation.paper import Item, missing_line


def test_a_network_is_there_if_it_can_be_trained() -> None:
    needs = ("network late", "network conformer", "network hearsay")
    assert Item("table 1", "title", needs, "step_figure").missing == ("network hearsay",)


def test_an_item_becomes_whole_with_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    item = Item("figure 1", "title", ("recipe dream", "framing=pad30", "a sound studio"), "step_figure", "half")
    assert item.missing == ("recipe dream", "a sound studio")
    assert missing_line(item) == "figure 1 (title): in part (half); missing: recipe dream, a sound studio"
    monkeypatch.setattr(paper, "RECIPES", {"dream": object()})
    assert Item("figure 1", "title", ("recipe dream", "framing=pad30"), "step_figure").state == "whole"
    assert Item("figure 1", "title", ("recipe dream",)).lacks == "its measurement"
