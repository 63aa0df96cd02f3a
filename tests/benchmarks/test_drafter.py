"""How `benchmarks/drafter.py` times ways to decode a round, with an executor that counts decodes."""

from types import SimpleNamespace
from typing import Any

from benchmark_scripts import benchmark
from whispertide.options import DecodeOptions


class Counting:
    """An executor that tells how many decodes there were before."""

    def __init__(self) -> None:
        self.resources = SimpleNamespace(drafter=None)
        self.drafters: list[Any] = []

    def encode(self, *_: object) -> str:
        return "opening"

    def decode(self, plan: object, opening: str, options: DecodeOptions) -> Any:
        self.drafters.append(self.resources.drafter)
        stats = SimpleNamespace(decoder_runs=len(self.drafters) - 1, tokens=3)
        return SimpleNamespace(stats=stats, heard=SimpleNamespace(tokens=()))


def test_the_first_decode_after_encoding_does_not_count() -> None:
    executor: Any = Counting()
    item: Any = SimpleNamespace(plan=None, audio=None, options=DecodeOptions())
    with benchmark("drafter") as script:
        ways = {"greedy": script.Way(earlier=True), "n-grams": script.Way("n-grams", earlier=True)}
        found = script.decode(executor, item, ways)
    assert {name: runs for name, (_, runs, *_) in found.items()} == {"greedy": 1, "n-grams": 2}
    assert executor.drafters == [None, None, "n-grams"]
