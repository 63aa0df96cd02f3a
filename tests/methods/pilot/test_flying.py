"""Computations on a thread of their own."""

import threading
from concurrent.futures import CancelledError

import pytest

from whispertide.methods.pilot.flying import CancellableTask, Check


def test_the_result_is_what_was_computed() -> None:
    goes_on = threading.Event()
    flying = CancellableTask(lambda check: goes_on.wait() and 7)
    assert not flying.done
    goes_on.set()
    assert flying.result() == 7
    assert flying.done


def test_an_error_is_that_of_who_asks() -> None:
    def fails(check: Check) -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        CancellableTask(fails).result()


def test_what_is_given_up_ends_at_its_next_check() -> None:
    began, goes_on, steps = threading.Event(), threading.Event(), []

    def compute(check: Check) -> None:
        for step in range(3):
            check()
            steps.append(step)
            began.set()
            goes_on.wait()

    flying = CancellableTask(compute)
    began.wait()
    flying.give_up()
    goes_on.set()
    with pytest.raises(CancelledError):
        flying.result()
    assert steps == [0]
