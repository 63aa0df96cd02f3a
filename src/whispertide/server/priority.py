"""Threads that come after the others where a core is short."""

import contextlib
import os
import sys


def lower_priority(nice: int) -> None:
    """Of the thread that calls this. On Linux a thread has its own; elsewhere nothing is changed."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.nice(nice)
