from itertools import pairwise

import numpy as np
import pytest

from each_row import each_row
from whispertide.checkpoint.palette import BITS
from whispertide_lab.compression.palettise import palettise

RNG = np.random.default_rng(0)
WEIGHT = (0.05 * RNG.standard_t(4, (96, 40))).astype(np.float16)  # heavier tails than a normal distribution


def error(weight: np.ndarray, bits: int) -> float:
    found = palettise(weight, bits)
    found.check()
    return float(np.square(found.values().astype(np.float64) - weight).mean())


@pytest.mark.parametrize("weight", [WEIGHT, WEIGHT.reshape(32, 40, 3)], ids=["matrix", "convolution"])
def test_the_error_falls_with_bits(weight: np.ndarray) -> None:
    errors = [error(weight, bits) for bits in BITS]
    assert all(more < 0.7 * fewer for fewer, more in pairwise(errors))
    assert errors[0] > 0


@each_row("bits", BITS)
def test_outliers_are_exact(bits: int) -> None:
    far = np.abs(WEIGHT - WEIGHT.astype(np.float64).mean()) > 3 * WEIGHT.astype(np.float64).std()
    found = palettise(WEIGHT, bits)
    assert 0 < far.sum() == len(found.outliers)
    np.testing.assert_array_equal(found.values()[far], WEIGHT[far])


@pytest.mark.parametrize("rows", [20, 32, 80, 96])
def test_groups_of_rows(rows: int) -> None:
    """Two values in every 32 rows, which share a palette at this shape: one bit is enough."""
    weight = (np.arange(rows) // 32)[:, None] + np.where(RNG.random((rows, 40)) < 0.5, 0.0, 0.25)
    found = palettise(weight, 1)
    assert len(found.palettes) == -(-rows // 32)
    assert len(found.outliers) == 0
    np.testing.assert_array_equal(found.values(), weight)
    if rows > 48:  # now a palette has more than two
        assert error(np.roll(weight, 16, axis=0), 1) > 0


def test_palettes_are_small_next_to_the_indices() -> None:
    weight = np.zeros((512, 256), np.float16)
    for bits in BITS:
        found = palettise(weight, bits)
        assert found.palettes.nbytes <= found.indices.nbytes / 32


def test_constant_and_infinite_weights() -> None:
    constant = np.full((8, 8), 0.375, np.float16)
    np.testing.assert_array_equal(palettise(constant, 1).values(), constant)
    with pytest.raises(ValueError, match="finite"):
        palettise(np.full((8, 8), np.nan, np.float16), 4)
