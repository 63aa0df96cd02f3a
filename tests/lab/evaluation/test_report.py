import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from evaluation_cells import SPEC, make_cell, make_trace, results_in
from whispertide.errors import OptionError
from whispertide.tuning import page
from whispertide.tuning.page import Table, html_table, text_table
from whispertide_lab.evaluation import charts, plots, report
from whispertide_lab.evaluation.marks import latency_marks
from whispertide_lab.evaluation.trace import RoundCost, Shown, Trace

VOID = {"meta", "br", "img"}


class Page(HTMLParser):
    """Opens and closes; what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "data", "action") and not (value or "").startswith(("#", "data:")):
                self.fetched.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parse(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    return page


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without figures, which take most of the time."""
    monkeypatch.setattr(report, "charts", lambda cells: [])


@pytest.mark.slow
def test_the_page_is_whole_and_fetches_nothing(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    for step in (0.5, 1.0):
        make_cell(results, step_s=step, late_s=1 + step)
        make_cell(results, step_s=step, late_s=step, changes=("framing=bare",))
    make_cell(results, recogniser="offline", step_s=None, streaming=False)
    text = report.build(results.cells())
    page = parse(text)
    assert page.fetched == []
    assert not {"script", "link", "iframe"} & set(page.tags)
    assert not re.search(r"@import|url\((?!#)", text)
    assert not re.search(r"https?://", text)
    assert "var(--" not in text
    # trade-off, two distributions, two ablations (no GFLOP known), two over time
    assert page.tags.count("figure") == page.tags.count("img") == 7


def test_the_page_says_where_its_figures_come_from(tmp_path: Path, undrawn: None) -> None:
    results = results_in(tmp_path)
    cell = make_cell(results)
    words = " ".join(parse(report.build([cell], "Title & more")).text)
    wanted = (
        cell.key,
        SPEC.machine,
        SPEC.corpus_hash,
        "talks-seed0",
        "84601a0",
        "feedfeedfeed",
        cell.date,
        "Title & more",
    )
    assert [item for item in wanted if item not in words] == []


def test_recognisers_are_compared_within_one_model_corpus_and_clock(tmp_path: Path, undrawn: None) -> None:
    results = results_in(tmp_path)
    cells = [
        make_cell(results, utterances=3),
        make_cell(results, utterances=3, clock="live"),
        make_cell(results, utterances=3, clock="free"),
        make_cell(results, utterances=3, model="base.en"),
        make_cell(results, utterances=3, corpus_hash="ba9876543210"),
    ]
    groups = [report.group_of(cell) for cell in cells]
    assert groups[0] == groups[1]
    assert len(set(groups)) == 4
    assert parse(report.build(cells)).tags.count("section") == 2 + 4


def test_a_plot_has_every_row_and_says_every_clock(tmp_path: Path) -> None:
    """Other programs come last: with many rows of ours none of theirs was drawn."""
    results = results_in(tmp_path)
    cells = [make_cell(results, changes=(f"carry={number}",)) for number in range(12)]
    cells.append(make_cell(results, recogniser="peer:whisper-streaming", clock="live"))
    labels = {cell.spec.label for cell in cells}
    for drawing in (charts.trade_off_plot(cells), charts.latency_plot(charts.typical(cells))):
        assert {row[0] for row in drawing.rows} >= labels
        assert drawing.title.endswith("clock simulated, live")


def test_what_is_not_known_is_a_dash_and_draws_nothing(tmp_path: Path) -> None:
    unknown = {"wer": None, "confirmed_mean_s": None, "confirmed_p99_s": float("nan")}
    cell = make_cell(results_in(tmp_path), utterances=0, score=unknown)
    text = report.build([cell])
    assert "nan" not in " ".join(parse(text).text).lower().replace("nano.en", "")
    assert text_table(report.summary_table([cell])).splitlines()[1].split()[:4] == [
        "whisper-streaming",
        "1",
        "s",
        "nano.en",
    ]


def test_references_that_nobody_checked_are_told(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    cells = [make_cell(results, corpus="people", score={"prompted": count, "utterances": 9}) for count in (0, 2)]
    assert [len(report.notes([cell])) for cell in cells] == [0, 1]
    assert report.notes(cells[1:])[0].startswith("people: 2 of 9 recordings are scored against what the speaker was")


def test_latencies_of_too_few_words_are_marked(tmp_path: Path, undrawn: None) -> None:
    results = results_in(tmp_path)
    sure = make_cell(results, utterances=3, score={"matched": 0.86, "matched_as_offline": True})
    unreliable = make_cell(results, utterances=3, step_s=2.0, score={"matched": 0.81, "matched_as_offline": False})
    assert report.is_unreliable([sure, unreliable])
    assert not report.is_unreliable([sure])
    rows = text_table(report.summary_table([sure, unreliable])).splitlines()
    assert ["86.00 !" in rows[1], "81.00 !" in rows[2]] == [False, True]
    assert ["1.00 !" in rows[1], "1.00 !" in rows[2]] == [False, True], "so that no table need have the column"
    assert [report.latency(cell.score) for cell in (sure, unreliable)] == ["1.00", "1.00 !"]
    assert report.latency({"confirmed_mean_s": None, "matched_as_offline": False}) == "–"
    assert latency_marks(sure.score, unreliable.score) == " !"
    assert report.UNRELIABLE_NOTE in report.build([unreliable])
    assert report.UNRELIABLE_NOTE not in report.build([sure])


def test_plots_mark_them_too_and_say_what_that_means(tmp_path: Path) -> None:
    results, waits = results_in(tmp_path), {"waits_s": {"voice gate": 0.1}}
    sure = make_cell(results, score={**waits, "matched_as_offline": True})
    few = make_cell(results, step_s=2.0, score={**waits, "matched_as_offline": False})
    placed = make_cell(results, step_s=3.0, score={**waits, "word_times": "aligned by base"})
    cells, means = [sure, few, placed], ("!: fewer words matched than offline", "~: word times by forced alignment")
    points = charts.trade_off_plot(cells)
    assert [row[-1] for row in points.rows[:3]] == ["1 s", "2 s !", "3 s ~"]
    hollow = [line for line in points.figure.axes[0].lines if line.get_markerfacecolor() == "white"]
    assert [np.asarray(line.get_xdata()).tolist() for line in hollow] == [[few.score["confirmed_mean_s"]]]
    for plot in (charts.latency_plot(cells), charts.waits_plot(cells)):
        labels = dict.fromkeys(row[0] for row in plot.rows)
        assert [*labels] == ["whisper-streaming 1 s", "whisper-streaming 2 s !", "whisper-streaming 3 s ~"]
        assert [text in plot.title for text in means] == [True, True]
    assert report.waits_table(cells).columns[1:] == tuple(labels), "and the table of the same"
    for plot in (charts.trade_off_plot([sure]), charts.latency_plot([sure]), charts.waits_plot([sure])):
        assert not {"!", "~"} & {*"".join((plot.title, *(text for row in plot.rows for text in row)))}


def test_a_changed_recipe_is_marked_where_its_latency_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, drawn = results_in(tmp_path), list[list[str]]()

    def bars(items: Sequence[plots.Bar], **_: str) -> None:
        drawn.append([item.label for item in items])

    monkeypatch.setattr(plots, "bars", bars)
    monkeypatch.setattr(page, "figure", lambda *_: "a figure")
    few = {"matched_as_offline": False, "gflop_per_s": 1.0}
    cells = [make_cell(results, score={"gflop_per_s": 2.0}), make_cell(results, changes=("carry=1",), score=few)]
    for about in charts._ABLATIONS:
        charts._ablation(cells, *about)
    assert [label[-1] == "!" for _, label in drawn] == [True, False, False], "of latency, word errors and work"


def test_a_share_of_matched_words_that_was_not_compared_says_so(tmp_path: Path) -> None:
    """As in results of versions that had another rule."""
    results = results_in(tmp_path)
    cells = [make_cell(results, utterances=3, score={"matched": 0.5, **old}) for old in ({}, {"matched_enough": False})]
    cells.append(make_cell(results, recogniser="offline", utterances=3, streaming=False, score={"matched": 0.5}))
    rows = text_table(report.summary_table(cells)).splitlines()[1:]
    assert ["50.00 not compared" in row for row in rows] == [True, True, False]
    assert not report.is_unreliable(cells)


def test_the_error_of_an_alignment_stands_below_the_table(tmp_path: Path) -> None:
    error = {"recordings": 8, "words": 58, "placed": 57, "mean_s": -0.011, "median_s": 0.0912, "p90_s": 0.302}
    score = {"word_times": "aligned by base and exact", "alignment": error, "matched": 0.9}
    (about, measured) = report.notes([make_cell(results_in(tmp_path), utterances=3, score=score)])
    assert "aligned by base (forced alignment), not exact" in about
    assert measured == (
        "~ aligned by base: in 8 hand-labelled recordings of the same source the end of a word is off by 0.091 s in "
        "the median and 0.302 s in nine of ten (mean -0.011 s; 57 of 58 words placed)."
    )


@pytest.mark.slow
def test_latencies_by_aligned_word_times_are_marked(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    exact = make_cell(results, utterances=1, score={"word_times": "exact", "matched": 1.0, "words": 9})
    aligned = make_cell(
        results,
        utterances=1,
        step_s=2.0,
        score={"word_times": "aligned by nano.en", "matched": 1.0, "words": 9, "laal_s": 1.5, "cpu_s_per_s": 0.25},
    )
    rows = text_table(report.summary_table([exact, aligned])).splitlines()
    assert "LAAL s" not in rows[0], "where there are word times, nothing else is needed"
    assert ["~" in row for row in rows] == [False, False, True]
    assert "0.250" in rows[2].split(), "only what rests on word times is marked"
    assert report.notes([exact]) == []
    assert [line[:35] for line in report.notes([exact, aligned])] == ["~ word times are aligned by nano.en"]
    assert "~ word times are aligned by nano.en" in report.build([aligned])


def test_what_can_be_had_without_word_times_is_shown(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    known = {"words": 9, "matched": None, "laal_s": 1.5, "first_text_s": 0.75, "last_text_s": -0.25}
    unknown = {"confirmed_mean_s": None, "confirmed_p99_s": None}
    untimed = make_cell(results, utterances=1, score={**known, **unknown}, corpus="manifest:mine.jsonl")
    silent = make_cell(results, utterances=1, score={**unknown, "words": 0, "matched": None}, corpus="nonspeech")
    head, row = text_table(report.summary_table([untimed])).splitlines()
    assert head.split()[-8:] == ["LAAL", "s", "first", "text", "s", "last", "text", "s"]
    assert row.split()[-3:] == ["1.50", "0.75", "-0.25"]
    (line,) = report.notes([untimed, silent])
    assert "each word of manifest:mine.jsonl was said" in line
    assert report.notes([silent]) == [], "where nobody speaks there is nothing to miss"


def test_without_cells_there_is_no_report() -> None:
    with pytest.raises(OptionError, match="bench run"):
        report.build([])


def test_columns_of_sentences_wrap() -> None:
    table = html_table(
        Table(("short", "long"), (("a", "b"), ("c", "a sentence of more than forty-eight characters wraps")))
    )
    assert '<td class="t">b</td>' in table
    assert '<th scope="row">a</th>' in table


def test_labels_tell_cells_apart() -> None:
    table = html_table(Table(("<b>", "n"), (("a & b", "1.5"), ("c", None))))
    assert "&lt;b&gt;" in table
    assert "a &amp; b" in table
    assert '<td class="n">–</td>' in table


def test_a_text_table_has_figures_on_the_right() -> None:
    table = Table(("name", "WER %"), (("whisper-streaming", "5.00"), ("x", "12.25"), ("y", None)))
    assert text_table(table).splitlines() == [
        "name               WER %",
        "whisper-streaming   5.00",
        "x                  12.25",
        "y                      –",
    ]


def test_a_table_with_a_short_row_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells"):
        Table(("a", "b"), (("x",),))


def test_revisions_over_time_count_what_was_taken_back() -> None:
    shown = (
        Shown(1.0, (), (" one", " too")),
        Shown(2.0, (), (" one", " two", " tree")),  # too -> two
        Shown(3.0, (" one", " two"), (" three",)),  # tree -> three
        Shown(4.0, (" three",), ()),
    )
    times, counts = charts.revisions_over_time(Trace("u", "r", "simulated", 4.0, shown))
    assert list(zip(times, counts, strict=True)) == [(0.0, 0.0), (2.0, 1.0), (3.0, 2.0), (4.0, 2.0)]


def test_revisions_are_counted_in_the_language_of_the_utterance(tmp_path: Path) -> None:
    """In English "um" is no word, so nothing is taken back."""
    trace = Trace("talk/0", "r", "simulated", 2.0, (Shown(1.0, (), (" um",)), Shown(2.0, (" am",), ())))
    assert [charts.revisions_over_time(trace, language)[1][-1] for language in ("en", "de")] == [0.0, 1.0]
    earlier = make_cell(results_in(tmp_path), utterances=1)
    german = replace(earlier, utterances=({"id": "talk/0", "language": "de"},))
    assert [charts._language(cell, trace) for cell in (earlier, german)] == ["en", "de"]


def test_lag_over_time_is_the_age_of_the_newest_audio_heard() -> None:
    rounds = (RoundCost(1.0, 0.5, 1.0), RoundCost(2.0, 0.25, 2.0), RoundCost(4.5, 1.0, 4.0))
    trace = Trace("u", "r", "simulated", 4.0, (), rounds)
    assert charts.lag_over_time(trace) == ([1.5, 2.25, 5.5], [0.5, 0.25, 1.5])
    assert charts.lag_over_time(make_trace("u", seconds=600.0))[0][-1] == pytest.approx(599.25, abs=10)
    assert len(charts.lag_over_time(make_trace("u", seconds=600.0))[0]) <= 61


@pytest.mark.parametrize(("utterances", "there"), [(19, False), (20, True)])
def test_whiskers_are_drawn_where_a_bootstrap_is_not_too_narrow(utterances: int, there: bool, tmp_path: Path) -> None:
    cell = make_cell(results_in(tmp_path), utterances=utterances)
    for key in ("wer", "confirmed_mean_s"):
        low, high = charts._spread(cell, key, 1.0)
        assert (low is not None, high is not None) == (there, there)
