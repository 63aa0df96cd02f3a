"""Speech made by processes of their own, a few at a time.

What a synthesizer's library keeps from one sentence to the next reaches nothing else there, its memory goes with it,
and one that crashes takes nothing along.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from whispertide.errors import CorpusError

Make = Callable[[], None]

WORKERS = 2  # more would take the machine from its owner
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # in each, since some run at once

_running: set["subprocess.Popen[bytes]"] = set()  # of this program, so that an interrupt can end them


@dataclass(frozen=True, slots=True)
class Apart:
    """`python -m module arguments`; called, it runs and is waited for. `what` is made, as errors call it."""

    module: str
    what: str
    arguments: tuple[str, ...]

    def command(self) -> list[str]:
        """The program."""
        return [sys.executable, "-m", self.module, *self.arguments]

    def __call__(self) -> None:
        """Raises `CorpusError`, with the last that the process said, where it fails."""
        with subprocess.Popen(
            self.command(),
            env=os.environ | _ONE_THREAD,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            _running.add(process)
            try:
                said = process.communicate()[1]
            finally:
                _running.discard(process)
        if process.returncode != 0:
            # espeak-ng warns in bytes of its own; what it says there must not stop what it speaks.
            why = said.decode(errors="replace").strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
            raise CorpusError(f"{self.what} could not be made: {why[0]}")


def make_all(makers: Iterable[Make], jobs: int, progress: Callable[[int, int], None]) -> None:
    """Call the makers, equal ones once, `jobs` at a time; `progress` is told how many are done, and of how many.

    Raises what one of them raises. However it ends, none of them runs any more.
    """
    wanted = list(dict.fromkeys(makers))
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        begun: list[Future[None]] = []
        try:
            for make in wanted:
                begun.append(pool.submit(make))  # noqa: PERF401  an interrupt between two must know the first
            for done, made in enumerate(as_completed(begun), 1):
                made.result()
                progress(done, len(wanted))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # Again and again: one may be about to start, and one that was being submitted is in no list.
            while _running or not all(made.done() for made in begun):
                for process in tuple(_running):
                    process.terminate()
                time.sleep(0.05)
            raise
