import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.methods.attention.delay import LATEST_S, MEASURED, SOONEST_S, patience

delays = st.floats(SOONEST_S, LATEST_S)


def test_what_was_measured_is_what_it_was() -> None:
    for delay, measured in MEASURED:
        found = patience(delay)
        assert found.max_revision_rate == pytest.approx(measured.max_revision_rate)
        assert found.settle_s == pytest.approx(measured.settle_s)
        assert found.step_s == pytest.approx(measured.step_s)
    assert [delay for delay, _ in MEASURED] == sorted(delay for delay, _ in MEASURED)


@given(delays, delays)
def test_who_may_be_later_is_more_patient(one: float, other: float) -> None:
    soon, late = (patience(delay) for delay in sorted((one, other)))
    assert soon.max_revision_rate >= late.max_revision_rate * (1 - 1e-9)
    assert soon.settle_s <= late.settle_s + 1e-9
    assert soon.step_s <= late.step_s + 1e-9


def test_beyond_what_was_measured_the_nearest_counts() -> None:
    assert patience(SOONEST_S).max_revision_rate == pytest.approx(MEASURED[0][1].max_revision_rate)
    assert patience(9.0).settle_s == pytest.approx(MEASURED[-1][1].settle_s)
