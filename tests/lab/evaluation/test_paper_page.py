"""The page of the papers' items: what came out stands next to what the paper says; what did not says so."""

from whispertide.tuning.page import Table
from whispertide_lab.evaluation.paper import Outcome
from whispertide_lab.evaluation.paper_page import build
from whispertide_lab.evaluation.papers import ALL, choose, every_paper


def test_an_item_stands_next_to_the_paper_s_statements() -> None:
    outcome = Outcome((Table(("system", "figure"), (("ours", "4321"),)),), note="not measured: no reason")
    chosen = choose("npusper", ["table 8"])
    page = build(chosen, {("npusper", "table 8"): outcome}, "Here.")
    assert page.count("<section>") == 1
    assert "<td>4321</td>" in page or 'class="n">4321' in page
    assert "no reason" in page
    claim, *_ = chosen[0].items[0].claims
    assert "0.452" in claim.published
    assert "0.452" in page
    assert claim.verdict in page


def test_all_papers_are_on_one_page_with_their_names() -> None:
    page = build(choose(ALL, []), {}, "Here.")
    assert page.count("<section>") == sum(len(paper.items) for paper in every_paper().values())
    assert "npusper, table 8: " in page
    assert "whisperflow, table 1: " in page
    assert "Missing: an NPU, a power meter." in page
