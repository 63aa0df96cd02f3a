"""Drawings: files that every viewer shows, and labels that cover nothing."""

from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from slow_rows import slow_but
from whispertide.tuning.drawing import Curve, Drawing, Line, scatter

NEAR = Curve("near", (1.0, 1.05, 1.05, 1.1, 2.0), (5.0, 5.1, 5.3, 5.0, 5.2), ("0.1 s", "0.5 s", "1 s", "1.2 s", "2 s"))
TOO = Curve("too near, with a name that is long", (1.0, 1.1), (5.1, 5.1), ("0.5 s", "1 s"))


@pytest.fixture(autouse=True)
def layout() -> None:
    """As it is."""


def crowded(levels: tuple[Line, ...] = (Line("level", 5.25),)) -> Drawing:
    return scatter((NEAR, TOO), x_label="x (s)", y_label="y (%)", title="a title, " * 12, levels=levels)


def boxes(drawing: Drawing) -> tuple[Bbox, Bbox, Bbox, list[Bbox]]:
    """Where title, plot and legend stand, and the notes in the plot."""
    figure, (axes,) = drawing.figure, drawing.figure.axes
    figure.draw_without_rendering()
    title = next(text for text in figure.texts if text.get_text())
    notes = [text.get_window_extent() for text in axes.texts if isinstance(text, Text)]
    plot = axes.get_tightbbox()
    assert plot is not None
    return title.get_window_extent(), plot, figure.legends[0].get_window_extent(), notes


@pytest.mark.slow
def test_files_are_png_pdf_and_csv(tmp_path: Path) -> None:
    crowded().save(tmp_path / "a.b")
    assert (tmp_path / "a.b.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.b.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "a.b.csv").read_text().startswith('"a title')


@pytest.mark.slow
def test_the_same_numbers_make_the_same_picture() -> None:
    assert [crowded().image(kind) for kind in ("png", "pdf")] == [crowded().image(kind) for kind in ("png", "pdf")]


@pytest.mark.slow
def test_notes_cover_neither_each_other_nor_a_point() -> None:
    drawing = crowded()
    *_, notes = boxes(drawing)
    assert len(notes) == 7
    assert not any(one.overlaps(other) for one, other in combinations(notes, 2))
    points = [(x, y) for curve in (NEAR, TOO) for x, y in zip(curve.x, curve.y, strict=True)]
    placed = drawing.figure.axes[0].transData.transform(points)
    assert not any(note.contains(x, y) for note in notes for x, y in placed)


@pytest.mark.parametrize("count", slow_but([1, 2, 8], 8))
def test_title_plot_and_legend_are_apart_and_inside(count: int) -> None:
    curves = [Curve("name " * (number + 1), (0.0, 1.0), (0.0, number)) for number in range(count)]
    drawing = scatter(curves, x_label="x", y_label="y", title="a title, " * 12)
    title, plot, legend, _ = boxes(drawing)
    assert title.y0 >= plot.y1
    assert plot.y0 >= legend.y1
    whole = drawing.figure.bbox
    assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 for box in (title, plot, legend))
