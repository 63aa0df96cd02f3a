from itertools import pairwise

import numpy as np
import pytest

from whispertide.checkpoint.palette import BITS
from whispertide.lab.compression.palettise import Form, palettise

RNG = np.random.default_rng(0)
WEIGHT = (0.05 * RNG.standard_t(4, (96, 40))).astype(np.float16)  # heavier tails than a normal distribution


def error(weight: np.ndarray, form: Form) -> float:
    found = palettise(weight, form)
    found.check()
    return float(np.square(found.values().astype(np.float64) - weight).mean())


@pytest.mark.parametrize("weight", [WEIGHT, WEIGHT.reshape(32, 40, 3)], ids=["matrix", "convolution"])
def test_the_error_falls_with_bits(weight: np.ndarray) -> None:
    errors = [error(weight, Form(bits, rows=32)) for bits in BITS]
    assert all(more < 0.7 * fewer for fewer, more in pairwise(errors))
    assert errors[0] > 0


@pytest.mark.parametrize("bits", BITS)
def test_outliers_are_exact(bits: int) -> None:
    far = np.abs(WEIGHT - WEIGHT.astype(np.float64).mean()) > 3 * WEIGHT.astype(np.float64).std()
    found = palettise(WEIGHT, Form(bits))
    assert 0 < far.sum() == len(found.outliers)
    np.testing.assert_array_equal(found.values()[far], WEIGHT[far])


def test_all_weights_as_outliers_are_the_tensor() -> None:
    found = palettise(WEIGHT, Form(1, outlier_std=0.0))
    np.testing.assert_array_equal(found.values(), WEIGHT)


def test_no_outliers() -> None:
    found = palettise(WEIGHT, Form(4, outlier_std=np.inf))
    assert len(found.outliers) == 0
    assert error(WEIGHT, Form(4, rows=32)) < error(WEIGHT, Form(4, rows=32, outlier_std=np.inf))


@pytest.mark.parametrize("rows", [1, 4, 40, 96, 500])
def test_groups_of_rows(rows: int) -> None:
    """Rows of two values each, others in every group: one bit is enough for groups of one row."""
    weight = np.arange(96)[:, None] + np.where(RNG.random((96, 40)) < 0.5, 0.0, 0.25)
    found = palettise(weight, Form(1, rows=rows, outlier_std=np.inf))
    assert len(found.palettes) == -(-96 // min(rows, 96))
    assert (np.abs(found.values() - weight).max() == 0) is np.bool_(rows == 1)


def test_palettes_are_small_next_to_the_indices() -> None:
    weight = np.zeros((512, 256), np.float16)
    for bits in BITS:
        found = palettise(weight, Form(bits))
        assert found.palettes.nbytes <= found.indices.nbytes / 32


def test_constant_and_infinite_weights() -> None:
    constant = np.full((8, 8), 0.375, np.float16)
    np.testing.assert_array_equal(palettise(constant, Form(1)).values(), constant)
    with pytest.raises(ValueError, match="finite"):
        palettise(np.full((8, 8), np.nan, np.float16), Form(4))
