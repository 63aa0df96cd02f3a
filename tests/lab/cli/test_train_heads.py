import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from reference import NANO
from whispertide.cli.exit import ExitCode
from whispertide.cli.main import app
from whispertide_lab.training import heads as choosing
from whispertide_lab.training.heads import Choice, Timing


def timed(score: float) -> Timing:
    return Timing(score, score, 2 * score, 100)


@dataclass
class Chosen:
    """What the choice will be."""

    before: float = 100.0
    after: float = 50.0
    loaded: list[str] = field(default_factory=list)


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Chosen:
    outcome = Chosen()

    def choose(model: object, windows: object) -> Choice:
        single = {(0, 0): timed(300), (1, 1): timed(60)}
        return Choice(((1, 1),), single, ((0, 0),), timed(outcome.before), timed(outcome.after))

    def load(name: str, announce: object) -> None:
        outcome.loaded.append(name)

    monkeypatch.setattr(choosing, "timed_windows", lambda: [])
    monkeypatch.setattr(choosing, "load_for_heads", load)
    monkeypatch.setattr(choosing, "choose_heads", choose)
    return outcome


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("config.json", "generation_config.json"):
        shutil.copy(NANO / name, tmp_path)
    return tmp_path


def heads_of(folder: Path) -> list[list[int]]:
    found: list[list[int]] = json.loads((folder / "generation_config.json").read_text())["alignment_heads"]
    return found


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["train", "heads", *map(str, arguments)])


def test_the_chosen_heads_are_written_and_told(folder: Path, chosen: Chosen) -> None:
    result = run(folder)
    assert result.exit_code == ExitCode.OK, result.output
    assert heads_of(folder) == [[1, 1]]
    assert chosen.loaded == [str(folder)]
    table = result.output.splitlines()
    assert table[1].split() == ["1", "1", "60", "60", "120", "chosen"]
    assert "used so far: 0.0: score 100 ms" in result.output
    assert "chosen: 1.1: score 50 ms" in result.output


@pytest.mark.usefixtures("chosen")
def test_looking_changes_nothing(folder: Path) -> None:
    before = heads_of(folder)
    assert run(folder, "--dry-run").exit_code == ExitCode.OK
    assert heads_of(folder) == before


def test_worse_heads_are_not_written(folder: Path, chosen: Chosen) -> None:
    before = heads_of(folder)
    chosen.after = 101.0
    result = run(folder)
    assert result.exit_code == ExitCode.OK
    assert "nothing was written" in result.output
    assert heads_of(folder) == before


@pytest.mark.usefixtures("chosen")
def test_no_such_model(tmp_path: Path) -> None:
    assert run(tmp_path / "missing").exit_code == ExitCode.MODEL
