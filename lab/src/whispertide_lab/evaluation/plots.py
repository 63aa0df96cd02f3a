"""More kinds of plots than tuning needs, each a `Drawing`: cumulative distributions, bars, lines over time.

Curves differ in colour, and in marker or dashes too. Knows numbers and labels, no cells.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from whispertide.tuning.drawing import (
    COLOURS,
    DASHES,
    SERIES,
    Curve,
    Drawing,
    Line,
    draw_curves,
    figure_of,
    format_number,
    from_zero,
    looks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR_HEIGHT = 0.36
_HATCHES = ("", "///", "...")  # of parts, the more the further they come after those with a colour of their own
_LABEL = 32  # characters in a line of a bar's label
_SHARES = 250  # points of a cumulative distribution


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with the interval around it, if there is one. `colour` counts from 0; bars of a kind share one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    colour: int = 0


def distribution(samples: Sequence[tuple[str, Sequence[float]]], *, title: str) -> Drawing:
    """Draw cumulative distributions of latencies in seconds, with few of many values."""
    return shares([_cumulative(label, values) for label, values in samples], x_label="latency (s)", title=title)


def shares(curves: Sequence[Curve], *, x_label: str, title: str, y_label: str = "words (%)") -> Drawing:
    """Draw cumulative distributions: values in order, and the per cent that are no larger. The last hundredth may lie
    beyond the right edge, where it would flatten the rest.
    """

    def draw(axes: "Axes") -> None:
        edges = []
        axes.set_prop_cycle(**looks(linestyle=DASHES))
        for curve in curves:
            axes.step(curve.x, curve.y, where="post", label=curve.label)
            most = [x for x, share in zip(curve.x, curve.y, strict=True) if share <= 99.5]
            edges.append((curve.x[0], max(most, default=curve.x[0])))
        if edges:
            low, high = min(low for low, _ in edges), max(high for _, high in edges)
            margin = 0.03 * (high - low) or 0.1
            axes.set_xlim(min(low, 0) - margin, high + margin)
        axes.set_ylim(0, 101)

    return draw_curves(draw, curves, x_label=x_label, y_label=y_label, title=title)


def _cumulative(label: str, values: Sequence[float]) -> Curve:
    """Choose some of many values, evenly, with the first and the last."""
    ordered = sorted(values)
    last = len(ordered) - 1
    ranks = sorted({round(last * step / _SHARES) for step in range(_SHARES + 1)})
    return Curve(
        label,
        tuple(ordered[rank] for rank in ranks),
        tuple(100 * (rank + 1) / len(ordered) for rank in ranks),
    )


def bars(items: Sequence[Bar], *, x_label: str, title: str) -> Drawing:
    """Draw horizontal bars, the first on top, each with its value; whiskers show its interval; long labels break."""

    def draw(axes: "Axes") -> None:
        reach = max((max(item.value, item.high or item.value) for item in items), default=1.0) or 1.0
        for row, item in enumerate(items):
            axes.barh(row, item.value, height=0.62, color=COLOURS[item.colour % SERIES])
            edge = item.value
            if item.low is not None and item.high is not None:
                spread = [[max(item.value - item.low, 0.0)], [max(item.high - item.value, 0.0)]]
                axes.errorbar(item.value, row, xerr=spread, color="black", capsize=3, lw=1.1)
                edge = max(edge, item.high)
            axes.annotate(
                f"{item.value:.3g}", (max(edge, 0), row), xytext=(5, 0), textcoords="offset points", va="center"
            )
        _in_rows(axes, [item.label for item in items])
        low = min((min(item.value, item.low or item.value) for item in items), default=0.0)
        axes.set_xlim(min(0.0, 1.1 * low), 1.2 * reach)

    height = 0.7 + _BAR_HEIGHT * max(len(items), 2)
    drawn = figure_of(draw, x_label=x_label, y_label="", title=title, height=height)
    rows = tuple((item.label, *map(format_number, (item.value, item.low, item.high))) for item in items)
    return Drawing(drawn, (title, x_label, "low", "high"), rows)


def read(path: Path) -> tuple[dict[str, Any], list[Curve], list[Line]]:
    """Read the CSV of a plot of curves: its title and the labels of its axes as the functions here take them, the
    curves, and the levels. Raises `OSError`, `ValueError`.
    """
    with path.open(encoding="utf-8", newline="") as file:
        (title, x_label, y_label, *_), *rows = csv.reader(file)
    points: dict[str, list[tuple[float, float, str]]] = {}
    levels = []
    for label, x, y, note in rows:
        if x:
            points.setdefault(label, []).append((float(x), float(y), note))
        else:
            levels.append(Line(label, float(y)))
    curves = []
    for label, found in points.items():
        xs, ys, notes = zip(*found, strict=True)
        curves.append(Curve(label, xs, ys, notes if any(notes) else ()))
    return {"title": title, "x_label": x_label, "y_label": y_label}, curves, levels


def read_bars(path: Path) -> tuple[str, str, list[Bar]]:
    """Read the CSV of a plot of bars: title, label of the axis, and bars. Raises `OSError`, `ValueError`."""
    with path.open(encoding="utf-8", newline="") as file:
        (title, x_label, *_), *rows = csv.reader(file)
    items = []
    for label, value, low, high in rows:
        items.append(Bar(label, float(value), float(low) if low else None, float(high) if high else None))
    return title, x_label, items


def stacked(items: Sequence[tuple[str, Mapping[str, float]]], *, x_label: str, title: str) -> Drawing:
    """Draw horizontal bars, the first on top, each of parts side by side; negative parts lie left of zero.

    An item is a label and its parts' values. The order of the parts, and so their colours, is that of the first item
    that has them.
    """
    parts = list(dict.fromkeys(part for _, values in items for part in values))

    def draw(axes: "Axes") -> None:
        for colour, part in enumerate(parts):
            widths = [values.get(part, 0.0) for _, values in items]
            before = [
                sum(value for other in parts[:colour] if (value := values.get(other, 0.0)) * width > 0)
                for (_, values), width in zip(items, widths, strict=True)
            ]
            axes.barh(
                range(len(items)),
                widths,
                left=before,
                height=0.62,
                color=COLOURS[colour % SERIES],
                hatch=_HATCHES[colour // SERIES % len(_HATCHES)],
                label=part,
            )
        for row, (_, values) in enumerate(items):
            edge = sum(value for value in values.values() if value > 0)
            total = f"{sum(values.values()):.3g}"
            axes.annotate(total, (edge, row), xytext=(5, 0), textcoords="offset points", va="center")
        _in_rows(axes, [label for label, _ in items])
        axes.margins(x=0.15)

    height = 0.7 + _BAR_HEIGHT * max(len(items), 2)
    drawn = figure_of(draw, x_label=x_label, y_label="", title=title, height=height)
    rows = tuple((label, *(format_number(values.get(part)) for part in parts)) for label, values in items)
    return Drawing(drawn, (title, *parts), rows)


def over_time(
    curves: Sequence[Curve],
    *,
    y_label: str,
    title: str,
    x_label: str = "audio time (s)",
    zero: bool = True,
    bands: Sequence[tuple[float, float] | None] = (),
) -> Drawing:
    """Draw lines without markers; `bands`, one for each or none, are stretches of x in the lines' colours."""

    def draw(axes: "Axes") -> None:
        axes.set_prop_cycle(**looks(linestyle=DASHES))
        for curve in curves:
            axes.plot(curve.x, curve.y, label=curve.label)
        for band, colour in zip(bands, cycle(COLOURS), strict=False):
            if band is not None:
                axes.axvspan(*band, color=colour, alpha=0.15, linewidth=0)
        axes.margins(x=0.01)
        from_zero(axes, y=zero)

    return draw_curves(draw, curves, x_label=x_label, y_label=y_label, title=title)


def front(tried: Curve, best: Curve, usual: Curve, *, x_label: str, y_label: str, title: str) -> Drawing:
    """Draw the points that a search tried, the best of them joined, and a ring around the former default. The upright
    axis is logarithmic.
    """

    def draw(axes: "Axes") -> None:
        axes.plot(tried.x, tried.y, ".", color=COLOURS[-1], label=tried.label)
        axes.step(best.x, best.y, where="post", marker="o", color=COLOURS[0], label=best.label)
        axes.plot(usual.x, usual.y, "o", ms=11, mfc="none", mew=1.6, color=COLOURS[1], label=usual.label)
        axes.set_yscale("log")
        axes.grid(visible=True, which="both")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")

    return draw_curves(draw, (tried, best, usual), x_label=x_label, y_label=y_label, title=title)


def _in_rows(axes: "Axes", labels: Sequence[str]) -> None:
    """Label the bars, the first on top; one bar alone is no thicker than others."""
    axes.set_yticks(range(len(labels)), [fill(label, _LABEL) for label in labels])
    axes.set_ylim(max(len(labels), 2) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
