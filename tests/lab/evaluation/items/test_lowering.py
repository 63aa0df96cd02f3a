"""NPUsper's table 7: both ways of writing linear layers compute the same, and the table compares their times."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from counting_watch import CountingWatch
from whispertide.api import load
from whispertide.options import EngineOptions
from whispertide_lab.evaluation.items import lowering as items
from whispertide_lab.evaluation.items.static_decoding import FRAMES


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Graphs are built once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Any:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(cache))
    monkeypatch.setattr(items, "PLANS", ((4, 6, 3),))  # the first three of eight chunks
    monkeypatch.setattr(items, "FED", 13)
    return SimpleNamespace(
        models=("nano.en",),
        quick=True,
        setup=SimpleNamespace(engine=EngineOptions(threads=1)),
        kept=lambda name, kind, make, *_: make(),
        watch=CountingWatch(),
        transcriber=lambda name: load(name, threads=1),
    )


def test_the_table_has_what_convolutions_take_less(monkeypatch: pytest.MonkeyPatch, runner: Any) -> None:
    linear = {"encoder": 50.0, "decoder": 150.0, "both": 200.0}
    convolved = {"encoder": 40.0, "decoder": 165.0, "both": 205.0}
    monkeypatch.setattr(items, "_times", lambda _: dict(zip(items.BUILDERS, (linear, convolved), strict=True)))
    (table,) = items.lowering_table(runner).tables
    assert table.rows[0] == ("encoder", "50.0", "40.0", "20.0", "7.0")
    assert [row[3] for row in table.rows[1:]] == ["-10.0", "-2.5"]


@pytest.mark.slow
def test_the_progress_bar_moves(monkeypatch: pytest.MonkeyPatch, runner: Any) -> None:
    monkeypatch.setattr(items, "QUICK_ROUNDS", 1)
    items.lowering_table(runner)
    assert runner.watch.done == runner.watch.total > 0


def test_medians_are_of_rounds() -> None:
    assert items._medians([(0.1, 0.2), (0.3, 0.1), (0.2, 0.6)]) == pytest.approx(
        {"encoder": 200.0, "decoder": 200.0, "both": 400.0}
    )


@pytest.mark.slow
def test_both_ways_compute_the_same(runner: Any, cache: Path) -> None:
    ways = [items._opened(runner, name) for name in items.BUILDERS]
    dims = runner.transcriber("nano.en").dims
    mel = np.random.default_rng(5).standard_normal((1, dims.n_mels, 2 * FRAMES)).astype(np.float32)
    inputs = {"mel": mel, "attention_bias": np.zeros((1, 1, 1, FRAMES), np.float32)}
    linear, convolved = (encoder.run(["hidden"], inputs)[0].numpy() for encoder, _ in ways)
    np.testing.assert_allclose(convolved, linear, atol=2e-3)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(convolved, 1.01 * linear, atol=2e-3)
    assert ways[0][1].decode(12) == ways[1][1].decode(12)
    products = [
        sum(node.op_type == "Conv" for node in onnx.load(folder / "encoder.onnx", load_external_data=False).graph.node)
        for folder in sorted((cache / "benchmarks").iterdir())
    ]
    assert products[0] > products[1] == 2, "only the two convolutions of Whisper's own are left"
