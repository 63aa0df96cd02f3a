from pathlib import Path

import pytest

from evaluation_cells import make_cell, results_in
from whispertide.errors import OptionError
from whispertide.tuning.page import text_table
from whispertide_lab.evaluation.compare import compare, compare_all


def test_a_clear_difference_is_called_one(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    slow, quick = make_cell(results, late_s=2.0), make_cell(results, late_s=0.5, step_s=0.2, wer=0.08)
    found = compare(slow, quick)
    assert found.differences["confirmed_mean_s"].difference == pytest.approx(-1.5)
    assert found.differences["wer"].difference == pytest.approx(0.03)
    assert found.verdict.startswith("B against A: WER higher by 3.00 points (95 % 3.00 to 3.00); ")
    assert "confirmed latency lower by 1.500 s" in found.verdict
    assert "too narrow" not in found.verdict
    assert "-1.500" in text_table(found.table)
    assert found.names == ("whisper-streaming 1 s", "whisper-streaming 0.2 s")


def test_no_difference_is_not_called_one(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    first, second = make_cell(results, utterances=5), make_cell(results, utterances=5, code="another")
    found = compare(first, second)
    assert "no clear difference in WER (0.00, 95 % 0.00 to 0.00 points)" in found.verdict
    assert "only 5 speakers, or recordings where nobody knows the speaker: intervals are too narrow" in found.verdict
    assert found.table.title == "Intervals are over speakers, or recordings where nobody knows the speaker."
    assert found.names[0] != found.names[1]


def test_cells_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    cell = make_cell(results, utterances=3)
    with pytest.raises(OptionError, match="ba9876543210"):
        compare(cell, make_cell(results, utterances=3, corpus_hash="ba9876543210"))
    live = compare(cell, make_cell(results, utterances=3, clock="live"))
    assert live.names == ("whisper-streaming 1 s (simulated)", "whisper-streaming 1 s (live)")
    with pytest.raises(OptionError, match="free"):
        compare(cell, make_cell(results, utterances=3, clock="free"))


def test_what_rests_on_aligned_word_times_says_so(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    exact, aligned = (
        make_cell(results, utterances=3, code=times, score={"word_times": times}) for times in ("exact", "aligned by x")
    )
    assert "forced alignment" not in compare(exact, exact).verdict
    assert "word times by forced alignment: no claim about latency" in compare(aligned, aligned).verdict


def test_latencies_of_too_few_matched_words_are_marked_and_said_to_be(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    sure, few = (
        make_cell(results, utterances=3, code=str(ok), score={"matched_as_offline": ok}) for ok in (True, False)
    )
    assert "95 %" in compare(sure, sure).verdict
    assert "fewer words matched than offline" not in compare(sure, sure).verdict
    found = compare(sure, few)
    assert "fewer words matched than offline: do not rely on latencies" in found.verdict
    rows = {row[0]: row[1:3] for row in found.table.rows}
    assert rows["confirmed latency s"] == ("1.000", "1.000 !")
    assert not any("!" in str(figure) for figure in rows["WER %"])


def test_folders_are_compared_cell_by_cell(tmp_path: Path) -> None:
    old, new = results_in(tmp_path / "old"), results_in(tmp_path / "new")
    for step in (0.5, 1.0):
        make_cell(old, step_s=step, utterances=3)
        make_cell(new, step_s=step, utterances=3, code="another", late_s=2.0)
    make_cell(new, step_s=3.0, utterances=3)
    found = compare_all(old.cells(), new.cells())
    assert sorted((pair.a.spec.step_s, pair.b.spec.step_s, pair.b.spec.code) for pair in found) == [
        (0.5, 0.5, "another"),
        (1.0, 1.0, "another"),
    ]
    with pytest.raises(OptionError, match="none did"):
        compare_all(
            old.cells(), [make_cell(new, model="base.en", utterances=1), make_cell(new, model="x", utterances=1)]
        )
