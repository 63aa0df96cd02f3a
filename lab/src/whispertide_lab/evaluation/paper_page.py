"""The page of one or more papers: each item as it came out, next to what the paper says and what is stored here."""

from collections.abc import Mapping, Sequence

from whispertide.tuning import page
from whispertide.tuning.page import Table
from whispertide_lab.evaluation.paper import Item, Outcome, Paper

Outcomes = Mapping[tuple[str, str], Outcome]  # paper and item -> what came of it


def build(papers: Sequence[Paper], outcomes: Outcomes, about: str) -> str:
    """The page. An item without an outcome says what it lacks."""
    sections = [
        _section(paper, item, outcomes.get((paper.name, item.id)), len(papers) > 1)
        for paper in papers
        for item in paper.items
    ]
    if len(papers) > 1:
        return page.page("Tables and figures of the papers", about, *sections)
    (paper,) = papers
    return page.page(f"{paper.name}: tables and figures", f"{paper.title}. {about}", *sections)


def _section(paper: Paper, item: Item, outcome: Outcome | None, named: bool) -> str:
    parts = [page.paragraph(f"Missing: {item.lacks}.", "note")] if item.lacks else []
    if outcome is not None:
        parts += [page.paragraph(outcome.note)] if outcome.note else []
        drawn = [page.figure(plot.drawing, plot.caption, plot.note) for plot in outcome.plots]
        parts += [page.figures(drawn)] if drawn else []
        parts += [page.html_table(table) for table in outcome.tables]
    parts.append(page.html_table(_statements(item)))
    title = f"{item.id.capitalize()}: {item.title}"
    return page.section(f"{paper.name}, {title[0].lower()}{title[1:]}" if named else title, *parts)


def _statements(item: Item) -> Table:
    """What the paper says, and what lab/docs/papers.md has about it."""
    rows = tuple(
        (claim.published, claim.here + claim.own * " (own checkpoint, synthetic speech)", claim.verdict)
        for claim in item.claims
    )
    return Table(("the paper says", "stored in lab/docs/papers.md", "verdict"), rows)
