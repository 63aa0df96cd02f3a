"""Pilot inference's table 3: networks of equal size, and what of their work waits for the end of speech."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from whispertide.checkpoint.latecontext import LateDims
from whispertide.lab.training.latecontext import encoder_table as items
from whispertide.options import EngineOptions

RUNNER: Any = SimpleNamespace(setup=SimpleNamespace(engine=EngineOptions(threads=1)), models=("nano.en",))


@pytest.mark.slow
@pytest.mark.parametrize("name", items.NETWORKS)
def test_networks_are_of_one_size(name: str) -> None:
    dims = items.same_size(items.NETWORKS[name], 2_000_000)
    assert 0.85 * 2_000_000 < items._weights(dims) <= 2_000_000
    assert dims.layers == 9
    assert dims.inner == 4 * dims.width


@pytest.mark.slow
def test_what_waits_is_what_attends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "SIZE", 400_000)
    (table,) = items.encoding_table(RUNNER).tables
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    waiting = {name: float(row["after the end %"] or "nan") for name, row in rows.items()}
    assert waiting["late, one attends"] < waiting["late, two attend"] < waiting["late"] < waiting["branchformer"]
    assert waiting["conformer"] > 90
    assert rows["late"]["times late"] == "1.00"
    assert waiting["CNN with RNN-T"] == 0
    assert all(
        float(rows[name]["encoding after the end ms"] or 0) > 0 for name in ("late", "conformer", "branchformer")
    )


def test_an_encoder_is_what_streams_and_what_waits() -> None:
    import torch

    network = items._network(LateDims(width=16, heads=2, inner=32, kernel=3, convolving=2, attending=1, n_vocab=40))
    mel = torch.randn(1, 80, 40)
    with torch.inference_mode():
        whole, _ = network.encoder(mel, None)
        torch.testing.assert_close(network.encoder.contextualised(network.encoder.ingested(mel), None), whole)


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.extras._is_here", lambda module: module != "torch")
    outcome = items.encoding_table(RUNNER)
    assert outcome.tables == ()
    assert outcome.note.startswith("Not made here: expected the extra 'train'")
    assert "torch" in outcome.note
