"""Who is told how far a measurement is."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Watch:
    """Is told how far it is; here a line on standard error for each cell."""

    def begin(self, label: str, total_s: float) -> None:
        """A new cell of so many seconds of audio."""
        self.say(f"{label}: {total_s:.0f} s of audio")

    def advance(self, done_s: float) -> None:
        """So many seconds more are done."""

    def skip(self, done_s: float) -> None:
        """So many seconds more were done in an earlier run: they say nothing of how fast this one is."""
        self.advance(done_s)

    def end(self) -> None:
        """The cell is done, or given up."""

    def say(self, message: str) -> None:
        """A line for the user."""
        sys.stderr.write(f"{message}\n")


@contextmanager
def showing(watch: Watch, label: str, total_s: float) -> Iterator[None]:
    """A cell of so many seconds of audio meanwhile; it ends if anything is raised, too."""
    watch.begin(label, total_s)
    try:
        yield
    finally:
        watch.end()
