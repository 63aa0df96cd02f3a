"""The score is counted from mutmut's results; mutmut itself is not run."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from benchmark_scripts import benchmark

CODES = {"a": 1, "b": 1, "c": 0, "d": 33, "e": -24, "f": None, "g": None}


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with benchmark("mutants") as module:
        yield module


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for name, codes in (("rules", CODES), ("more", {"h": 1}), ("empty", {})):
        path = tmp_path / "src" / f"{name}.py.meta"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"exit_code_by_key": codes}))
    return tmp_path


def printed(script: ModuleType, results: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["mutants.py", "--results", str(results), *arguments])
        script.main()
    return capsys.readouterr().out.splitlines()


def test_faults_that_no_test_reaches_are_missed_and_tests_that_never_end_have_noticed(
    script: ModuleType, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, more, rules, total, line = printed(script, results, capsys)
    assert rules.split()[:7] == ["src/rules.py", "7", "5", "3", "1", "2", "60.0%"]
    assert more.split() == ["src/more.py", "1", "1", "1", "0", "0", "100.0%"]
    assert total.split()[:7] == ["all", "8", "6", "4", "1", "2", "66.7%"]
    assert json.loads(line) == {"caught": 3, "never ends": 1, "missed": 1, "no test": 1, "untried": 2}
    assert len(printed(script, results, capsys, "src/m*")) == 4


def test_the_interval_is_wilsons(script: ModuleType) -> None:
    assert script.interval(90, 100) == pytest.approx((0.8256, 0.9448), abs=1e-4)
    assert script.interval(10, 10)[1] == 1.0


def test_names_can_be_had(script: ModuleType, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(script, results, capsys, "--names", "missed") == ["c", "d"]
    assert sorted(printed(script, results, capsys, "--sample", "9")) == ["f", "g"]
    assert printed(script, results, capsys, "--sample", "1", "--seed", "3") == printed(
        script, results, capsys, "--sample", "1", "--seed", "3"
    )


def test_without_results_it_says_what_to_do(script: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="run `make mutants`"):
        script.read(tmp_path)
