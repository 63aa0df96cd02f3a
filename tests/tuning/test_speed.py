import time

import pytest

from whispertide.model.whisper import load_model
from whispertide.options import EngineOptions
from whispertide.tuning.speed import measure_speed


@pytest.mark.slow
def test_speed_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    int8 = load_model("nano.en", EngineOptions(precision="int8", threads=1))
    monkeypatch.setattr(time, "perf_counter", time.process_time)  # what other programs do in between does not count
    speed = measure_speed(int8)
    assert (speed.model, speed.precision, speed.provider, speed.threads) == ("nano.en", "int8", "cpu", 1)
    assert 0 < speed.encode_5s < speed.encode_30s
    assert speed.step_1 > 0
    assert speed.step_5 > 0
    assert speed.spread >= 1
