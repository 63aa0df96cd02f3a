"""Tokens by hand: saved up to a limit, taken on credit, paid back in time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.server.bucket import Bucket


def test_what_was_saved_may_come_at_once() -> None:
    bucket = Bucket(rate=10, most=20)
    assert [bucket.take(5, now=1000.0) for _ in range(5)] == [True, True, True, True, False]
    assert bucket.debt_s(1000.0) == 0.5
    assert bucket.debt_s(1000.25) == 0.25
    assert bucket.debt_s(1000.5) == 0
    assert not bucket.take(1, 1000.5)
    assert bucket.take(20, 1010.0)
    assert not bucket.take(1, 1010.0)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 50)), max_size=40), st.floats(0.5, 100), st.floats(1, 100))
def test_no_more_than_the_rate_on_average(taken: list[tuple[float, float]], rate: float, most: float) -> None:
    """Whoever waits for the debt each time has taken no more than the rate allows, and what was saved up."""
    bucket, now, total = Bucket(rate, most), 50.0, 0.0
    for pause, tokens in taken:
        now += pause
        bucket.take(tokens, now)
        total += tokens
        now += bucket.debt_s(now)
        assert total <= (now - 50.0) * rate + most + 1e-6 * (1 + total)
    assert bucket.debt_s(now) == pytest.approx(0, abs=1e-9)
