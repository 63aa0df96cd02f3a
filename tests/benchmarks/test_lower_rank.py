"""Adapters of a lower rank."""

import numpy as np
import pytest

from benchmark_scripts import benchmark


@pytest.mark.parametrize("rank", [2, 3])
def test_a_rank_that_suffices_changes_no_product(rank: int) -> None:
    dice = np.random.default_rng(0)
    a, b = dice.normal(size=(4, 6)), dice.normal(size=(5, 4))
    a[2:] = 0  # so B A has rank 2
    with benchmark("lower_rank") as script:
        lower_a, lower_b = script.lowered({"weight": (a, b)}, rank)["weight"]
    assert (lower_a.shape, lower_b.shape) == ((rank, 6), (5, rank))
    np.testing.assert_allclose(lower_b @ lower_a, b @ a, atol=1e-12)


def test_the_largest_changes_stay() -> None:
    a, b = np.diag([1.0, 3.0, 2.0]), np.eye(3)
    with benchmark("lower_rank") as script:
        lower_a, lower_b = script.lowered({"weight": (a, b)}, 2)["weight"]
    np.testing.assert_allclose(lower_b @ lower_a, np.diag([0.0, 3.0, 2.0]), atol=1e-12)
