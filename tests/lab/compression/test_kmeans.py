import numpy as np

from whispertide_lab.compression.kmeans import k_means, nearest

RNG = np.random.default_rng(0)


def spread(values: np.ndarray, centres: np.ndarray) -> float:
    return float(np.square(np.abs(values[:, None] - centres).min(axis=1)).mean())


def test_as_many_values_as_centres() -> None:
    values = np.repeat([5.0, -3.0, 1.0, 40.0], 10)
    found = k_means(values, np.zeros(40, np.int64), 1, 4)
    np.testing.assert_allclose(found, [[-3, 1, 5, 40]], atol=1e-9)


def test_groups_are_clustered_apart() -> None:
    values, group = RNG.standard_normal(600) * 100, RNG.integers(0, 3, 600)
    together = k_means(values, group, 3, 8)
    for number in range(3):
        own = values[group == number]
        alone = k_means(own, np.zeros(len(own), np.int64), 1, 8)
        np.testing.assert_allclose(together[number], alone[0], rtol=1e-4, atol=1e-2)


def test_no_centre_moves_to_advantage() -> None:
    """Lloyd's condition, roughly: every centre is the mean of what is nearest to it."""
    values = RNG.standard_normal(5000)
    centres = k_means(values, np.zeros(5000, np.int64), 1, 8)[0]
    index = np.abs(values[:, None] - centres).argmin(axis=1)
    means = [values[index == i].mean() for i in range(8)]
    np.testing.assert_allclose(centres, means, atol=0.05)
    assert spread(values, centres) < 0.04  # the best 8 levels for a normal distribution leave 0.0345 (Max, 1960)


def test_an_empty_group_and_one_of_equal_values() -> None:
    found = k_means(np.full(5, 3.25), np.full(5, 1), 3, 2)
    np.testing.assert_allclose(found, np.array([[0.0, 0.0], [3.25, 3.25], [0.0, 0.0]]), atol=0.5)
    assert not k_means(np.zeros(0), np.zeros(0, np.int64), 2, 4).any()


def test_nearest() -> None:
    centres = np.array([[-1, 0, 4], [10, 20, 30]], np.float16)
    values, group = RNG.uniform(-5, 40, 500), RNG.integers(0, 2, 500)
    found = nearest(values, group, centres)
    expected = np.abs(values[:, None] - centres[group]).argmin(axis=1)
    np.testing.assert_array_equal(found, expected)
