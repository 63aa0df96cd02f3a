"""Ctrl-C and SIGTERM while other processes work along."""

from collections.abc import Iterator
from contextlib import contextmanager

from whispertide.cli.interrupt import Interrupts


@contextmanager
def interrupts_of_workers() -> Iterator[Interrupts]:
    """Make `Interrupts` for work that other processes share. A SIGTERM for all of them ends those too; the error that
    this is here becomes `KeyboardInterrupt`.
    """
    with Interrupts() as interrupts:
        try:
            yield interrupts
        except RuntimeError as error:  # as torch raises it, whatever runs at that moment
            if interrupts.pressed:
                raise KeyboardInterrupt from error
            raise
