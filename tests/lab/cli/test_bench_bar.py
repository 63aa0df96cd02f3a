"""The bar of a measurement: how far it is, and how long the rest will take."""

from pathlib import Path
from typing import Any

import pytest

from whispertide_lab.cli.bench_options import measuring
from whispertide_lab.evaluation.grid import Setup


def test_what_an_earlier_run_did_says_nothing_of_the_time_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "100")):
        monkeypatch.setenv(name, value)
    now = 0.0
    with measuring(tmp_path, Setup()) as runner:
        bar: Any = runner.watch
        bar.begin("a cell", 4000)
        bar.progress.get_time = lambda: now
        for _ in range(30):  # read from the disk
            bar.skip(100)
            now += 1 / 64
        for _ in range(2):
            now += 5
            bar.advance(10)
        (task,) = bar.progress.tasks
        bar.end()
    assert task.completed == 3020
    assert task.time_remaining == 490  # 980 s of audio, 2 of them in a second
