import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.methods.attention.delay import LATEST_S, SOONEST_S, DelayCurve, Patience
from whispertide.methods.attention.steadiness import read_curve

CURVES = ("general", "base")
delays, curves = st.floats(SOONEST_S, LATEST_S), st.sampled_from(CURVES)
CURVE = DelayCurve(((0.4, Patience(0.04, 1.0, 0.2)), (0.8, Patience(0.01, 2.0, 0.6))))


@pytest.mark.parametrize("name", CURVES)
def test_what_was_measured_is_what_it_was(name: str) -> None:
    curve = read_curve(name)
    for delay, measured in curve.points:
        found = curve.patience(delay)
        assert found.max_revision_rate == pytest.approx(measured.max_revision_rate)
        assert found.settle_s == pytest.approx(measured.settle_s)
        assert found.step_s == pytest.approx(measured.step_s)
    assert [delay for delay, _ in curve.points] == sorted({delay for delay, _ in curve.points})


def test_between_two_points_the_share_of_the_way_counts() -> None:
    found = CURVE.patience(0.6)
    assert found.max_revision_rate == pytest.approx(0.02)  # as many times less than 0.04 as 0.01 is less than it
    assert (found.settle_s, found.step_s) == pytest.approx((1.5, 0.4))


def test_beyond_what_was_measured_the_nearest_counts() -> None:
    for delay, (_, nearest) in ((0.35, CURVE.points[0]), (9.0, CURVE.points[1])):
        found = CURVE.patience(delay)
        assert (found.max_revision_rate, found.settle_s) == pytest.approx((nearest.max_revision_rate, nearest.settle_s))


@given(curves, delays, delays)
def test_who_may_be_later_is_more_patient(name: str, one: float, other: float) -> None:
    soon, late = (read_curve(name).patience(delay) for delay in sorted((one, other)))
    assert soon.max_revision_rate >= late.max_revision_rate * (1 - 1e-9)
    assert soon.step_s <= late.step_s + 1e-9
    assert soon.settle_s <= late.settle_s + 1e-9
