"""What `benchmarks/rounds.py` counts as processor time."""

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmark_scripts import benchmark
from whispertide.lab.speech.utterance import Utterance
from whispertide.streaming.recipes import get_recipe


def test_judging_is_not_counted_as_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    talks = [Utterance(name, (), 2.0, lambda: np.zeros(32_000, np.float32)) for name in "ab"]
    transcriber: Any = SimpleNamespace(
        framed=lambda recipe: SimpleNamespace(recipe=get_recipe("whisper-streaming")),
        session=lambda recipe: SimpleNamespace(executor=None),
    )
    figures = {f"{moment}_mean_s": 1.0 for moment in ("confirmed", "first_seen")} | {"wer": 0.0, "revisions_per_100": 0}
    figures |= dict.fromkeys(("substitutions", "deletions", "insertions"), 0)

    def judge(*_: object) -> None:
        began = time.process_time()
        while time.process_time() - began < 0.02:
            pass

    with benchmark("rounds") as script:
        monkeypatch.setattr(script, "Session", lambda *_, **__: None)
        monkeypatch.setattr(script, "play", lambda *_, **__: SimpleNamespace(rounds=(1, 2), cpu_s=0.5))
        monkeypatch.setattr(script, "judge", judge)
        monkeypatch.setattr(script, "aggregate", lambda *_: figures)
        row = script.row(transcriber, talks, "every 1 s", lambda talk: None)
    assert row[-2:] == ("1.00", "0.250")
