import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from evaluation_cells import make_cell, make_trace, results_in
from whispertide_lab.evaluation import publish
from whispertide_lab.evaluation.plots import Bar, bars
from whispertide_lab.evaluation.store import Cell
from whispertide_lab.speech.utterance import RefWord, Utterance

SCORE = {
    "wer_minus_offline": 0.0123,
    "matched": 0.97,
    "matched_as_offline": True,
    "threads": 2,
}


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_a_page_has_its_parts_and_their_plots() -> None:
    one, two = (bars([Bar("a", value)], x_label="s", title="t") for value in (1.0, 2.0))
    parts = [publish.Part("One", "text\n", {"a": one}), publish.Part("Two", "more", {"b": two})]
    text, drawn = publish.page("Title", "Lead.", parts)
    assert text == "# Title\n\nLead.\n\n## One\n\ntext\n\n## Two\n\nmore\n"
    assert drawn == {"a": one, "b": two}


def test_a_streaming_part_marks_defaults(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    cells = [
        make_cell(results, step_s=1.0, late_s=2.0, score=SCORE),
        make_cell(results, step_s=0.5, late_s=1.0, score=SCORE),
        make_cell(results, recogniser="peer:simulstreaming", step_s=0.1, score=SCORE),
        make_cell(results, recogniser="offline", step_s=None, streaming=False, score=SCORE),
    ]
    part = publish.streaming_part("Small", "note", cells, "small")
    found = {(row[0], row[1]): row[2:] for row in rows(part.text)}
    assert found["whisper-streaming", "1 s"][0] == "default"
    assert found["whisper-streaming", "0.5 s"][0] == "–"
    assert found["peer:simulstreaming", "0.1 s"][0] == "default"
    assert found["whisper-streaming", "0.5 s"][1] == "5.00"
    assert "offline" in {name for name, _ in found}
    assert part.text.startswith("note 2400 words in 24 pieces.\n\n")
    few = publish.streaming_part("x", "", [replace(cells[0], utterances=cells[0].utterances[:2])], "x")
    assert few.text.startswith("200 words in 2 pieces. With so few, ")
    assert re.findall(r"\(benchmarks/(.*?)\)", part.text) == ["small-trade-off.png", "small-latency.png"]
    assert set(part.plots) == {"small-trade-off", "small-latency"}


def test_rows_are_ours_before_others_and_steps_together(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    cells = [
        make_cell(results, recogniser="peer:simulstreaming", step_s=0.1),
        make_cell(results, step_s=2.0),
        make_cell(results, recogniser="simulstreaming", step_s=1.2),
        make_cell(results, step_s=0.5),
    ]
    table = rows(publish.streaming_part("x", "", cells, "x").text)
    assert [row[:2] for row in table[2:]] == [
        ["simulstreaming", "1.2 s"],
        ["whisper-streaming", "0.5 s"],
        ["whisper-streaming", "2 s"],
        ["peer:simulstreaming", "0.1 s"],
    ]


def test_nothing_measured_is_said() -> None:
    part = publish.streaming_part("x", "note", [], "x")
    assert part.text == "note\n\nNot measured."
    assert not part.plots


def test_unreliable_latencies_are_said_to_be(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    sure = make_cell(results, score=SCORE)
    unreliable = make_cell(results, step_s=0.5, score={**SCORE, "matched": 0.8, "matched_as_offline": False})
    assert "do not rely on them" not in publish.streaming_part("x", "", [sure], "x").text
    part = publish.streaming_part("x", "", [sure, unreliable], "x")
    assert "do not rely on them" in part.text
    assert "80.00 !" in part.text


def clock_cell(folder: Path, clock: str, late_s: float) -> Cell:
    return make_cell(results_in(folder), utterances=1, late_s=late_s, clock=clock, score={**SCORE, "ttft_s": 1.0})


def test_clocks_are_compared_word_by_word(tmp_path: Path) -> None:
    cells = {"simulated": clock_cell(tmp_path, "simulated", 1.0), "real": clock_cell(tmp_path, "live", 1.25)}
    words = tuple(RefWord(f"word{n}", 16000 * n - 8000, 16000 * n) for n in range(1, 6))
    talk = Utterance("talk/0", words, 6.0, lambda: np.zeros(96000, np.float32), True)
    part = publish.clocks_part("Clocks", "note", cells, [("simulated", "real"), ("real", "free")], [talk])
    assert rows(part.text)[-1] == ["real after simulated", "5", "+0.250", "0.250", "0.250"]
    assert [row[0] for row in rows(part.text) if row[0] in cells] == ["simulated", "real"]
    assert make_trace("talk/0").words[0] == " word1"


def test_two_runs_by_the_same_clock_are_told_apart(tmp_path: Path) -> None:
    cells = {"once": clock_cell(tmp_path / "a", "live", 1.0), "again": clock_cell(tmp_path / "b", "live", 1.25)}
    part = publish.clocks_part("Clocks", "note", cells, [], [])
    assert [row[0] for row in rows(part.text) if row[0] in cells] == ["once", "again"]


def test_at_a_glance_each_group_is_a_table_of_what_matters_most(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    sure = make_cell(results, score={**SCORE, "wer": 0.04, "confirmed_mean_s": 0.25})
    unreliable = {**SCORE, "wer": 0.1, "confirmed_mean_s": 1.5, "matched_as_offline": False}
    other = make_cell(results, recogniser="peer:whisper-streaming", score=unreliable)
    offline = make_cell(
        results, recogniser="offline", streaming=False, score={**SCORE, "wer": 0.08, "confirmed_mean_s": 5.0}
    )

    def named(cell: Cell) -> str:
        return cell.spec.recogniser.upper()

    part = publish.glance_part("x", "note", {"small": [offline, other, sure]}, named)
    assert rows(part.text)[0][:3] == ["small", "word errors %", "confirmed after s"]
    assert [row[:3] for row in rows(part.text)[2:]] == [
        [sure.spec.recogniser.upper(), "4.00", "0.25"],
        ["PEER:WHISPER-STREAMING", "10.00", "1.50 !"],
        ["OFFLINE", "8.00", "–"],
    ]
    assert "do not rely on them" in part.text
    assert "do not rely on them" not in publish.glance_part("x", "note", {"small": [sure]}, named).text
    assert publish.glance_part("x", "note", {"small": []}, named).text == "note\n\nsmall: Not measured."


def test_facts_name_everything_once(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    cells = [make_cell(results, score=SCORE), make_cell(results, step_s=0.5, score=SCORE, model="base.en")]
    found = dict(publish.facts(cells))
    assert found["machine"] == "Some Processor, 2 cores, Linux"
    assert found["models"] == "base.en (feedfeedfeed); nano.en (feedfeedfeed)"
    assert found["corpora"] == "talks-seed0 (0123456789ab)"
    assert found["threads"] == "2"
