import pytest

from whispertide_lab.evaluation.core_speed import are_alike, core_gflops


def test_a_core_has_a_speed_and_keeps_it() -> None:
    assert 0.05 < core_gflops() < 2000
    assert core_gflops() == core_gflops()


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [(30.0, 33.0, True), (33.0, 30.0, True), (30.0, 54.0, False), (54.0, 30.0, False), (None, 30.0, True)],
)
def test_machines_of_one_name_are_told_apart_by_their_speed(
    one: float | None, other: float | None, alike: bool
) -> None:
    assert are_alike(one, other) is alike
