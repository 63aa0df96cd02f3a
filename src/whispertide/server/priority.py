"""Lower the priority of threads, so that others come first if cores are short."""

import contextlib
import os
import sys


def lower_priority(nice: int) -> None:
    """Lower the priority of the calling thread. On Linux a thread has its own; elsewhere nothing is changed."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.nice(nice)
