"""The kinds of plots, and their numbers."""

import csv
from pathlib import Path

import pytest

from whispertide.tuning.drawing import DASHES, SERIES, Curve, Line, looks, scatter
from whispertide_lab.evaluation import plots
from whispertide_lab.evaluation.plots import Bar

NEAR = Curve("near", (1.0, 1.05), (5.0, 5.1), ("0.1 s", "0.5 s"))


def test_a_distribution_of_many_words_has_few_points() -> None:
    drawing = plots.distribution([("a", [float(value) for value in range(100_000)])], title="many")
    assert len(drawing.rows) == 251
    assert drawing.rows[-1] == ("a", "99999", "100", "")


def test_bars_have_their_numbers() -> None:
    drawing = plots.bars([Bar("a", 0.0), Bar("b, c", -1.0, -2.0, 0.5)], x_label="s", title="bars")
    assert list(csv.reader(drawing.csv().splitlines())) == [
        ["bars", "s", "low", "high"],
        ["a", "0", "", ""],
        ["b, c", "-1", "-2", "0.5"],
    ]


def test_bars_are_read_from_their_numbers(tmp_path: Path) -> None:
    items = [Bar("a", 0.0), Bar("b, c", -1.0, -2.0, 0.5)]
    (tmp_path / "bars.csv").write_text(plots.bars(items, x_label="s", title="bars").csv(), encoding="utf-8")
    assert plots.read_bars(tmp_path / "bars.csv") == ("bars", "s", items)


@pytest.mark.slow
def test_plots_can_be_drawn_of_next_to_nothing() -> None:
    point = Curve("a", (0.0,), (1.0,))
    for drawing in (
        plots.distribution([("a", [1.0])], title="one word"),
        plots.over_time([point], y_label="y", title="point"),
        plots.front(point, point, point, x_label="x", y_label="y", title="t"),
        scatter([], x_label="x", y_label="y", title="t"),
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


def test_no_two_curves_or_parts_look_alike_where_there_are_more_than_colours() -> None:
    many = [Curve(str(number), (1.0, 2.0), (1.0, 2.0)) for number in range(2 * SERIES + 1)]
    (axes,) = scatter(many, x_label="x", y_label="y", title="t").figure.axes
    assert len({(line.get_color(), line.get_marker()) for line in axes.lines}) == len(many)
    dashed = looks(linestyle=DASHES)
    assert len(set(zip(dashed["color"], dashed["linestyle"], strict=True))) == SERIES * len(DASHES)
    parts = {f"part {number}": 0.1 for number in range(SERIES + 1)}
    (axes,) = plots.stacked([("one", parts)], x_label="x", title="t").figure.axes
    bars = [bar for container in axes.containers for bar in container]
    assert len({(bar.get_facecolor(), bar.get_hatch()) for bar in bars}) == len(parts)


@pytest.mark.slow
def test_curves_are_read_back(tmp_path: Path) -> None:
    scatter([NEAR], x_label="x (s)", y_label="y (%)", title="a title", levels=[Line("level", 5.25)]).save(
        tmp_path / "a"
    )
    about, curves, levels = plots.read(tmp_path / "a.csv")
    assert about == {"x_label": "x (s)", "y_label": "y (%)", "title": "a title"}
    assert curves == [NEAR]
    assert levels == [Line("level", 5.25)]
