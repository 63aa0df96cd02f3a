"""How `benchmarks/search.py` looks for settings; what it would measure is made up."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from benchmark_scripts import benchmark
from whispertide.recipes.catalogue import get_recipe

TIDE = get_recipe("tide")


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with benchmark("search") as module:
        yield module


def test_the_front_is_what_no_other_beats(script: ModuleType) -> None:
    slow, middle, fast, worse, late = (
        script.Trial({"step_s": step}, latency, wer, {})
        for step, latency, wer in (
            (0.1, 0.9, 0.02),
            (0.2, 0.6, 0.03),
            (0.3, 0.3, 0.07),
            (0.4, 0.6, 0.05),
            (0.5, 0.9, 0.03),
        )
    )
    assert script.front([slow, worse, middle, late, fast]) == [fast, middle, slow]
    twin = script.Trial({"step_s": 0.7}, 0.3, 0.07, {})
    assert script.front([fast, twin]) == [fast, twin]
    assert script.front([]) == []


def drawn(script: ModuleType, seed: int, count: int = 12) -> list[dict[str, Any]]:
    trials: list[Any] = []
    for number in range(count):
        trials.append(script.Trial(script.draw(TIDE, trials, seed), 1.0 / (number + 1), 0.01 * number, {}))
    return [trial.changes for trial in trials]


def test_the_seed_decides_what_is_drawn(script: ModuleType) -> None:
    first = drawn(script, 1)
    assert first == drawn(script, 1) != drawn(script, 2)
    assert first[0] == {}, "the recipe as it is comes first"
    assert all(changes not in first[:place] for place, changes in enumerate(first)), "nothing is tried twice"
    for changes in first:
        assert all(value in script.SPACE[name] for name, value in changes.items())
        TIDE.replace(**{name: value for name, value in changes.items() if name != script.PRECISION})


@pytest.mark.slow
def test_when_nothing_is_left_to_try_it_says_so(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "SPACE", {"carry": (1, 2), "waiting_marks": (True,)})
    trials = [script.Trial(changes, 1.0, 0.1, {}) for changes in ({}, {"carry": 1})]
    with pytest.raises(script.OptionError, match="widen SPACE"):
        script.draw(TIDE, trials, 0)


class Measured:
    """Stands in for the runner: a cell is made up from its request, once, and then remembered in the folder."""

    def __init__(self, folder: Path, setup: Any, watch: Any) -> None:
        self.folder, self.setup = folder, setup

    def run(self, request: Any) -> Any:
        name = f"{crc32(repr((request.recipe, self.setup.engine.precision)).encode())}.cell"
        if not (self.folder / name).exists():
            with (self.folder / "order.txt").open("a") as file:
                file.write(f"{name}\n")
            (self.folder / name).touch()
        said = request.recipe.settings()
        known = said["step_s"] < 0.7
        score = {"confirmed_mean_s": said["margin_s"] if known else None, "wer": 0.1 / said["carry"]}
        score["matched_as_offline"] = said["window_s"] > 2.0
        return SimpleNamespace(score=score)


def test_a_search_goes_on_where_it_was(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(script, "Runner", Measured)
    monkeypatch.setattr(script, "plot", lambda *_: None)

    def search(folder: str, count: int) -> tuple[list[Any], list[str]]:
        output = tmp_path / folder
        output.mkdir(exist_ok=True)
        about = {"recipe": "tide", "model": "nano.en", "corpus": "talks", "clock": "free", "quick": False}
        args = Namespace(**about, excerpt=60.0, seed=3, threads=1, trials=count, output=output)
        return script.search(args), (output / "order.txt").read_text().split()

    some, measured = search("parted", 4)
    more, all_measured = search("parted", 9)
    assert more[:4] == some
    assert all_measured[:4] == measured, "what was measured is not measured again"
    assert len(all_measured) == len(set(all_measured)) == 9
    assert search("whole", 9) == (more, all_measured)


def test_latencies_of_too_few_words_count_as_infinitely_late(script: ModuleType, tmp_path: Path) -> None:
    runner = Measured(tmp_path, SimpleNamespace(engine=SimpleNamespace(precision="int8")), None)
    good = script.measure(runner, TIDE, {"step_s": 0.5, "precision": "fp32"}, "nano.en", "talks")
    assert (good.latency_s, good.wer) == (0.24, 0.1 / 2)
    assert script.measure(runner, TIDE, {"step_s": 0.7}, "nano.en", "talks").latency_s == float("inf")
    assert script.measure(runner, TIDE, {"window_s": 2.0}, "nano.en", "talks").latency_s == float("inf")
