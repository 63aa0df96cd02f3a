"""Word errors against hours of training, over the cards of several checkpoints: what more of it would bring.

A set counts with its padded result without timestamps, or with them where that is all there is. Hours are those heard,
which is what training costs; a card that says only how many distinct ones there were is placed by these. Knows cards
alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from whispertide.tuning import page
from whispertide.tuning.drawing import Curve, scatter
from whispertide.tuning.page import Table
from whispertide_lab.evaluation import bootstrap
from whispertide_lab.evaluation.card.results import Card
from whispertide_lab.evaluation.card.sets import PADDED, PADDED_TIMES

HEARD, DISTINCT = "hours_heard", "hours"  # keys of training.json


@dataclass(frozen=True, slots=True)
class Point:
    """The word error rate of one checkpoint on one set, with its 95 % interval."""

    model: str
    part: str
    hours: float  # heard
    distinct: float | None
    wer: float
    low: float
    high: float


def points(cards: Sequence[Card]) -> list[Point]:
    """All sets with speech of all cards that say their hours, by set, then by hours."""
    found = []
    for card in cards:
        heard, distinct = (_number(card.training.get(key)) for key in (HEARD, DISTINCT))
        hours = distinct if heard is None else heard
        if hours is None:
            continue
        for part in card.parts:
            result = card.result(part, PADDED) or card.result(part, PADDED_TIMES)
            if result is None or (rate := result.total.rate) is None:
                continue
            low, high = bootstrap.interval(result.by_unit(result.word_errors))
            found.append(Point(card.model["name"], part, hours, distinct, rate, low, high))
    order = {part: number for number, part in enumerate(dict.fromkeys(point.part for point in found))}
    return sorted(found, key=lambda point: (order[point.part], point.hours))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def curve_table(found: Sequence[Point]) -> Table:
    """One row per set and checkpoint."""
    rows = tuple(
        (
            point.part,
            f"{point.hours:g}",
            "" if point.distinct is None else f"{point.distinct:g}",
            f"{100 * point.wer:.1f}",
            f"{100 * point.low:.1f} to {100 * point.high:.1f}",
            point.model,
        )
        for point in found
    )
    return Table(("set", "hours heard", "distinct", "WER %", "95 %", "model"), rows)


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
    title = "Word errors against hours of training"
    plot = scatter(lines, x_label="hours heard in training", y_label="WER (%)", title=title)
    return page.page(
        title, "Padded windows, greedy search.", page.figure(plot, title), page.html_table(curve_table(found))
    )
