"""A server that fails again and again is left alone; one question after a while decides whether it is asked again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.methods.pilot.circuit_breaker import CircuitBreaker


def test_single_failures_change_nothing() -> None:
    breaker = CircuitBreaker(most=2, clock=lambda: 0.0)
    for _ in range(5):
        assert breaker.asks()
        breaker.failed()
        assert breaker.asks()
        breaker.answered()
    assert not breaker.is_open


def test_of_many_that_wait_one_asks() -> None:
    now = 0.0
    breaker = CircuitBreaker(most=1, rest_s=5.0, clock=lambda: now)
    breaker.failed()
    assert breaker.is_open
    assert not breaker.asks()
    now = 5.0
    assert [breaker.asks() for _ in range(4)] == [True, False, False, False]
    breaker.answered()
    assert all(breaker.asks() for _ in range(4))


@given(st.lists(st.tuples(st.floats(0, 20), st.booleans()), max_size=60), st.integers(1, 4))
def test_no_rest_is_broken_and_none_is_for_ever(steps: list[tuple[float, bool]], most: int) -> None:
    now, failed, since = 0.0, 0, 0.0
    breaker = CircuitBreaker(most=most, rest_s=10.0, clock=lambda: now)
    for passed, good in steps:
        now += passed
        asked = breaker.asks()
        assert asked == (failed < most or now >= since + 10.0)
        if asked:
            (breaker.answered if good else breaker.failed)()
            failed, since = (0, since) if good else (failed + 1, now)
    assert not breaker.is_open or now < since + 10.0


def test_it_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    breaker = CircuitBreaker(most=2, clock=lambda: 0.0)
    for _ in range(6):
        breaker.failed()
    breaker.answered()
    assert [record.getMessage() for record in caplog.records] == [
        "the server failed 2 times in a row and gets no requests for 30 s",
        "the server answers again",
    ]


def test_a_question_that_was_taken_back_leaves_the_decision_to_the_next() -> None:
    now = 0.0
    breaker = CircuitBreaker(most=1, rest_s=10.0, clock=lambda: now)
    breaker.withdrawn()
    assert breaker.asks(), "nothing has failed yet"
    breaker.failed()
    now = 10.0
    assert [breaker.asks(), breaker.asks()] == [True, False]
    breaker.withdrawn()
    assert [breaker.asks(), breaker.asks()] == [True, False]
    breaker.failed()
    assert not breaker.asks()
