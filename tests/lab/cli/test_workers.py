"""Signals while other processes work."""

import os
import signal

import pytest

from whispertide_lab.cli.workers import interrupts_of_workers

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


def ended_together() -> None:
    signal.raise_signal(signal.SIGTERM)
    raise RuntimeError("a worker was killed by signal: Terminated")


def test_workers_that_end_by_the_same_signal_are_no_failure() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_of_workers():
        ended_together()


def test_workers_that_end_by_themselves_are_a_failure() -> None:
    with pytest.raises(RuntimeError, match="killed"), interrupts_of_workers():
        raise RuntimeError("a worker was killed by signal: Killed")
