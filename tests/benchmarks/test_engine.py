"""What `make bench` measures, on the bundled model: both engines, every figure."""

import shutil
from pathlib import Path

import pytest

from benchmark_scripts import benchmark
from whispertide.checkpoint.names import BUNDLED_DIR


@pytest.mark.slow
def test_both_engines_are_measured(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "nano"
    shutil.copytree(BUNDLED_DIR / "nano.en", folder)
    with benchmark("engine") as script:
        figures = script.compare(folder, threads=1, rounds=1, calls=1)
    rows = {row.split("  ")[0] for row in capfd.readouterr().out.splitlines()}
    assert rows >= {"1 thread(s)", "ours", "peer", "peer CT2_FORCE_CPU_ISA=AVX512"}
    assert figures.keys() == set(script.MEASURES)
    assert all(ratio > 0 for ratio in figures.values())
