"""WhisperFlow's figure 12 shows what was measured of each division, for each model."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whispertide.options import EngineOptions
from whispertide.recipes.allocation import Allocation, Measured, Placement
from whispertide.types import FloatArray
from whispertide_lab.evaluation.items import allocation
from whispertide_lab.evaluation.items.allocation import division_figure

ONE, TWO = Placement("cpu", 1), Placement("cpu", 2)
FOUND = [
    Measured(Allocation(TWO), 0.2, 0.2),
    Measured(Allocation(ONE, ONE), 0.35, 0.15),
    Measured(Allocation(ONE, TWO), 0.3, 0.2),
]


class FakeRunner:
    """Two models, and a corpus of utterances of one second."""

    def __init__(self) -> None:
        self.models = ("small", "large")
        self.said: list[str] = []
        self.setup = SimpleNamespace(engine=EngineOptions(threads=2))
        self.watch = SimpleNamespace(say=self.said.append)
        utterance = SimpleNamespace(audio=lambda: np.ones(16_000, np.float32))
        self.corpus = SimpleNamespace(utterances=lambda: iter([utterance] * 9))

    def transcriber(self, model: str) -> Any:
        return SimpleNamespace(model=model)

    def kept(self, name: str, kind: type, make: Callable[[], list[Measured]], *_: str, **__: Any) -> list[Measured]:
        return make()


def test_a_row_for_each_model_and_division(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, int]] = []

    def measure_all(
        model: str, recipe: Any, audio: FloatArray, progress: Callable[[str, int, int], None]
    ) -> list[Measured]:
        asked.append((model, recipe.name, len(audio)))
        progress("serial: 2 threads, cpu", 1, 3)
        return FOUND

    monkeypatch.setattr(allocation, "measure_all", measure_all)
    runner: Any = FakeRunner()
    outcome = division_figure(runner)
    assert asked == [("small", "whisperflow", 48_000), ("large", "whisperflow", 48_000)]
    assert runner.said[0] == "small, 1 of 3: serial: 2 threads, cpu"
    rows = outcome.tables[0].rows
    assert [row[0] for row in rows] == ["small"] * 3 + ["large"] * 3
    assert rows[0][2:] == ("200", "200", "300")
    assert rows[1][1:] == ("pipelined: encoder 1 thread, cpu; decoder 1 thread, cpu", "350", "150", "425")
    labels = [row[0] for row in outcome.plots[0].drawing.rows]
    assert "large, 1 + 1" in labels
    assert "large, 1 + 2" in labels
