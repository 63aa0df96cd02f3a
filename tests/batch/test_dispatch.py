"""Who gets what, with workers that are numbers and die as Hypothesis says."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.batch.dispatch import TRIES, transcribe_all
from whispertide.batch.plan import Task
from whispertide.batch.worker import Died, Message, Outcome, Ready, Unfit
from whispertide.errors import CheckpointError, GraphError

GONE = Died("killed by SIGKILL")


class Scripted:
    """Workers that say something one at a time: `turns` has who of those that could, and whether that one dies."""

    def __init__(self, count: int, turns: Sequence[tuple[int, bool]] = ()) -> None:
        self.count = count
        self.turns = list(turns)
        self.busy: dict[int, str | None] = {}
        self.alive: set[int] = set()
        self.most = 0
        self.started = 0
        self.given: Counter[str] = Counter()
        self.killed: Counter[str] = Counter()

    def start(self) -> int:
        self.started += 1
        self.alive.add(self.started)
        self.most = max(self.most, len(self.alive))
        self.busy[self.started] = None
        return self.started

    def give(self, worker: int, name: str) -> None:
        assert worker in self.alive
        assert worker not in self.busy
        self.busy[worker] = name
        self.given[name] += 1

    def wait(self) -> Sequence[tuple[int, Message]]:
        assert self.busy, "nobody would ever say anything"
        which, dies = self.turns.pop() if self.turns else (0, False)
        worker = sorted(self.busy)[which % len(self.busy)]
        name = self.busy.pop(worker)
        if dies:
            self.alive.discard(worker)
            if name is not None:
                self.killed[name] += 1
            return [(worker, GONE)]
        return [(worker, Ready() if name is None else Outcome("done", name))]

    def stop(self) -> None:
        self.alive.clear()


def tasks(count: int) -> list[Task]:
    return [Task(str(number), PurePosixPath(f"{number}.txt")) for number in range(count)]


@given(
    count=st.integers(0, 12),
    workers=st.integers(1, 5),
    turns=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60),
)
def test_every_recording_has_one_outcome_whoever_dies(count: int, workers: int, turns: list[tuple[int, bool]]) -> None:
    floor = Scripted(workers, turns)
    try:
        outcomes = [(task.input, outcome) for task, outcome in transcribe_all(tasks(count), floor)]
    except GraphError as error:
        assert "before they had loaded" in str(error)  # noqa: PT017
        return
    assert sorted(name for name, _ in outcomes) == sorted(task.input for task in tasks(count))
    for name, outcome in outcomes:
        if floor.killed[name] < TRIES:
            assert outcome == Outcome("done", name)
        else:
            assert (outcome.state, floor.given[name]) == ("failed", TRIES)
            assert GONE.reason in outcome.reason
    assert floor.most <= min(workers, count)


def test_no_more_workers_than_recordings() -> None:
    floor = Scripted(8)
    assert len(list(transcribe_all(tasks(2), floor))) == 2
    assert floor.started == 2


def test_workers_that_all_die_while_they_load_end_the_run() -> None:
    with pytest.raises(GraphError, match=r"6 workers in a row .*killed by SIGKILL.*fewer --workers"):
        list(transcribe_all(tasks(3), Scripted(2, [(0, True)] * 99)))


def test_a_worker_that_cannot_load_the_model_ends_the_run() -> None:
    class Unable(Scripted):
        def wait(self) -> Sequence[tuple[int, Message]]:
            return [(1, Unfit(CheckpointError("other weights")))]

    with pytest.raises(CheckpointError, match="other weights"):
        list(transcribe_all(tasks(3), Unable(2)))


def test_a_worker_that_dies_while_it_waits_costs_no_recording_a_try() -> None:
    class Idle(Scripted):
        def wait(self) -> Sequence[tuple[int, Message]]:
            said = super().wait()
            idle = sorted(self.alive - set(self.busy) - {worker for worker, _ in said})
            self.alive -= set(idle)
            return [*said, *((worker, GONE) for worker in idle)]

    floor = Idle(3, [(0, False)] * 50)
    outcomes = list(transcribe_all(tasks(5), floor))
    assert [outcome.state for _, outcome in outcomes] == ["done"] * 5
    assert max(floor.given.values()) == 1
