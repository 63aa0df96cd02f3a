"""Workers as processes of this machine. Each has a pipe of its own; one whose pipe closes is gone."""

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from whispertide.batch.worker import Died, Message, Setup, Worker
from whispertide.dependent import depend_on_parent
from whispertide.model.providers import physical_cores

# Libraries below numpy take a thread for each core unless these say otherwise, and read them when they are loaded.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class LocalWorkers:
    """Implements `dispatch.Workers`; a handle is a process. `wanted` of them, or one for each core."""

    def __init__(self, setup: Setup, wanted: int | None = None) -> None:
        # No more threads in all than there are cores: they would only be in each other's way.
        self.count = wanted or max(1, physical_cores() // setup.engine.threads)
        self._setup = setup
        self._pipes: dict[BaseProcess, Connection] = {}
        # A process of its own, and no copy of this one: threads and open files would be copied half.
        self._context = multiprocessing.get_context("spawn")

    def start(self) -> BaseProcess:
        """Start a process; see `Workers`."""
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(self._setup, theirs), daemon=True)
        with _environment({name: str(self._setup.engine.threads) for name in _THREADS}):
            process.start()
        # While this process holds that end, too, the pipe would not close when the other one dies.
        theirs.close()
        self._pipes[process] = ours
        return process

    def give(self, worker: BaseProcess, name: str) -> None:
        """Send it the name; a process that has died since is found by `wait`."""
        with suppress(OSError):
            self._pipes[worker].send(name)

    def wait(self) -> Sequence[tuple[BaseProcess, Message]]:
        """Wait for messages, and return them with their workers."""
        # By our own list, because the pipes that `wait` gives are of another class on Windows.
        readable = wait(list(self._pipes.values()))
        return [(process, self._receive(process, pipe)) for process, pipe in [*self._pipes.items()] if pipe in readable]

    def _receive(self, process: BaseProcess, pipe: Connection) -> Message:
        try:
            message: Message = pipe.recv()
        except (EOFError, OSError):
            pipe.close()
            del self._pipes[process]
            # Else the exit code is not known yet, although the pipe has closed.
            process.join()
            return Died(_how(process.exitcode))
        return message

    def stop(self) -> None:
        """Kill all; they hold nothing that could be lost."""
        for process in self._pipes:
            process.kill()
        for process, pipe in self._pipes.items():
            process.join()
            pipe.close()
        self._pipes.clear()


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _work(setup: Setup, pipe: Connection) -> None:
    """The loop of a process: answer until no more requests come."""
    depend_on_parent()
    worker = Worker(setup)
    pipe.send(worker.load())
    while True:
        try:
            name = pipe.recv()
        except EOFError:
            return
        pipe.send(worker.transcribe(name))
