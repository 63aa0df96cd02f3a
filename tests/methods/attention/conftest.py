"""What the tests of listening with attention share."""

from itertools import count

import pytest

from reference import nano
from whispertide.model.whisper import WhisperModel
from whispertide.streaming.framing import PAD30
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.stages import SerialExecutor


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second."""
    ticks = count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))


@pytest.fixture(scope="module")
def model() -> WhisperModel:
    return nano()


@pytest.fixture(scope="module")
def executor(model: WhisperModel) -> SerialExecutor:
    return SerialExecutor(RoundResources(model, PAD30))
