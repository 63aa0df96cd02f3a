"""Give recordings to workers, and replace workers that die.

A worker that is gone is replaced, and its recording is tried again at the end, `TRIES` times in all: one that kills
its workers must not stop the others. What carries the workers (processes, Ray) is behind `Workers`.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from whispertide.batch.plan import Task
from whispertide.batch.worker import Died, Message, Outcome, Unfit
from whispertide.errors import GraphError

TRIES = 3

Handle = TypeVar("Handle", bound=Hashable)


class Workers(Protocol[Handle]):
    """A carrier of up to `count` workers. A handle stands for one of them until it has `Died`."""

    count: int

    def start(self) -> Handle:
        """Start a worker. It sends `Ready`, `Unfit` or `Died` when it can."""
        ...

    def give(self, worker: Handle, name: str) -> None:
        """Let a waiting worker transcribe a recording. It sends an `Outcome` or `Died`."""
        ...

    def wait(self) -> Sequence[tuple[Handle, Message]]:
        """Wait for messages."""
        ...

    def stop(self) -> None:
        """End all of them at once, whatever they do."""
        ...


@dataclass(slots=True)
class _State:
    """The state of a run.

    waiting   recordings without a worker
    at_work   workers, each with its recording; None while it loads its model
    idle      workers that wait because there is nothing to do, unless another dies
    deaths    of workers, by recording
    unborn    workers in a row that died before they were ready
    """

    waiting: deque[Task]
    at_work: dict[Hashable, Task | None] = field(default_factory=dict)
    idle: list[Hashable] = field(default_factory=list)
    deaths: Counter[str] = field(default_factory=Counter)
    unborn: int = 0


def transcribe_all(tasks: Sequence[Task], workers: Workers[Handle]) -> Iterator[tuple[Task, Outcome]]:
    """Yield every task with its outcome, as they come.

    Raises the error of a worker that cannot load its model, and `GraphError` where they die while they load it.
    """
    state, count = _State(deque(tasks)), workers.count
    left = len(tasks)
    while left:
        while state.waiting and len(state.at_work) + len(state.idle) < min(count, left):
            state.at_work[workers.start()] = None
        _give(state, workers)
        for worker, message in workers.wait():
            # None for a worker that has just loaded its model, and for one that was idle.
            task = state.at_work.pop(worker, None)
            if isinstance(message, Unfit):
                raise message.error
            if isinstance(message, Died):
                # One that dies while it has nothing to do has harmed no recording, nor failed to load.
                outcome = _handle_death(state, task, message, count) if worker not in state.idle else None
                state.idle = [other for other in state.idle if other != worker]
            else:
                state.unborn = 0
                state.idle.append(worker)
                outcome = message if isinstance(message, Outcome) else None
            if task is not None and outcome is not None:
                left -= 1
                yield task, outcome


def _give(state: _State, workers: Workers[Handle]) -> None:
    while state.waiting and state.idle:
        worker, task = state.idle.pop(), state.waiting.popleft()
        state.at_work[worker] = task
        workers.give(worker, task.input)  # type: ignore[arg-type]


def _handle_death(state: _State, task: Task | None, gone: Died, count: int) -> Outcome | None:
    """Handle a worker's death: its recording is tried again, or has failed for good."""
    if task is None:
        state.unborn += 1
        if state.unborn >= TRIES * count:
            raise GraphError(
                f"{state.unborn} workers in a row ended before they had loaded the model ({gone.reason}): is there "
                "enough memory for all of them? Try fewer --workers"
            )
        return None
    state.deaths[task.input] += 1
    if state.deaths[task.input] < TRIES:
        # At the end of the queue: one that kills its worker must not hold up the others.
        state.waiting.append(task)
        return None
    return Outcome("failed", reason=f"{TRIES} workers ended while they were at it ({gone.reason})")
