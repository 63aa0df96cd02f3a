"""Processes that depend on another: they do not outlive it, and leave Ctrl-C to it."""

import multiprocessing
import os
import signal
import threading


def depend_on_parent() -> None:
    """Depend on the parent. To be called first in a process that `multiprocessing` started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A parent that is killed ends no child; this one would compute on, for nobody.
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
