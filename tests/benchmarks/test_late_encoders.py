"""What `benchmarks/late_encoders.py` says of networks, which it tells apart by their names."""

from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark_scripts import benchmark
from small_late import small_late
from whispertide_lab.training.latecontext.accuracy import Answer

pytestmark = pytest.mark.slow


def test_the_table_compares_with_the_first_network() -> None:
    conformer = replace(
        small_late(), dims=replace(small_late().dims, kind="conformer"), report={"parameters": 1_500_000, "updates": 9}
    )
    with benchmark("late_encoders") as script:
        found = {"a": [Answer(1, 4, True), Answer(0, 4, True)], "b": [Answer(2, 4, True), Answer(1, 4, False)]}
        told = script.scores(found, ["ann", "bob"])
        rows = script.table(told, {"a": small_late(), "b": conformer}).rows
    assert told["a"]["wer"] == 1 / 8
    assert rows[0] == ("a", "late", "0.00", "0", "12.50", "–", "100.0")
    assert rows[1] == ("b", "conformer", "1.50", "9", "37.50", "+25.00 to +25.00", "50.0")


def test_commands_of_one_speaker_are_drawn_together() -> None:
    """One alone is drawn every time."""
    with benchmark("late_encoders") as script:
        found = {"a": [Answer(1, 4, True), Answer(0, 4, True)], "b": [Answer(2, 4, True), Answer(4, 4, False)]}
        apart, together = (script.scores(found, speakers)["b"] for speakers in (["ann", "bob"], ["ann", "ann"]))
    assert apart["low"] < apart["high"]
    assert together["low"] == together["high"] == 5 / 8


def test_folders_of_the_same_name_are_refused() -> None:
    with benchmark("late_encoders") as script:
        folders = [Path("b/late"), Path("a/conformer")]
        assert list(script.by_name(folders, ArgumentParser())) == ["late", "conformer"]
        assert script.by_name(folders, ArgumentParser())["conformer"] == Path("a/conformer")
        with pytest.raises(SystemExit):
            script.by_name([*folders, Path("c/late")], ArgumentParser())
