"""How `benchmarks/beams.py` times ways to decode a round, with a clock that counts decodes."""

from types import SimpleNamespace
from typing import Any

import pytest

from benchmark_scripts import benchmark
from whispertide.options import DecodeOptions


class Counting:
    """An executor whose every decode takes as many seconds as there were decodes before it."""

    def __init__(self) -> None:
        self.beams: list[int] = []

    def encode(self, *_: object) -> str:
        return "opening"

    def decode(self, plan: object, opening: str, options: DecodeOptions) -> Any:
        self.beams.append(options.beam)
        return SimpleNamespace(stats=SimpleNamespace(decode_s=float(len(self.beams) - 1), decoder_runs=1))


def test_the_first_decode_after_encoding_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Counting()
    item: Any = SimpleNamespace(plan=None, audio=None, options=DecodeOptions())
    with benchmark("beams") as script:
        monkeypatch.setattr(script, "following", lambda plan, how: plan)
        found = script.timed(executor, item)
        assert list(found) == list(script.WAYS)
        beams = [beam for _, beam in script.WAYS.values()]
    assert [taken.decode_s for taken in found.values()] == [1.0 + number for number in range(len(beams))]
    assert executor.beams == [5, *beams]
