"""How fast a core of this machine computes, by known work: two machines of one name can differ by a factor of two."""

import time
from functools import cache

import numpy as np

from whispertide.types import FloatArray

_SIDE, _REPEATS = 768, 20
ALIKE = 1.35  # of one machine: its own speed differs by as much, with what else uses its caches


@cache
def core_gflops() -> float:
    """Billions of multiplications and additions per processor second, in products of float32 matrices; the best of
    some. The seconds of all threads count, so neither their number nor other programs' share of the time matters.
    """
    matrix = np.ones((_SIDE, _SIDE), np.float32)
    return round(max(2e-9 * _SIDE**3 / _processor_s(matrix) for _ in range(_REPEATS)), 1)


def _processor_s(matrix: FloatArray) -> float:
    began = time.process_time()
    matrix @ matrix
    return max(time.process_time() - began, 1e-9)


def are_alike(gflops: float | None, others: float | None) -> bool:
    """True if both may have been measured on one machine; where one was never measured it may."""
    return not gflops or not others or max(gflops, others) <= ALIKE * min(gflops, others)
