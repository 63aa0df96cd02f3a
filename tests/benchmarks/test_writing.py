"""What `benchmarks/writing.py` takes, counts and prints."""

import json
from pathlib import Path

import pytest

from benchmark_scripts import benchmark
from whispertide_lab.evaluation.writing import WritingErrors


def test_recordings_whose_transcript_has_capitals_and_marks(tmp_path: Path) -> None:
    entries = [
        {"file": "a.flac", "transcript": "Come in, Mr. Smith."},
        {"file": "b.flac", "transcript": "COME IN, MR. SMITH."},
        {"file": "c.flac", "transcript": None},
    ]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, entries)))
    with benchmark("writing") as script:
        assert script.written(tmp_path, ["a.flac"]) == {tmp_path / "a.flac": ["Come", "in,", "Mr.", "Smith."]}
        for name in ("b.flac", "c.flac", "d.flac"):
            with pytest.raises(SystemExit, match=name):
                script.written(tmp_path, [name])


def test_errors_are_of_all_recordings() -> None:
    one, two = Path("one"), Path("two")
    truths = {one: ["Come", "in,", "please."], two: ["Yes."]}
    heard = {one: ["come", "in", "please."], two: ["Yes"]}
    with benchmark("writing") as script:
        found = script.errors(truths, heard)
        assert found == WritingErrors(compared=4, case=1, punctuation=2)
        assert script.row("tide", found, WritingErrors(4)) == "| tide | 4 | 1 | 2 | 75.0 | 0.0 |"


def test_a_recipe_with_changes() -> None:
    with benchmark("writing") as script:
        assert script.recipe_of("tide,framing=zeros,zeros_s=2").settings()["zeros_s"] == 2
