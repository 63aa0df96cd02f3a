"""The comparison of static graphs: all ways find the same tokens, and one that does not voids it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counting_watch import CountingWatch
from whispertide.checkpoint import load_checkpoint
from whispertide.errors import GraphError
from whispertide.options import EngineOptions
from whispertide_lab.evaluation.items import static_decoding
from whispertide_lab.evaluation.items.static_decoding import (
    Decoding,
    Speed,
    contenders,
    interleaved,
    speeds,
    static_figure,
)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> list[Decoding]:
    folder = tmp_path_factory.mktemp("static")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static_decoding, "PLANS", ((4, 6, 3),))  # 13 tokens in place of 28: half of the graphs
        return contenders(load_checkpoint("nano.en"), folder, EngineOptions(precision="fp32", threads=1))


@pytest.mark.slow
def test_all_ways_find_the_same_tokens(ways: list[Decoding]) -> None:
    expected = ways[-1].decode(12)
    assert len(expected) == 11, "what two fed tokens begin is answered after the second"
    assert [way.decode(12) for way in ways] == [expected] * 4
    assert [(way.name, way.runs) for way in ways] == [
        ("fixed-200", 12),
        ("fixed-30", 12),
        ("steps", 11),
        ("unrolled", 3),
    ]


@pytest.mark.slow
def test_another_answer_voids_the_comparison(ways: list[Decoding]) -> None:
    liar: Any = SimpleNamespace(name="liar", decode=lambda fed: [1] * fed)
    with pytest.raises(GraphError, match=r"expected liar to find the tokens that unrolled finds"):
        list(interleaved([liar, ways[-1]], 6, 1))


def test_ratios_are_taken_within_a_round() -> None:
    made: list[Any] = [SimpleNamespace(name="steps", runs=9), SimpleNamespace(name="unrolled", runs=2)]
    rounds = [{"steps": 0.2, "unrolled": 0.1}, {"steps": 3.0, "unrolled": 1.0}, {"steps": 0.5, "unrolled": 0.1}]
    assert speeds(made, 10, rounds) == [
        Speed("steps", 10, 500.0, 9, 3.0),
        Speed("unrolled", 10, 100.0, 2, 1.0),
    ]


def test_a_start_costs_what_chunks_save(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 starts more take 10 ms more."""
    found = [
        Speed(way, fed, milliseconds, runs, 1.0)
        for fed in static_decoding.FED
        for way, milliseconds, runs in (("fixed-200", 90.0, 30), ("steps", 50.0, 25), ("unrolled", 40.0, 5))
    ]
    monkeypatch.setattr(static_decoding, "_found", lambda runner: (found, "Here."))
    runner: Any = None
    (table,) = static_decoding.dispatch_table(runner).tables
    assert [row[0] for row in table.rows] == [str(fed) for fed in static_decoding.FED]
    assert table.rows[0][1:] == ("25", "5", "10.00", "0.50", "20.00")


@pytest.mark.slow
def test_the_figure_shows_every_way(ways: list[Decoding], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its graphs are those of the tests above, in whose folder they were built."""
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr(static_decoding, "contenders", lambda checkpoint, folder, options: ways)
    monkeypatch.setattr(static_decoding, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(static_decoding, "FED", (10, 13))
    runner: Any = SimpleNamespace(
        models=("nano.en",),
        quick=True,
        setup=SimpleNamespace(engine=EngineOptions(threads=1)),
        kept=lambda name, kind, make, *_: make(),
        watch=CountingWatch(),
    )
    outcome = static_figure(runner)
    (table,) = outcome.tables
    assert [row[:2] for row in table.rows] == [
        (fed, way) for fed in ("10", "13") for way in ("fixed-200", "fixed-30", "steps", "unrolled")
    ]
    assert "unrolled, 13 tokens" in outcome.plots[0].drawing.csv()
    assert runner.watch.done == runner.watch.total > 0
