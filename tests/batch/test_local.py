"""Processes of this machine, with the bundled model: what a killed one was at is done by another."""

import multiprocessing
from pathlib import Path, PurePosixPath

import pytest

from whispertide import api
from whispertide.batch.dispatch import transcribe_all
from whispertide.batch.local import LocalWorkers
from whispertide.batch.plan import Task
from whispertide.batch.worker import Died, Setup
from whispertide.options import DecodeOptions, EngineOptions

CLIPS = Path(__file__).parents[1] / "clips"


@pytest.fixture(scope="module")
def setup() -> Setup:
    weights = api.load("nano.en", threads=1).model.content_hash
    return Setup("nano.en", None, EngineOptions(threads=1), DecodeOptions(), "txt", weights)


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_its_recording_done(setup: Setup) -> None:
    tasks = [Task(str(CLIPS / f"{name}.flac"), PurePosixPath(f"{name}.txt")) for name in ("quiet", "river", "winter")]
    workers = LocalWorkers(setup)
    ended: list[Died] = []

    class Killing:
        """Kills the process that gets the first recording, in place of giving it to it."""

        count, start, stop = 1, workers.start, workers.stop

        def give(self, worker: multiprocessing.process.BaseProcess, name: str) -> None:
            if not ended:
                worker.kill()
                ended.append(Died(""))
            workers.give(worker, name)

        def wait(self):  # type: ignore[no-untyped-def]
            said = workers.wait()
            ended.extend(one for _, one in said if isinstance(one, Died))
            return said

    try:
        outcomes = dict(transcribe_all(tasks, Killing()))
    finally:
        workers.stop()
    assert [outcomes[task].state for task in tasks] == ["done"] * 3
    assert ended[1:] == [Died("killed by SIGKILL")]
    assert multiprocessing.active_children() == []
