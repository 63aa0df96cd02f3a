"""A progress bar that tells how far it came."""

from whispertide_lab.evaluation.watch import Watch


class CountingWatch(Watch):
    """Seconds of audio, of the newest cell; those of an earlier run are `skipped`."""

    total = done = skipped = 0.0

    def begin(self, label: str, total_s: float) -> None:
        """A new cell."""
        self.total, self.done, self.skipped = total_s, 0.0, 0.0

    def advance(self, done_s: float) -> None:
        """So much more is done."""
        self.done += done_s

    def skip(self, done_s: float) -> None:
        """So much more was done before."""
        self.skipped += done_s

    def say(self, message: str) -> None:
        """Nobody listens."""
