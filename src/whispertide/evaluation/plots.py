"""Plots as SVG text that stands inside a page and takes the page's colours, or as a file of its own (`document`).

Colours are drawn as marks that become CSS variables (`--ink`, `--rule`, `--c1` to `--c8`), so that one drawing serves a
dark and a light page. Matplotlib is imported only when something is drawn. Knows numbers and labels, no cells.
"""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill
from typing import TYPE_CHECKING, Any

from whispertide.errors import OptionError
from whispertide.evaluation.page import COLOURS
from whispertide.extras import how_to_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SERIES = 8  # colours a page must define
_INK, _RULE = "#010203", "#040506"
_COLOURS = tuple(f"#0a0b{16 * number + 1:02x}" for number in range(1, SERIES + 1))
_VARIABLES = {_INK: "--ink", _RULE: "--rule", **{mark: f"--c{n}" for n, mark in enumerate(_COLOURS, 1)}}
# Matplotlib's name of a marker -> the same as a polygon in a box of 2 by 2 around 0, for the legend
_MARKERS = {
    "o": "",
    "s": "-1,-1 1,-1 1,1 -1,1",
    "^": "0,-1 1,1 -1,1",
    "D": "0,-1.2 1.2,0 0,1.2 -1.2,0",
    "v": "0,1 1,-1 -1,-1",
    "<": "-1,0 1,-1 1,1",
    ">": "1,0 -1,-1 -1,1",
    "p": "0,-1 1,-.2 .6,1 -.6,1 -1,-.2",
}
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (2, 1.5), (6, 2, 1.5, 2))
_WIDTH, _HEIGHT = 4.8, 2.9  # inches; as wide as a phone's page at 1:1, so letters stay legible there
_BAR_HEIGHT = 0.36
_LABEL = 32  # characters in a line of a bar's label
_SHARES = 250  # points of a cumulative distribution
_LEGEND_ROW = 15  # points, as everything in an SVG of matplotlib's

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.labelsize": 10,
    "axes.edgecolor": _RULE,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _RULE,
    "grid.linewidth": 0.6,
    "xtick.color": _RULE,
    "ytick.color": _RULE,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "text.color": _INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
}


@dataclass(frozen=True, slots=True)
class Curve:
    """Points to be joined; `notes` stand beside them."""

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


def scatter(
    curves: Sequence[Curve], *, x_label: str, y_label: str, title: str, levels: Sequence[Line] = (), zero: bool = True
) -> str:
    """Points joined in their order, each with its note.

    With `zero` axes begin there, the upright one only if the values are not all far from it.
    """

    def draw(axes: "Axes") -> None:
        for number, curve in enumerate(curves):
            axes.plot(curve.x, curve.y, color=_colour(number), marker=_marker(number), lw=1.4)
            for place, (x, y, note) in enumerate(zip(curve.x, curve.y, curve.notes, strict=False)):
                below = place % 2  # neighbours would write over each other
                offset = (5, -12 if below else 5)
                axes.annotate(note, (x, y), xytext=offset, textcoords="offset points", fontsize=8.5)
        for number, level in enumerate(levels):
            axes.axhline(level.y, color=_INK, linestyle=_dash(1 + number), lw=1.0)
        axes.margins(x=0.12, y=0.2)
        heights = [y for curve in curves for y in curve.y] + [level.y for level in levels]
        _from_zero(axes, x=zero, y=zero and 2 * min(heights, default=0.0) < max(heights, default=0.0))

    entries = [_entry(curve.label, f"--c{n % SERIES + 1}", marker=_marker(n)) for n, curve in enumerate(curves)]
    entries += [_entry(level.label, "--ink", dashes=_DASHES[(1 + n) % len(_DASHES)]) for n, level in enumerate(levels)]
    return _legend(entries) + _figure(draw, x_label=x_label, y_label=y_label, title=title)


def distribution(samples: Sequence[tuple[str, Sequence[float]]], *, x_label: str, title: str) -> str:
    """Cumulative distributions. The last hundredth may lie beyond the right edge, where it would flatten the rest."""

    def draw(axes: "Axes") -> None:
        edges = []
        for number, (_, values) in enumerate(samples):
            ordered, shares = _cumulative(values)
            axes.step(
                ordered,
                shares,
                where="post",
                color=_colour(number),
                linestyle=_dash(number),
            )
            edges.append((ordered[0], ordered[min(len(ordered) - 1, int(0.995 * len(ordered)))]))
        if edges:
            low, high = min(low for low, _ in edges), max(high for _, high in edges)
            margin = 0.03 * (high - low) or 0.1
            axes.set_xlim(min(low, 0) - margin, high + margin)
        axes.set_ylim(0, 101)

    return _line_legend([label for label, _ in samples]) + _figure(
        draw, x_label=x_label, y_label="words (%)", title=title
    )


def _cumulative(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Values in order, and how many per cent are no larger; of many only some, evenly, with the first and the last."""
    ordered = sorted(values)
    last = len(ordered) - 1
    ranks = sorted({round(last * step / _SHARES) for step in range(_SHARES + 1)})
    return [ordered[rank] for rank in ranks], [100 * (rank + 1) / len(ordered) for rank in ranks]


def bars(items: Sequence[Bar], *, x_label: str, title: str) -> str:
    """Horizontal bars, the first on top, each with its value; whiskers where it has an interval; long labels break."""

    def draw(axes: "Axes") -> None:
        reach = max((max(item.value, item.high or item.value) for item in items), default=1.0) or 1.0
        for row, item in enumerate(items):
            axes.barh(row, item.value, height=0.62, color=_colour(item.colour), alpha=0.85)
            edge = item.value
            if item.low is not None and item.high is not None:
                spread = [[max(item.value - item.low, 0.0)], [max(item.high - item.value, 0.0)]]
                axes.errorbar(item.value, row, xerr=spread, color=_INK, capsize=3, lw=1.1)
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

    height = 0.9 + _BAR_HEIGHT * max(len(items), 2)
    return _figure(draw, x_label=x_label, y_label="", title=title, height=height)


def over_time(
    curves: Sequence[Curve], *, y_label: str, title: str, x_label: str = "audio time (s)", zero: bool = True
) -> str:
    """Lines without markers."""

    def draw(axes: "Axes") -> None:
        for number, curve in enumerate(curves):
            axes.plot(curve.x, curve.y, color=_colour(number), linestyle=_dash(number), lw=1.5)
        axes.margins(x=0.01)
        _from_zero(axes, y=zero)

    return _line_legend([curve.label for curve in curves]) + _figure(
        draw, x_label=x_label, y_label=y_label, title=title
    )


def document(drawn: str) -> str:
    """What the functions above return, as an SVG file: the legend inside, colours by the viewer's choice."""
    plot = drawn[drawn.index('<svg role="img"') :]
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', plot)
    assert box is not None
    width, height = float(box[1]), float(box[2])
    rows = []
    for number, (sign, label) in enumerate(re.findall(r"<li>(<svg.*?</svg>)(.*?)</li>", drawn)):
        top = 6 + _LEGEND_ROW * number
        placed = sign.replace("<svg ", f'<svg x="8" y="{top}" width="25" height="10" ', 1)
        rows.append(f'{placed}<text x="39" y="{top + 8.5}" font-size="9.5" style="fill: var(--ink)">{label}</text>')
    above = _LEGEND_ROW * len(rows) + (8 if rows else 0)
    plot = plot.replace("<svg ", f'<svg y="{above}" width="{width:g}" height="{height:g}" ', 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 {width:g} {height + above:g}" font-family="system-ui, sans-serif">'
        f"<style>{COLOURS}text {{ font-family: system-ui, sans-serif !important; }}</style>"
        f'<rect width="100%" height="100%" style="fill: var(--card)"/>{"".join(rows)}{plot}</svg>\n'
    )


def _colour(number: int) -> str:
    return _COLOURS[number % SERIES]


def _marker(number: int) -> str:
    return list(_MARKERS)[number % len(_MARKERS)]


def _dash(number: int) -> "tuple[float, tuple[float, ...]] | str":
    dashes = _DASHES[number % len(_DASHES)]
    return (0, dashes) if dashes else "-"


def _line_legend(labels: Sequence[str]) -> str:
    return _legend(
        [_entry(label, f"--c{n % SERIES + 1}", dashes=_DASHES[n % len(_DASHES)]) for n, label in enumerate(labels)]
    )


def _legend(entries: Sequence[str]) -> str:
    """A list of its own beside the plot, because that wraps on a narrow page."""
    return f'<ul class="legend">{"".join(entries)}</ul>' if entries else ""


def _entry(label: str, variable: str, *, dashes: Sequence[float] = (), marker: str = "") -> str:
    pattern = f' stroke-dasharray="{" ".join(f"{2 * dash:g}" for dash in dashes)}"' if dashes else ""
    shape = ""
    if marker:
        corners = _MARKERS[marker]
        figure = f'<polygon points="{corners}"/>' if corners else '<circle r="1"/>'
        shape = f'<g transform="translate(15 6) scale(4)" stroke="none">{figure}</g>'
    return (
        f'<li><svg viewBox="0 0 30 12" aria-hidden="true" style="stroke: var({variable}); fill: var({variable})">'
        f'<line x1="0" y1="6" x2="30" y2="6" stroke-width="2.4"{pattern}/>{shape}</svg>{escape(label)}</li>'
    )


def _from_zero(axes: "Axes", *, x: bool = False, y: bool = False) -> None:
    if x and axes.get_xlim()[0] > 0:
        axes.set_xlim(left=0)
    if y and axes.get_ylim()[0] > 0:
        axes.set_ylim(bottom=0)


def _figure(
    draw: "Callable[[Axes], None]",
    *,
    x_label: str,
    y_label: str,
    title: str,
    height: float = _HEIGHT,
) -> str:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise OptionError(f"expected matplotlib for plots; it is not installed: {how_to_install('bench')}") from error
    style: Any = {**_STYLE, "svg.hashsalt": title}
    with mpl.rc_context(style):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        return _svg(figure, title)


def _svg(figure: "Figure", title: str) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)  # would apply to the whole page
    text = re.sub(r' id="[A-Za-z0-9]+(?:\.[A-Za-z]+)*_\d+"', "", text)  # figure_1, xtick_2, …: the same in every plot
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    for mark, variable in _VARIABLES.items():
        text = re.sub(re.escape(mark), f"var({variable})", text, flags=re.IGNORECASE)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}" class="plot"', 1)
