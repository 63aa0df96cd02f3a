"""What the tests of listening with attention share."""

from itertools import count

import pytest


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second."""
    ticks = count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))
