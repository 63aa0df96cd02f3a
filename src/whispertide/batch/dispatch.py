"""Give recordings to workers, and replace workers that die.

A worker that is gone is replaced, and its recording is tried again at the end, `TRIES` times in all: one that brings
down whoever touches it must not stop the others. What carries the workers (processes, Ray) is behind `Workers`.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from whispertide.batch.plan import Task
from whispertide.batch.worker import Gone, Outcome, Said, Unfit
from whispertide.errors import GraphError

TRIES = 3

Handle = TypeVar("Handle", bound=Hashable)


class Workers(Protocol[Handle]):
    """Whatever carries workers, up to `count`. A handle stands for one of them until that is `Gone`."""

    count: int

    def start(self) -> Handle:
        """Start one. It says `Ready`, `Unfit` or `Gone` when it can."""
        ...

    def give(self, worker: Handle, name: str) -> None:
        """Have a worker that waits transcribe a recording. It says an `Outcome` or `Gone`."""
        ...

    def wait(self) -> Sequence[tuple[Handle, Said]]:
        """Wait until somebody has said something."""
        ...

    def stop(self) -> None:
        """End all of them at once, whatever they are at."""
        ...


@dataclass(slots=True)
class _Floor:
    """The state of a run.

    waiting   recordings that nobody has
    at_work   workers, each with its recording; None while it loads its model
    idle      workers that wait because there is nothing to do, as long as nobody dies
    deaths    of workers, by recording
    unborn    workers in a row that died before they were ready
    """

    waiting: deque[Task]
    at_work: dict[Hashable, Task | None] = field(default_factory=dict)
    idle: list[Hashable] = field(default_factory=list)
    deaths: Counter[str] = field(default_factory=Counter)
    unborn: int = 0


def transcribe_all(tasks: Sequence[Task], workers: Workers[Handle]) -> Iterator[tuple[Task, Outcome]]:
    """Every task with its outcome, as they come.

    Raises the error of a worker that cannot load its model, and `GraphError` where they die while they load it.
    """
    floor, count = _Floor(deque(tasks)), workers.count
    left = len(tasks)
    while left:
        while floor.waiting and len(floor.at_work) + len(floor.idle) < min(count, left):
            floor.at_work[workers.start()] = None
        _give(floor, workers)
        for worker, said in workers.wait():
            task = floor.at_work.pop(worker, None)
            if isinstance(said, Unfit):
                raise said.error
            if isinstance(said, Gone):
                # One that dies while it has nothing to do has harmed no recording, nor failed to load.
                outcome = _died(floor, task, said, count) if worker not in floor.idle else None
                floor.idle = [other for other in floor.idle if other != worker]
            else:
                floor.unborn = 0
                floor.idle.append(worker)
                outcome = said if isinstance(said, Outcome) else None
            if task is not None and outcome is not None:
                left -= 1
                yield task, outcome


def _give(floor: _Floor, workers: Workers[Handle]) -> None:
    while floor.waiting and floor.idle:
        worker, task = floor.idle.pop(), floor.waiting.popleft()
        floor.at_work[worker] = task
        workers.give(worker, task.input)  # type: ignore[arg-type]


def _died(floor: _Floor, task: Task | None, gone: Gone, count: int) -> Outcome | None:
    """A worker died: its recording is tried again, or has failed for good."""
    if task is None:
        floor.unborn += 1
        if floor.unborn >= TRIES * count:
            raise GraphError(
                f"{floor.unborn} workers in a row ended before they had loaded the model ({gone.reason}): is there "
                "enough memory for all of them? Try fewer --workers"
            )
        return None
    floor.deaths[task.input] += 1
    if floor.deaths[task.input] < TRIES:
        floor.waiting.append(task)
        return None
    return Outcome("failed", reason=f"{TRIES} workers ended while they were at it ({gone.reason})")
