"""Energy where the machine tells, none where it does not."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from whispertide_lab.evaluation import energy
from whispertide_lab.evaluation.energy import Meter, read_joules


def package(root: Path, number: int, micro: int, name: str = "package-0") -> None:
    folder = root / f"intel-rapl:{number}"
    folder.mkdir(exist_ok=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "energy_uj").write_text(f"{micro}\n")
    (folder / "max_energy_range_uj").write_text("10000000\n")


def test_joules_of_all_packages_are_added(tmp_path: Path) -> None:
    package(tmp_path, 0, 1_000_000)
    package(tmp_path, 1, 5_000_000, "package-1")
    package(tmp_path, 2, 0, "psys")
    meter = Meter(tmp_path)
    package(tmp_path, 0, 1_500_000)
    package(tmp_path, 1, 6_000_000, "package-1")
    package(tmp_path, 2, 9_000_000, "psys")
    assert meter.read().energy_j == 1.5


def test_a_counter_may_go_round(tmp_path: Path) -> None:
    package(tmp_path, 0, 9_000_000)
    meter = Meter(tmp_path)
    package(tmp_path, 0, 500_000)
    assert meter.read().energy_j == 1.5


def test_no_energy_where_it_cannot_be_read(tmp_path: Path) -> None:
    assert Meter(tmp_path / "nothing").read().energy_j is None
    package(tmp_path, 0, 1)
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("")
    assert read_joules(tmp_path) == {}
    assert Meter(tmp_path).read().energy_j is None


def test_cpu_seconds_do_not_count_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, cpu = iter((10.0, 10.5)), iter((3.0, 3.125))
    clocks = SimpleNamespace(perf_counter=lambda: next(wall), process_time=lambda: next(cpu))
    monkeypatch.setattr("whispertide_lab.evaluation.energy.time", clocks)
    usage = Meter().read()
    assert (usage.cpu_s, usage.wall_s) == (0.125, 0.5)
    assert usage.peak_mb > 10


@pytest.mark.slow
def test_memory_that_is_held_now_is_at_most_the_peak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = energy.resident_mb()
    held = np.ones(8 << 20)  # 64 MiB
    assert before + 32 < energy.resident_mb() <= energy.peak_mb() + 1
    del held
    monkeypatch.setattr(energy, "_PROCESS", tmp_path)  # a system that does not tell
    assert energy.resident_mb() == energy.peak_mb() > 0
