"""What `benchmarks/incremental.py` measures, on the bundled model."""

import pytest

from benchmark_scripts import benchmark
from reference import nano


@pytest.mark.slow
def test_every_mark_has_its_blocks() -> None:
    with benchmark("incremental") as script:
        taken = script.blocks_of(nano(), 3)
        assert list(taken) == list(script.MARKS)
    assert all(len(seconds) == 3 and min(seconds) > 0 for seconds in taken.values())
