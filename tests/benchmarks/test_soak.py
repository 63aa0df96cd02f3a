"""The soak in seconds: its minutes are short, everything else is real."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmark_scripts import benchmark
from whispertide.types import SAMPLE_RATE


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    with benchmark("soak") as module:
        monkeypatch.setattr(module, "MINUTE", 6 * SAMPLE_RATE)
        monkeypatch.setattr(module, "cache_dir", lambda: tmp_path)
        yield module


def soak(script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: str) -> Any:
    monkeypatch.setattr(sys, "argv", ["soak", "--hours", str(4 / 60), *more])
    script.main()
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_default_recipe_is_soaked_unless_another_is_named(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = soak(script, monkeypatch, capsys)
    assert report["recipe"] == "tide"
    assert report["words"] > 0
    assert all(0 < lag < 10 for lag in report["lag_s"])
    assert all(memory > 0 for memory in report["largest_mb"])
    short = ("--recipe", "simulstreaming", "--hours", str(1 / 60))
    assert soak(script, monkeypatch, capsys, *short)["recipe"] == "simulstreaming"


def test_what_was_interrupted_goes_on(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played: list[int] = []
    make = script.audio_minute

    def audio(minute: int, clips: Any) -> Any:
        if minute == 2 and played.count(2) == 0:
            played.append(2)
            raise KeyboardInterrupt
        played.append(minute)
        return make(minute, clips)

    monkeypatch.setattr(script, "audio_minute", audio)
    with pytest.raises(KeyboardInterrupt):
        soak(script, monkeypatch, capsys)
    assert soak(script, monkeypatch, capsys)["hours"] == pytest.approx(4 / 60)
    assert played == [0, 1, 2, 2, 3]


def test_the_quarters_of_a_run(script: ModuleType) -> None:
    assert script.quarters({minute: float(minute) for minute in range(8)}) == (1.0, 7.0)
    assert script.quarters({5: 3.0, 2: 4.0}) == (4.0, 3.0)
    assert script.quarters({}) == (0.0, 0.0)
