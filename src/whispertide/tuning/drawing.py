"""Plots of curves: their style, the figure with its title, legend and notes, and the numbers that were drawn.

Matplotlib's own drawings on white, as PNG and PDF, with the numbers as CSV (`Drawing`). The colours are the eight of
Petroff (2021, "Accessible Color Sequences for Data Visualization", arXiv 2107.02270), which people who confuse colours
can tell apart. Legends stand below the plot. Matplotlib is imported only when something is drawn.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, repeat
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from whispertide.atomic import replacing
from whispertide.errors import OptionError
from whispertide.extras import how_to_install

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#1845fb", "#ff5e02", "#c91f16", "#c849a9", "#adad7d", "#86c8dd", "#578dff", "#656364")
SERIES = len(COLOURS)
PICTURES = (".png", ".pdf", ".svg")
DASHES: Any = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
_MARKERS = tuple("os^Dv<>p")
_HOLLOW = "!"
_WIDTH, _HEIGHT = 5.6, 3.2  # inches, without title and legend: letters are legible on a phone's page, too
_DPI = 160
_ROW = 0.2  # inches: of a line of the title or the legend
_LINE = 76  # characters that fit into a line of the title or the legend
_HANDLE = 9  # characters as wide as the line before a label, and the gaps around it

# How every plot differs from matplotlib's own
_STYLE: dict[str, Any] = {
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
    """Points to be joined; `notes`, one for each or none at all, stand next to them. In a scatter the point of
    one with `!` is hollow: it should not be relied on.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    notes: tuple[str, ...] = ()


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
        """The title: its subject and its data."""
        return self.heading[0]

    def image(self, kind: str = "png") -> bytes:
        """Render as "png" or "pdf"; the same every time."""
        buffer = io.BytesIO()
        unknown = {"Software": None} if kind == "png" else {"CreationDate": None, "Creator": None, "Producer": None}
        self.figure.savefig(buffer, format=kind, dpi=_DPI, metadata=unknown)
        return buffer.getvalue()

    def csv(self) -> str:
        """Render the numbers."""
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows((self.heading, *self.rows))
        return buffer.getvalue()

    def save(self, stem: Path) -> None:
        """Write STEM.png, STEM.pdf and STEM.csv, each whole or not at all. Raises `OSError`."""
        content = {"png": self.image("png"), "pdf": self.image("pdf"), "csv": self.csv().encode()}
        for kind, written in content.items():
            with replacing(stem.with_name(f"{stem.name}.{kind}")) as unfinished:
                unfinished.write_bytes(written)


# --- numbers as text -------------------------------------------------------------------------------------------------


def format_number(value: float | None) -> str:
    """Format with six digits, as in a CSV; nothing for None."""
    return "" if value is None else f"{value:.6g}"


# --- figures ---------------------------------------------------------------------------------------------------------


def draw_curves(
    draw: "Callable[[Axes], None]",
    curves: Sequence[Curve],
    levels: Sequence[Line] = (),
    *,
    title: str,
    x_label: str,
    y_label: str,
) -> Drawing:
    """Make the drawing of curves and levels by `draw`, with the curves' notes, and its numbers."""
    figure = figure_of(draw, title=title, x_label=x_label, y_label=y_label)
    _annotate(figure, curves, levels)
    rows = [
        (curve.label, format_number(x), format_number(y), note)
        for curve in curves
        for x, y, note in zip(curve.x, curve.y, curve.notes or repeat(""), strict=False)
    ]
    rows += [(level.label, "", format_number(level.y), "") for level in levels]
    return Drawing(figure, (title, x_label, y_label, "note"), tuple(rows))


@contextmanager
def new_figure(**settings: Any) -> "Iterator[Figure]":
    """Yield an empty figure in the style of every plot. Raises `OptionError` without matplotlib."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise OptionError(f"expected matplotlib for plots; it is not installed: {how_to_install('plots')}") from error
    with mpl.rc_context(_STYLE):
        yield Figure(layout="constrained", **settings)


def check_picture(path: Path) -> None:
    """Raise `OptionError` for a name that no picture has, and without matplotlib, before there is anything to draw."""
    if path.suffix not in PICTURES:
        raise OptionError(f"expected a picture that ends in {', '.join(PICTURES)}; got {path.name!r}")
    with new_figure():
        pass


def figure_of(
    draw: "Callable[[Axes], None]", *, x_label: str, y_label: str, title: str, height: float = _HEIGHT
) -> "Figure":
    """Make a figure with the axes that `draw` fills; `height` in inches is without the title and the legend."""
    heading = fill(title, _LINE)
    with new_figure() as figure:
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
    """Draw the legend below the plot, in as many columns as fit. Returns the number of rows."""
    if not labels:
        return 0
    rows = next(rows for rows in range(1, len(labels) + 1) if rows == len(labels) or _width(labels, rows) <= _LINE)
    columns = -(-len(labels) // rows)
    figure.legend(handles, labels, loc="outside lower left", ncols=columns)
    return rows


def _width(labels: Sequence[str], rows: int) -> int:
    """The width of a legend with so many rows, in characters."""
    columns = [labels[start : start + rows] for start in range(0, len(labels), rows)]
    return sum(max(map(len, column)) + _HANDLE for column in columns)


def _annotate(figure: "Figure", curves: Sequence[Curve], levels: Sequence[Line]) -> None:
    """Write each point's note at a place where it covers no other note, point or line."""
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


def scatter(
    curves: Sequence[Curve], *, x_label: str, y_label: str, title: str, levels: Sequence[Line] = (), zero: bool = True
) -> Drawing:
    """Draw points joined in their order, each with its note.

    With `zero` axes begin there, the upright one only if the values are not all far from it.
    """

    def draw(axes: "Axes") -> None:
        axes.set_prop_cycle(**looks(marker=_MARKERS))
        for curve in curves:
            (line,) = axes.plot(curve.x, curve.y, lw=1.2, label=curve.label)
            hollow = [at for at, note in enumerate(curve.notes) if _HOLLOW in note]
            look = {"color": line.get_color(), "marker": line.get_marker(), "mfc": "white", "linestyle": "none"}
            axes.plot([curve.x[at] for at in hollow], [curve.y[at] for at in hollow], **look)
        for level, dash in zip(levels, cycle((*DASHES[1:], DASHES[0])), strict=False):
            axes.axhline(level.y, color="black", linestyle=dash, lw=1.0, label=level.label)
        axes.margins(x=0.12, y=0.2)
        heights = [y for curve in curves for y in curve.y] + [level.y for level in levels]
        from_zero(axes, x=zero, y=zero and 2 * min(heights, default=0.0) < max(heights, default=0.0))

    return draw_curves(draw, curves, levels, x_label=x_label, y_label=y_label, title=title)


def looks(**shapes: Sequence[Any]) -> dict[str, list[Any]]:
    """What tells one curve from the next: a colour, and a shape of one kind (markers or dashes); each pair once."""
    ((kind, every),) = shapes.items()
    numbers = range(SERIES * len(every))
    # After each lap through the colours they come with the next shape.
    return {
        "color": [COLOURS[number % SERIES] for number in numbers],
        kind: [every[(number + number // SERIES) % len(every)] for number in numbers],
    }


def from_zero(axes: "Axes", *, x: bool = False, y: bool = False) -> None:
    """Begin those axes at zero whose values are all above it."""
    if x and axes.get_xlim()[0] > 0:
        axes.set_xlim(left=0)
    if y and axes.get_ylim()[0] > 0:
        axes.set_ylim(bottom=0)
