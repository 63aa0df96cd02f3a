"""How fast a core of this machine computes, by known work: two machines of one name can differ by a factor of two."""

import time
from functools import cache

import numpy as np

from whispertide.types import FloatArray

# So small that no library spreads it over threads, and that it is done before another program gets the core.
_SIDE, _REPEATS = 64, 20_000
ALIKE = 1.6  # of one machine: its own speed differs by as much, with what its other core does


@cache
def core_gflops() -> float:
    """Billions of multiplications and additions per processor second, in products of float32 matrices; the best of
    many.
    """
    matrix = np.ones((_SIDE, _SIDE), np.float32)
    product = np.empty_like(matrix)
    return round(max(2e-9 * _SIDE**3 / _processor_s(matrix, product) for _ in range(_REPEATS)), 1)


def _processor_s(matrix: FloatArray, product: FloatArray) -> float:
    began = time.process_time()
    np.matmul(matrix, matrix, out=product)
    return max(time.process_time() - began, 1e-9)


def are_alike(gflops: float | None, others: float | None) -> bool:
    """True if both may have been measured on one machine; where one was never measured it may."""
    return not gflops or not others or max(gflops, others) <= ALIKE * min(gflops, others)
