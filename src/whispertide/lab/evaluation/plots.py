"""Plots: matplotlib's own drawings on white, as PNG and PDF, with the numbers as CSV (`Drawing`).

Curves differ in colour, and in marker or dashes too. The colours are the eight of Petroff (2021, "Accessible Color
Sequences for Data Visualization", arXiv 2107.02270), which people who confuse colours can tell apart. Legends stand
below the plot. Matplotlib is imported only when something is drawn. Knows numbers and labels, no cells.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, repeat
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from whispertide.errors import OptionError
from whispertide.extras import how_to_install

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#1845fb", "#ff5e02", "#c91f16", "#c849a9", "#adad7d", "#86c8dd", "#578dff", "#656364")
SERIES = len(COLOURS)
_MARKED = {"color": COLOURS, "marker": tuple("os^Dv<>p")}  # what tells one curve from the next
_DASHES: Any = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
_DASHED = {"color": COLOURS, "linestyle": 2 * _DASHES}
_WIDTH, _HEIGHT = 5.6, 3.2  # inches, without title and legend: letters are legible on a phone's page, too
_DPI = 160
_ROW = 0.2  # inches: of a line of the title or the legend
_LINE = 76  # characters that fit into a line of the title or the legend
_HANDLE = 9  # characters as wide as the line before a label, and the gaps around it
_BAR_HEIGHT = 0.36
_LABEL = 32  # characters in a line of a bar's label
_SHARES = 250  # points of a cumulative distribution

# How every plot differs from matplotlib's own
STYLE: dict[str, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
    "grid.color": "#e1e4e8",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 3.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
}


@dataclass(frozen=True, slots=True)
class Curve:
    """Points to be joined; `notes`, one for each or none at all, stand next to them."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with the interval around it, if there is one. `colour` counts from 0; bars of a kind share one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    colour: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A level to compare with, drawn across the plot."""

    label: str
    y: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plot and its numbers: rows of text, under a heading that begins with the title."""

    figure: "Figure"
    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def title(self) -> str:
        """What is drawn, of what."""
        return self.heading[0]

    def image(self, kind: str = "png") -> bytes:
        """The picture as "png" or "pdf"; the same every time."""
        buffer = io.BytesIO()
        unknown = {"Software": None} if kind == "png" else {"CreationDate": None, "Creator": None, "Producer": None}
        self.figure.savefig(buffer, format=kind, dpi=_DPI, metadata=unknown)
        return buffer.getvalue()

    def csv(self) -> str:
        """The numbers."""
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows((self.heading, *self.rows))
        return buffer.getvalue()

    def save(self, stem: Path) -> None:
        """Write STEM.png, STEM.pdf and STEM.csv. Raises `OSError`."""
        stem.with_name(f"{stem.name}.png").write_bytes(self.image("png"))
        stem.with_name(f"{stem.name}.pdf").write_bytes(self.image("pdf"))
        stem.with_name(f"{stem.name}.csv").write_text(self.csv(), encoding="utf-8")


def scatter(
    curves: Sequence[Curve], *, x_label: str, y_label: str, title: str, levels: Sequence[Line] = (), zero: bool = True
) -> Drawing:
    """Points joined in their order, each with its note.

    With `zero` axes begin there, the upright one only if the values are not all far from it.
    """

    def draw(axes: "Axes") -> None:
        axes.set_prop_cycle(**_MARKED)
        for curve in curves:
            axes.plot(curve.x, curve.y, lw=1.2, label=curve.label)
        for level, dash in zip(levels, cycle((*_DASHES[1:], _DASHES[0])), strict=False):
            axes.axhline(level.y, color="black", linestyle=dash, lw=1.0, label=level.label)
        axes.margins(x=0.12, y=0.2)
        heights = [y for curve in curves for y in curve.y] + [level.y for level in levels]
        _from_zero(axes, x=zero, y=zero and 2 * min(heights, default=0.0) < max(heights, default=0.0))

    return _of_curves(draw, curves, levels, x_label=x_label, y_label=y_label, title=title)


def distribution(samples: Sequence[tuple[str, Sequence[float]]], *, x_label: str, title: str) -> Drawing:
    """Cumulative distributions, of many values by some of them."""
    return shares([_cumulative(label, values) for label, values in samples], x_label=x_label, title=title)


def shares(curves: Sequence[Curve], *, x_label: str, title: str, y_label: str = "words (%)") -> Drawing:
    """Cumulative distributions: values in order, and how many per cent are no larger. The last hundredth may lie beyond
    the right edge, where it would flatten the rest.
    """

    def draw(axes: "Axes") -> None:
        edges = []
        axes.set_prop_cycle(**_DASHED)
        for curve in curves:
            axes.step(curve.x, curve.y, where="post", label=curve.label)
            most = [x for x, share in zip(curve.x, curve.y, strict=True) if share <= 99.5]
            edges.append((curve.x[0], max(most, default=curve.x[0])))
        if edges:
            low, high = min(low for low, _ in edges), max(high for _, high in edges)
            margin = 0.03 * (high - low) or 0.1
            axes.set_xlim(min(low, 0) - margin, high + margin)
        axes.set_ylim(0, 101)

    return _of_curves(draw, curves, x_label=x_label, y_label=y_label, title=title)


def _cumulative(label: str, values: Sequence[float]) -> Curve:
    """Of many values only some, evenly, with the first and the last."""
    ordered = sorted(values)
    last = len(ordered) - 1
    ranks = sorted({round(last * step / _SHARES) for step in range(_SHARES + 1)})
    return Curve(
        label,
        tuple(ordered[rank] for rank in ranks),
        tuple(100 * (rank + 1) / len(ordered) for rank in ranks),
    )


def bars(items: Sequence[Bar], *, x_label: str, title: str) -> Drawing:
    """Horizontal bars, the first on top, each with its value; whiskers where it has an interval; long labels break."""

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
        axes.set_yticks(range(len(items)), [fill(item.label, _LABEL) for item in items])
        axes.set_ylim(max(len(items), 2) - 0.5, -0.5)  # the first on top, and one bar alone no thicker than others
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        low = min((min(item.value, item.low or item.value) for item in items), default=0.0)
        axes.set_xlim(min(0.0, 1.1 * low), 1.2 * reach)

    height = 0.7 + _BAR_HEIGHT * max(len(items), 2)
    drawn = _figure(draw, x_label=x_label, y_label="", title=title, height=height)
    rows = tuple((item.label, *map(_text, (item.value, item.low, item.high))) for item in items)
    return Drawing(drawn, (title, x_label, "low", "high"), rows)


def stacked(items: Sequence[tuple[str, Mapping[str, float]]], *, x_label: str, title: str) -> Drawing:
    """Horizontal bars, the first on top, each of parts side by side; what is below zero lies left of it.

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
            axes.barh(range(len(items)), widths, left=before, height=0.62, color=COLOURS[colour % SERIES], label=part)
        for row, (_, values) in enumerate(items):
            edge = sum(value for value in values.values() if value > 0)
            total = f"{sum(values.values()):.3g}"
            axes.annotate(total, (edge, row), xytext=(5, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(items)), [fill(label, _LABEL) for label, _ in items])
        axes.set_ylim(max(len(items), 2) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.15)

    height = 0.7 + _BAR_HEIGHT * max(len(items), 2)
    drawn = _figure(draw, x_label=x_label, y_label="", title=title, height=height)
    rows = tuple((label, *(_text(values.get(part)) for part in parts)) for label, values in items)
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
    """Lines without markers; `bands`, one for each or none at all, are stretches of x in the colours of the lines."""

    def draw(axes: "Axes") -> None:
        axes.set_prop_cycle(**_DASHED)
        for curve in curves:
            axes.plot(curve.x, curve.y, label=curve.label)
        for band, colour in zip(bands, cycle(COLOURS), strict=False):
            if band is not None:
                axes.axvspan(*band, color=colour, alpha=0.15, linewidth=0)
        axes.margins(x=0.01)
        _from_zero(axes, y=zero)

    return _of_curves(draw, curves, x_label=x_label, y_label=y_label, title=title)


def front(tried: Curve, best: Curve, usual: Curve, *, x_label: str, y_label: str, title: str) -> Drawing:
    """What a search tried, the best of it joined, and a ring around what was usual before. The upright axis is
    logarithmic.
    """

    def draw(axes: "Axes") -> None:
        axes.plot(tried.x, tried.y, ".", color=COLOURS[-1], label=tried.label)
        axes.step(best.x, best.y, where="post", marker="o", color=COLOURS[0], label=best.label)
        axes.plot(usual.x, usual.y, "o", ms=11, mfc="none", mew=1.6, color=COLOURS[1], label=usual.label)
        axes.set_yscale("log")
        axes.grid(visible=True, which="both")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")

    return _of_curves(draw, (tried, best, usual), x_label=x_label, y_label=y_label, title=title)


# --- numbers as text -------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[dict[str, Any], list[Curve], list[Line]]:
    """The CSV of a plot of curves: its title and the labels of its axes as the functions here take them, the curves,
    and the levels. Raises `OSError`, `ValueError`.
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


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


# --- figures ---------------------------------------------------------------------------------------------------------


def _of_curves(
    draw: "Callable[[Axes], None]",
    curves: Sequence[Curve],
    levels: Sequence[Line] = (),
    *,
    title: str,
    x_label: str,
    y_label: str,
) -> Drawing:
    figure = _figure(draw, title=title, x_label=x_label, y_label=y_label)
    _annotate(figure, curves, levels)
    rows = [
        (curve.label, _text(x), _text(y), note)
        for curve in curves
        for x, y, note in zip(curve.x, curve.y, curve.notes or repeat(""), strict=False)
    ]
    rows += [(level.label, "", _text(level.y), "") for level in levels]
    return Drawing(figure, (title, x_label, y_label, "note"), tuple(rows))


@contextmanager
def drawing(**settings: Any) -> "Iterator[Figure]":
    """An empty figure, and while entered the style of every plot. Raises `OptionError` without matplotlib."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise OptionError(f"expected matplotlib for plots; it is not installed: {how_to_install('bench')}") from error
    with mpl.rc_context(STYLE):
        yield Figure(layout="constrained", **settings)


def _figure(
    draw: "Callable[[Axes], None]", *, x_label: str, y_label: str, title: str, height: float = _HEIGHT
) -> "Figure":
    heading = fill(title, _LINE)
    with drawing() as figure:
        axes = figure.add_subplot()
        draw(axes)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        figure.suptitle(heading, x=0.01, ha="left", fontsize=9)
        rows = heading.count("\n") + 1 + _legend(figure, *axes.get_legend_handles_labels())
        figure.set_size_inches(_WIDTH, height + _ROW * rows)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # everything has its place now, for notes to be put next to
    return figure


def _legend(figure: "Figure", handles: "Sequence[Artist]", labels: Sequence[str]) -> int:
    """The legend below the plot, in as many columns as fit. Returns how many rows it has."""
    if not labels:
        return 0
    rows = next(rows for rows in range(1, len(labels) + 1) if rows == len(labels) or _width(labels, rows) <= _LINE)
    columns = -(-len(labels) // rows)
    figure.legend(handles, labels, loc="outside lower left", ncols=columns)
    return rows


def _width(labels: Sequence[str], rows: int) -> int:
    """Of a legend with so many rows, in characters."""
    columns = [labels[start : start + rows] for start in range(0, len(labels), rows)]
    return sum(max(map(len, column)) + _HANDLE for column in columns)


def _annotate(figure: "Figure", curves: Sequence[Curve], levels: Sequence[Line]) -> None:
    """Each point's note, where it covers no other note, point or line."""
    noted = [
        (x, y, note, colour)
        for curve, colour in zip(curves, cycle(COLOURS), strict=False)
        for x, y, note in zip(curve.x, curve.y, curve.notes, strict=False)
        if note
    ]
    if not noted:
        return
    from textalloc import allocate

    x, y, notes, colours = (list(column) for column in zip(*noted, strict=True))
    axes = figure.axes[0]
    axes.set_prop_cycle(None)  # the lines that lead to notes have neither markers nor dashes
    lines = [(list(curve.x), list(curve.y)) for curve in curves if len(curve.x) > 1]
    lines += [(list(axes.get_xlim()), [level.y, level.y]) for level in levels]
    allocate(
        axes,
        x,
        y,
        notes,
        x_scatter=[x for curve in curves for x in curve.x],
        y_scatter=[y for curve in curves for y in curve.y],
        x_lines=[x for x, _ in lines],
        y_lines=[y for _, y in lines],
        nbr_candidates=1000,
        textsize=8,
        linecolor=colours,
        linewidth=0.6,
        margin=0.012,
        min_distance=0.015,
        max_distance=0.15,
    )


def _from_zero(axes: "Axes", *, x: bool = False, y: bool = False) -> None:
    if x and axes.get_xlim()[0] > 0:
        axes.set_xlim(left=0)
    if y and axes.get_ylim()[0] > 0:
        axes.set_ylim(bottom=0)
