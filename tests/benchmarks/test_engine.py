"""What `make bench` measures, on the bundled model: both engines, every figure."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmark_scripts import benchmark
from whispertide.checkpoint.names import BUNDLED_DIR


@pytest.mark.parametrize("kind", ["Ours", "Peer"])
def test_features_are_made_before_the_time_that_counts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    with benchmark("engine") as script:
        engine = object.__new__(getattr(script, kind))
        engine.model = SimpleNamespace(encode=lambda features: done.append(f"encoded {features}"))
        engine._view = lambda seconds: script.mel(seconds)

        def mel(seconds: int) -> str:
            done.append("made")
            return f"{seconds} s"

        def timed(call: Callable[[], object], calls: int) -> float:
            done.append("timed")
            call()
            return 1.0

        monkeypatch.setattr(script, "mel", mel)
        monkeypatch.setattr(script, "timed", timed)
        assert engine.encode(5, 1) == 1.0
    assert done == ["made", "timed", "encoded 5 s"]


@pytest.mark.soak  # three processes, 13 s; `make bench` itself shows it, too
def test_both_engines_are_measured(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "nano"
    shutil.copytree(BUNDLED_DIR / "nano.en", folder)
    with benchmark("engine") as script:
        figures = script.compare(folder, threads=1, rounds=1, calls=1)
    rows = {row.split("  ")[0] for row in capfd.readouterr().out.splitlines()}
    assert rows >= {"1 thread(s)", "ours", "peer", *(["peer CT2_FORCE_CPU_ISA=AVX512"] if script.has_avx512() else [])}
    assert figures.keys() == set(script.MEASURES)
    assert all(ratio > 0 for ratio in figures.values())
