"""Threads that run rounds, for the tests."""

import threading
import time

LONG = 120.0  # seconds that a test waits for another thread before it fails


def workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "round"]


def no_workers_are_left() -> bool:
    deadline = time.monotonic() + LONG
    while workers() and time.monotonic() < deadline:
        time.sleep(0.001)
    return not workers()
