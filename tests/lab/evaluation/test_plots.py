"""Plots: files that every viewer shows, numbers that can be read back, and labels that cover nothing."""

import csv
from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from whispertide.lab.evaluation import plots
from whispertide.lab.evaluation.plots import Bar, Curve, Drawing, Line

NEAR = Curve("near", (1.0, 1.05, 1.05, 1.1, 2.0), (5.0, 5.1, 5.3, 5.0, 5.2), ("0.1 s", "0.5 s", "1 s", "1.2 s", "2 s"))
TOO = Curve("too near, with a name that is long", (1.0, 1.1), (5.1, 5.1), ("0.5 s", "1 s"))


def crowded(levels: tuple[Line, ...] = (Line("level", 5.25),)) -> Drawing:
    return plots.scatter((NEAR, TOO), x_label="x (s)", y_label="y (%)", title="a title, " * 12, levels=levels)


def boxes(drawing: Drawing) -> tuple[Bbox, Bbox, Bbox, list[Bbox]]:
    """Where title, plot and legend stand, and the notes in the plot."""
    figure, (axes,) = drawing.figure, drawing.figure.axes
    figure.draw_without_rendering()
    title = next(text for text in figure.texts if text.get_text())
    notes = [text.get_window_extent() for text in axes.texts if isinstance(text, Text)]
    plot = axes.get_tightbbox()
    assert plot is not None
    return title.get_window_extent(), plot, figure.legends[0].get_window_extent(), notes


def test_files_are_png_pdf_and_csv(tmp_path: Path) -> None:
    crowded().save(tmp_path / "a.b")
    assert (tmp_path / "a.b.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.b.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "a.b.csv").read_text().startswith('"a title')


@pytest.mark.slow
def test_the_same_numbers_make_the_same_picture() -> None:
    assert [crowded().image(kind) for kind in ("png", "pdf")] == [crowded().image(kind) for kind in ("png", "pdf")]


def test_curves_are_read_back(tmp_path: Path) -> None:
    crowded().save(tmp_path / "a")
    about, curves, levels = plots.read(tmp_path / "a.csv")
    assert about == {"x_label": "x (s)", "y_label": "y (%)", "title": "a title, " * 12}
    assert curves == [NEAR, TOO]
    assert levels == [Line("level", 5.25)]


def test_notes_cover_neither_each_other_nor_a_point() -> None:
    drawing = crowded()
    *_, notes = boxes(drawing)
    assert len(notes) == 7
    assert not any(one.overlaps(other) for one, other in combinations(notes, 2))
    points = [(x, y) for curve in (NEAR, TOO) for x, y in zip(curve.x, curve.y, strict=True)]
    placed = drawing.figure.axes[0].transData.transform(points)
    assert not any(note.contains(x, y) for note in notes for x, y in placed)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_title_plot_and_legend_are_apart_and_inside(count: int) -> None:
    curves = [Curve("name " * (number + 1), (0.0, 1.0), (0.0, number)) for number in range(count)]
    drawing = plots.over_time(curves, y_label="y", title="a title, " * 12)
    title, plot, legend, _ = boxes(drawing)
    assert title.y0 >= plot.y1
    assert plot.y0 >= legend.y1
    whole = drawing.figure.bbox
    assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 for box in (title, plot, legend))


def test_a_distribution_of_many_words_has_few_points() -> None:
    drawing = plots.distribution([("a", [float(value) for value in range(100_000)])], x_label="s", title="many")
    assert len(drawing.rows) == 251
    assert drawing.rows[-1] == ("a", "99999", "100", "")


def test_bars_have_their_numbers() -> None:
    drawing = plots.bars([Bar("a", 0.0), Bar("b, c", -1.0, -2.0, 0.5)], x_label="s", title="bars")
    assert list(csv.reader(drawing.csv().splitlines())) == [
        ["bars", "s", "low", "high"],
        ["a", "0", "", ""],
        ["b, c", "-1", "-2", "0.5"],
    ]


def test_plots_can_be_drawn_of_next_to_nothing() -> None:
    point = Curve("a", (0.0,), (1.0,))
    for drawing in (
        plots.distribution([("a", [1.0])], x_label="s", title="one word"),
        plots.over_time([point], y_label="y", title="point"),
        plots.front(point, point, point, x_label="x", y_label="y", title="t"),
        plots.scatter([], x_label="x", y_label="y", title="t"),
    ):
        assert drawing.image().startswith(b"\x89PNG")


def test_parts_of_a_bar_lie_side_by_side_and_what_is_below_zero_left_of_it() -> None:
    drawing = plots.stacked(
        [("one", {"early": -0.1, "a": 0.2, "b": 0.3}), ("two", {"b": 0.4})], x_label="x", title="title"
    )
    (axes,) = drawing.figure.axes
    spans = [(round(bar.get_x(), 6), round(bar.get_width(), 6)) for bars in axes.containers for bar in bars]
    assert spans == [(0, -0.1), (0, 0.0), (0, 0.2), (0, 0.0), (0.2, 0.3), (0, 0.4)]
    assert drawing.heading == ("title", "early", "a", "b")
    assert drawing.rows == (("one", "-0.1", "0.2", "0.3"), ("two", "", "", "0.4"))
    assert [text.get_text() for text in axes.texts] == ["0.4", "0.4"]
