"""Word errors against hours of training speech, over the cards of several checkpoints: what more data would bring.

A set counts with its padded result without timestamps, or with them where that is all there is. Knows cards alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from whispertide.evaluation import bootstrap, page
from whispertide.evaluation.card_results import Card
from whispertide.evaluation.card_sets import PADDED, PADDED_TIMES
from whispertide.evaluation.page import Table
from whispertide.evaluation.plots import Curve, scatter

HOURS = "hours"  # the key of training.json: distinct speech


@dataclass(frozen=True, slots=True)
class Point:
    """The word error rate of one checkpoint on one set, with its 95 % interval."""

    model: str
    part: str
    hours: float
    wer: float
    low: float
    high: float


def points(cards: Sequence[Card]) -> list[Point]:
    """All sets with speech of all cards that say their hours, by set, then by hours."""
    found = []
    for card in cards:
        hours = card.training.get(HOURS)
        if not isinstance(hours, int | float):
            continue
        for part in card.parts:
            result = card.result(part, PADDED) or card.result(part, PADDED_TIMES)
            if result is None or (rate := result.total.rate) is None:
                continue
            low, high = bootstrap.interval(result.word_errors)
            found.append(Point(card.model["name"], part, float(hours), rate, low, high))
    order = {part: number for number, part in enumerate(dict.fromkeys(point.part for point in found))}
    return sorted(found, key=lambda point: (order[point.part], point.hours))


def curve_table(found: Sequence[Point]) -> Table:
    """One row per set and checkpoint."""
    rows = tuple(
        (
            point.part,
            f"{point.hours:g}",
            f"{100 * point.wer:.1f}",
            f"{100 * point.low:.1f} to {100 * point.high:.1f}",
            point.model,
        )
        for point in found
    )
    return Table(("set", "hours", "WER %", "95 %", "model"), rows)


def draw_curve(found: Sequence[Point]) -> str:
    """The same as a page of its own, a line per set. Raises `OptionError` without matplotlib."""
    parts = dict.fromkeys(point.part for point in found)
    lines = [
        Curve(
            part,
            tuple(point.hours for point in found if point.part == part),
            tuple(100 * point.wer for point in found if point.part == part),
        )
        for part in parts
    ]
    title = "Word errors against training speech"
    plot = scatter(lines, x_label="hours of training speech", y_label="WER (%)", title=title)
    return page.page(
        title, "Padded windows, greedy search.", page.figure(plot, title), page.html_table(curve_table(found))
    )
