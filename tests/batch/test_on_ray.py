"""Ray actors: every transcript once and whole, while workers are killed all the time. `pip install '.[ray]'`."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wav_file import save_wav
from whispertide import api
from whispertide.batch.archive import Provenance, open_archive, report_path
from whispertide.batch.dispatch import transcribe_all
from whispertide.batch.inputs import find_recordings
from whispertide.batch.on_ray import RayWorkers
from whispertide.batch.plan import Task, plan
from whispertide.batch.worker import Setup
from whispertide.cli.main import app
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.types import SAMPLE_RATE

pytest.importorskip("ray", reason="needs the extra ray, which is no part of the development packages")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="SIGKILL")]

FILES = 500
WORKERS = 4
KILL_AFTER = 40  # transcripts; every few seconds on two cores


@pytest.fixture
def setup() -> Setup:
    weights = api.load("nano.en", threads=1).model.content_hash
    return Setup("nano.en", None, EngineOptions(threads=1), DecodeOptions(), "json", weights)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Recordings of silence, each of a length of its own."""
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        save_wav(tmp_path / f"in/{number:03d}.wav", np.zeros(length(number), np.float32))
    return tmp_path / "in"


def length(number: int) -> int:
    return SAMPLE_RATE // 2 + 16 * number


class Mortal(RayWorkers):
    """Knows the processes of its workers, the newest last."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup, wanted=WORKERS)
        self.processes: list[object] = []

    def start(self) -> object:
        actor = super().start()
        self.processes.append(actor.__ray_call__.remote(lambda _: os.getpid()))
        return actor

    def kill_one(self, number: int) -> None:
        """One of the `WORKERS` newest, which may be at something, or still loading."""
        alive = self.processes[-WORKERS:]
        victim = alive.pop(number % WORKERS)
        os.kill(self._ray.get(victim, timeout=60), signal.SIGKILL)
        self.processes = alive


@pytest.fixture
def workers(setup: Setup) -> Iterator[Mortal]:
    found = Mortal(setup)
    yield found
    found.stop()


def made(setup: Setup) -> Provenance:
    return Provenance("nano.en", setup.content_hash, "int8", "json", None, "transcribe", "")


def check(out: Path, tasks: list[Task]) -> None:
    """Every transcript is there, whole, that of its recording, and reported once."""
    files = [path for path in out.rglob("*") if path.is_file() and "_batch" not in path.parts]
    assert sorted(path.name for path in files) == [f"{number:03d}.json" for number in range(FILES)]
    for path in files:
        document = json.loads(path.read_text())
        assert document["source"] == f"{path.stem}.wav"
        assert document["duration"] == length(int(path.stem)) / SAMPLE_RATE
        assert document["complete"]
    entries = [json.loads(line) for line in report_path(out).read_text().splitlines()]
    assert sorted(entry["input"] for entry in entries) == sorted(task.input for task in tasks)
    assert {entry["state"] for entry in entries} == {"done"}


def test_five_hundred_recordings_while_workers_are_killed(
    folder: Path, tmp_path: Path, setup: Setup, workers: Mortal
) -> None:
    out, tasks, kills = tmp_path / "out", plan(find_recordings([str(folder)]), "json"), 0
    with open_archive(out, made(setup), tasks) as archive:
        for number, (task, outcome) in enumerate(transcribe_all(tasks, workers), start=1):
            archive.keep(task, outcome)
            if number % KILL_AFTER == 0 and number < FILES:
                workers.kill_one(number // KILL_AFTER)
                kills += 1
        assert archive.remaining(tasks) == []
    assert kills == (FILES - 1) // KILL_AFTER
    check(out, tasks)


def test_the_command_gives_the_same_text_as_transcribe(tmp_path: Path) -> None:
    clips = [str(Path(__file__).parents[1] / "clips" / f"{name}.flac") for name in ("quiet", "river")]
    out = str(tmp_path / "out")
    result = CliRunner().invoke(app, ["batch", *clips, "-o", out, "-m", "nano.en", "--engine", "ray", "-w", "2"])
    assert result.exit_code == 0, result.stderr
    whole = CliRunner().invoke(app, ["transcribe", *clips, "-m", "nano.en", "--threads", "1"])
    assert "".join((tmp_path / f"out/{name}.txt").read_text() for name in ("quiet", "river")) == whole.stdout
