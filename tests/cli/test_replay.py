"""`whispertide replay` as a command."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import Run
from oracle import make_gate
from served import SECONDS, TEXT, WORDS, KnowingModel
from wav_file import save_wav
from whispertide import api
from whispertide.events import Confirmed, to_dict
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.protocols.base import Settings, as_plain
from whispertide.streaming.schedule import Rounds


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording of everything, as the server writes it."""
    monkeypatch.setattr(api, "load", lambda *_, **__: KnowingModel())
    monkeypatch.setattr(Rounds, "gate", lambda schedule: make_gate(WORDS))
    folder = tmp_path / "20260101-000000-abc"
    folder.mkdir()
    save_wav(folder / "audio.wav", np.zeros(round(SECONDS * 16_000), np.float32))
    about: dict[str, Any] = {
        "model": "nano.en",
        "content_hash": "0123",
        "settings": as_plain(Settings()),
        "recipe": {"name": "whisper-streaming", **get_recipe("whisper-streaming").settings()},
    }
    steps = [
        {"boundaries": [24_000, 48_000], "loads": [0, 0]},
        {"command": "finish", "at": round(SECONDS * 16_000)},
    ]
    (folder / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    (folder / "session.json").write_text(json.dumps(about, default=dict))
    (folder / "events.jsonl").write_text(json.dumps(to_dict(Confirmed(0, 0, WORDS))) + "\n")
    return folder


def heard(text: str) -> list[str]:
    return [word.strip(",.!").lower() for word in text.split()]


def test_a_recording_is_run_again(run: Run, folder: Path) -> None:
    result = run("replay", folder)
    assert result.exit_code == 0, result.output
    assert heard(result.stdout) == TEXT
    assert "11.0 s" in result.stderr
    assert "warning" not in result.stderr


def test_a_model_that_has_changed_since_is_told(run: Run, folder: Path) -> None:
    about = json.loads((folder / "session.json").read_text())
    (folder / "session.json").write_text(json.dumps({**about, "content_hash": "4567"}))
    result = run("replay", folder)
    assert result.exit_code == 0, result.output
    assert "nano.en has changed since 20260101-000000-abc was recorded" in result.stderr
    assert "warning" not in run("replay", folder, "--model", "nano.en").stderr


def test_with_another_recipe(run: Run, folder: Path) -> None:
    result = run("replay", folder.parent, "--set", "step_s=3", "--model", "other")
    assert result.exit_code == 0, result.output
    assert heard(result.stdout) == TEXT


@pytest.mark.parametrize(("broken", "code"), [("session.json", 1), ("audio.wav", 3)])
def test_a_damaged_recording_does_not_cost_the_others(run: Run, folder: Path, broken: str, code: int) -> None:
    damaged = folder.parent / "20251231-000000-abc"
    shutil.copytree(folder, damaged)
    (damaged / broken).write_text("no such file")
    result = run("replay", folder.parent)
    assert (result.exit_code, heard(result.stdout)) == (code, TEXT)
    assert damaged.name in result.stderr


def test_what_is_no_recording(run: Run, tmp_path: Path) -> None:
    result = run("replay", tmp_path)
    assert result.exit_code == 2
    assert "expected a recording" in result.stderr
