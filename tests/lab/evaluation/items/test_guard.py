"""The labelling rule of NPUsper's tables, on decodes that are written down."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attention_ramps import looking_at
from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.tokenizer import token_kinds
from whispertide.decoding.guards import Scene
from whispertide.methods.attention.backward_shift import BackwardShift
from whispertide_lab.evaluation.clips import Clip
from whispertide_lab.evaluation.items import guard as items
from whispertide_lab.evaluation.items.guard import Label, Unguarded, label, outcomes, precision_and_recall, stop_of
from whispertide_lab.evaluation.wer import Counts

TOKENIZER = load_checkpoint("nano.en").tokenizer
MODEL: Any = SimpleNamespace(
    tokenizer=TOKENIZER,
    dims=SimpleNamespace(n_text_layer=1, n_text_head=2),
    alignment_heads=((0, 0), (0, 1)),
)
FRAMES = 150


def decode(text: str, places: list[int]) -> Unguarded:
    """`places`: where the queries look that predict the tokens of `text`."""
    tokens = tuple(TOKENIZER.encode(text))
    assert len(tokens) == len(places)
    scene = Scene(token_kinds(TOKENIZER, "en"), ((0, 0), (0, 1)), 2, (), FRAMES)
    return Unguarded(tokens, looking_at([0, *places], FRAMES), scene)


def clip(words: list[str]) -> Clip:
    return Clip(tuple(words), np.zeros(0, np.float32))


ONWARD = decode(" the cat sat down", [20, 50, 80, 110])
INVENTED = decode(" the cat sat and then it", [20, 50, 80, 30, 60, 90])


def test_a_decode_without_a_guard_is_judged_by_its_insertions() -> None:
    found = label(MODEL, clip(["the", "cat", "sat"]), INVENTED, None)
    assert (found.hallucinated(), found.shifted, found.undesired) == (True, False, False)
    assert found.counts.insertions == 3
    assert not label(MODEL, clip(["the", "cat", "sat", "down"]), ONWARD, None).hallucinated()


def test_a_stop_that_only_cuts_inventions_is_wanted() -> None:
    found = label(MODEL, clip(["the", "cat", "sat"]), INVENTED, BackwardShift())
    assert (found.hallucinated(), found.shifted, found.undesired) == (False, True, False)
    assert found.counts.rate == 0


def test_a_stop_that_loses_a_right_word_is_not() -> None:
    found = label(MODEL, clip(["the", "cat", "sat", "and", "ran"]), INVENTED, BackwardShift())
    assert found.undesired


def test_what_a_stop_cut_off_is_remembered() -> None:
    without = label(MODEL, clip(["the", "cat", "sat"]), INVENTED, None)
    guarded = label(MODEL, clip(["the", "cat", "sat"]), INVENTED, BackwardShift())
    assert (without.invented(), guarded.invented(), guarded.hallucinated()) == (True, True, False)


def found(*fates: tuple[bool, bool, bool]) -> list[Label]:
    """(shifted, undesired, invented) -> labels."""
    return [Label(Counts(), shifted, undesired, 3 * invented) for shifted, undesired, invented in fates]


def test_undesired_stops_are_a_share_of_the_stops() -> None:
    """NPUsper's 9.9 % of 36.4 % of 250 clips: 9 of 91."""
    stops = [(True, True, False)] * 9 + [(True, False, True)] * 82
    labels = found(*stops, *[(False, False, False)] * 159)
    assert items._stops(labels) == ("36.40", "9.89 (9 of 91)")
    assert items._stops(found((False, False, True))) == ("0.00", "–")


def test_of_every_clip_one_thing_becomes() -> None:
    stops = (True, False, True), (True, False, False), (True, True, True)
    labels = found(*stops, (False, False, True), (False, False, False))
    assert outcomes(labels) == dict.fromkeys(items._FATES, 0.2)
    assert outcomes(found((True, True, False), (True, False, True)))["stopped wrongly"] == 0.5


def test_a_stop_of_a_clip_without_hallucination_is_not_right() -> None:
    """Also where it loses nothing: a guard that stops every clip at its end is not precise."""
    clean = found(*9 * [(True, False, False)], (True, False, True))
    assert outcomes(clean)["stopped rightly"] == 0.1
    assert precision_and_recall(clean) == (0.1, 1.0)
    assert precision_and_recall(found((True, True, True), (True, False, True))) == (0.5, 0.5)


def test_what_makes_a_hallucination_is_a_rule_among_others() -> None:
    """Two insertions before the guard, none after it."""
    label = Label(Counts(), True, False, 2)
    assert [label.invented(least) for least in items.THRESHOLDS] == [True, True, False, False, False]
    assert [precision_and_recall([label], least) for least in (2, 3)] == [(1.0, 1.0), (0.0, None)]


def test_a_guard_that_never_stops_has_no_precision() -> None:
    """None is not the worst: nobody knows it."""
    (label,) = found((False, False, False))
    assert precision_and_recall([label]) == (None, None)


def test_the_paper_s_rows_stand_next_to_ours() -> None:
    names = {name for name, _, _ in (*items._COMPONENTS, *items._FILTERS)}
    assert items._PUBLISHED.keys() <= names
    compared = [rule.compared for _, _, rule in items._COMPONENTS if rule is not None]
    assert compared == ["all", "all", "all", "no-marks", "words"]
    filters = {name: (rule.median, rule.average, rule.compared) for name, _, rule in items._FILTERS if rule}
    assert filters["10, 7"] == (7, 10, "all")
    assert filters["15, 0, words only"] == (1, 15, "words")


class FakeRunner:
    """Every clip is decoded twice: without inventions, and with them."""

    quick = True
    models = ("nano.en",)
    corpus_name = "two clips"

    def transcriber(self, name: str) -> Any:
        return SimpleNamespace(model=MODEL)

    def each_clip(self, name: str, measure: Any, **about: Any) -> list[Any]:
        return [measure(clip(["the", "cat", "sat"])), measure(clip(["the", "cat", "sat", "and", "ran"]))]


# Rows of the paper: hallucinating %, backward shifts %, undesired % of them
TABLE_2 = {
    "30 s, no guard": ("0.0", "–", "–"),
    "no padding, no guard": ("34.4", "–", "–"),
    "+ backward shifts": ("4.4", "70.8", "75.7"),
    "+ moving average": ("2.8", "65.2", "82.2"),
    "+ median": ("1.2", "51.6", "67.4"),
    "+ punctuation is skipped": ("0.0", "39.6", "19.2"),
    "+ pieces of words are skipped": ("0.0", "36.4", "9.9"),
}
TABLE_3 = {
    "0, 0": ("4.4", "70.8", "75.7"),
    "5, 0": ("3.6", "62.0", "83.2"),
    "10, 0": ("2.8", "65.2", "82.2"),
    "15, 0": ("3.2", "67.6", "84.0"),
    "10, 3": ("2.4", "60.0", "74.7"),
    "10, 5": ("1.2", "59.2", "73.0"),
    "10, 7": ("1.2", "51.6", "67.4"),
}
TABLE_4 = {
    "the paper, small: no guard": ("24.0", "–", "–"),
    "the paper, small: guard, layer 5": ("2.0", "5.2", "7.7"),
    "the paper, small: guard, layer 7": ("2.0", "3.2", "12.5"),
    "the paper, medium: no guard": ("36.4", "–", "–"),
    "the paper, medium: guard, layer 8": ("6.8", "28.8", "6.9"),
}
ERRORS = ("WER %", "hallucinating, 95 % interval", "WER, 95 % interval")
RATES = ("hallucinating %", "backward shifts %", "undesired % of them")


@pytest.mark.parametrize(
    ("measure", "heading", "published"),
    [(items.guard_table, "variant", TABLE_2), (items.filter_table, "average, median (frames)", TABLE_3)],
)
def test_every_row_of_the_paper_is_measured_and_stands_next_to_ours(
    measure: Any, heading: str, published: dict[str, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NPUsper's tables 2 and 3."""
    monkeypatch.setattr(items, "decode_clip", lambda model, frame, clip, layers: INVENTED)
    table, by_rule = measure(FakeRunner()).tables
    assert by_rule.columns == ("variant", *(f"{least} or more" for least in (1, 2, 3, 5, 8)))
    usual = [(row[0], row[by_rule.columns.index("3 or more")]) for row in by_rule.rows]
    assert usual == [row[:2] for row in table.rows]
    assert table.columns == (heading, *RATES, *ERRORS, *(f"paper: {rate}" for rate in RATES))
    rows = {row[0]: row for row in table.rows}
    assert list(rows)[:7] == list(published)
    assert {name: rows[name][7:] for name in published} == published


def test_clips_of_one_speaker_are_drawn_together() -> None:
    """Of two speakers with ten clips each, one hallucinates in all of them: in a draw both may be that one."""
    labels = [Label(Counts(hits=1, insertions=3 * bad), False, False, 0, f"{bad}") for bad in (0, 1) for _ in range(10)]
    assert items._row(labels, None)[4:] == ("0.00 to 100.00", "0.00 to 300.00")


def test_every_component_is_added_to_those_before() -> None:
    """NPUsper's table 2: padding, backward shifts, smoothing, a median, and which tokens are skipped."""
    found = [(frame.kind, rule and (rule.average, rule.median, rule.compared)) for _, frame, rule in items._COMPONENTS]
    assert found == [
        *(("pad30", None), ("bare", None), ("bare", (1, 1, "all")), ("bare", (10, 1, "all")), ("bare", (10, 7, "all"))),
        *(("bare", (10, 7, "no-marks")), ("bare", (10, 7, "words"))),
    ]


def test_filters_are_as_wide_as_they_are_called() -> None:
    """NPUsper's table 3; a width of 1 is no filter."""
    found = {name: (rule.average, rule.median, frame.kind) for name, frame, rule in items._FILTERS if rule is not None}
    widths = {name: tuple(max(int(width), 1) for width in name.split(", ")) for name in TABLE_3}
    assert {name: found[name] for name in TABLE_3} == {name: (*width, "bare") for name, width in widths.items()}


def test_every_size_is_decoded_with_padding_without_and_with_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """NPUsper's table 4; with padding is ours."""
    watched: set[tuple[int | None, ...]] = set()

    def decode(model: object, frame: object, clip: object, layers: Sequence[int | None]) -> Unguarded:
        watched.add(tuple(layers))
        return INVENTED

    monkeypatch.setattr(items, "decode_clip", decode)
    runner: Any = FakeRunner()
    runner.models = ("nano.en", "models/other")
    (table,) = items.size_table(runner).tables
    assert table.columns == ("model", *RATES, *ERRORS)
    ours = [
        f"{model}: {way}"
        for model in ("nano.en", "other")
        for way in ("30 s, no guard", "no padding, no guard", "no padding, guard, layer 1 of 1")
    ]
    assert [row[0] for row in table.rows] == [*ours, *TABLE_4]
    assert {row[0]: row[1:4] for row in table.rows if row[0] in TABLE_4} == TABLE_4
    assert watched == {(0,)}, "of this model the only layer"
    ways = [(name, frame.kind, rule) for name, frame, rule in items._by_layer(2)]
    assert ways == [
        *(("30 s, no guard", "pad30", None), ("no padding, no guard", "bare", None)),
        *((f"no padding, guard, layer {n + 1} of 2", "bare", BackwardShift(layer=n)) for n in range(2)),
    ]


@pytest.mark.slow
def test_the_tables_and_the_figure_are_made_of_the_same_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "decode_clip", lambda model, frame, clip, layers: INVENTED)
    runner: Any = FakeRunner()
    rows = {row[0]: row[1:] for row in items.guard_table(runner).tables[0].rows}
    sure = ("0.00 to 100.00", "40.00 to 100.00")  # of two clips
    assert rows["no padding, no guard"] == ("50.00", "–", "–", "62.50", *sure, "34.4", "–", "–")
    assert rows["+ pieces of words are skipped"][:3] == ("0.00", "100.00", "50.00 (1 of 2)")
    assert rows["+ pieces of words are skipped"][6:] == ("0.0", "36.4", "9.9")
    assert len(items.filter_table(runner).tables[0].rows) == 14
    figure = items.outcome_figure(runner)
    runner.models = ("nano.en", "models/other")
    sizes = {row[0]: row[1:] for row in items.size_table(runner).tables[0].rows}
    assert sizes["other: no padding, guard, layer 1 of 1"][:3] == ("0.00", "100.00", "50.00 (1 of 2)")
    assert sizes["the paper, medium: guard, layer 8"] == ("6.8", "28.8", "6.9", "–", "–", "–")
    assert figure.tables[0].rows[-1] == (
        "+ pieces of words are skipped",
        *("50.00", "0.00", "50.00", "0.00", "0.00"),
        *("50.00", "100.00"),
    )


def test_the_figure_has_stacked_bars_of_outcomes_and_a_point_for_each_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "decode_clip", lambda model, frame, clip, layers: INVENTED)
    runner: Any = FakeRunner()
    bars, points = (plot.drawing for plot in items.outcome_figure(runner).plots)
    names = list(TABLE_2)[2:]  # those with a guard
    assert bars.heading[1:] == items._FATES
    assert [row[0] for row in bars.rows] == names
    assert all(sum(map(float, row[1:])) == 100 for row in bars.rows)
    assert points.heading[1:3] == ("recall (%)", "precision (%)")
    assert [row[0] for row in points.rows] == names
    assert points.rows[-1][1:3] == ("100", "50")


@pytest.mark.parametrize(("what", "keep"), [(ONWARD, None), (INVENTED, 3)])
def test_a_guard_is_played_over_what_was_decoded(what: Unguarded, keep: int | None) -> None:
    assert stop_of(MODEL, what, BackwardShift()) == keep
