"""Pilot inference's table 3: networks of equal size, and what of their work waits for the end of speech."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from small_late import small_late
from small_rivals import small_rival
from told_gate import Loud
from whispertide.audio.vad import SpeechGate
from whispertide.options import EngineOptions
from whispertide.understand.checkpoint import LateDims
from whispertide_lab.evaluation.items.commands import Sentence
from whispertide_lab.training.latecontext import encoder_table as items
from whispertide_lab.training.latecontext import pilot_items
from whispertide_lab.training.latecontext.folder import save_late

pytestmark = pytest.mark.slow

RUNNER: Any = SimpleNamespace(setup=SimpleNamespace(engine=EngineOptions(threads=1)), models=("nano.en",))


@pytest.mark.parametrize("name", items.NETWORKS)
def test_networks_are_of_one_size(name: str) -> None:
    dims = items.same_size(items.NETWORKS[name], 2_000_000)
    assert 0.85 * 2_000_000 < items._weights(dims) <= 2_000_000
    assert dims.layers == 9
    assert dims.inner == 4 * dims.width


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


def test_trained_networks_have_errors_and_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pilot inference's table 3 has the delay of networks, decoding included; of the RNN-T there is none here."""
    save_late(small_late(), tmp_path / "late")
    save_late(small_rival("rnnt"), tmp_path / "rnnt")
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr("whispertide.understand.understanding.SpeechGate", partial(SpeechGate, detector=Loud()))
    monkeypatch.setattr(items, "encoding", lambda *_: items.Encoding(2_000_000, 1.0, 0.9, 0.01))
    sound = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
    said = [Sentence(("play", "music"), sound, "play_music")]
    monkeypatch.setattr(items, "commands_of", lambda runner: said)
    monkeypatch.setattr(pilot_items, "commands_of", lambda runner: said)
    watch = SimpleNamespace(begin=Mock(), advance=Mock(), end=Mock())
    runner: Any = SimpleNamespace(**vars(RUNNER), watch=watch, kept=lambda name, kind, make, *_, **__: make())
    table = items._errors_table(runner, [str(tmp_path / "late"), str(tmp_path / "rnnt")])
    late, rnnt = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    waits = [name for name in table.columns if "wait, mean" in name]
    assert waits == ["no pilots: wait, mean ms", "every 1 s: wait, mean ms"]
    assert all(float(late[name] or 0) > 0 for name in waits)
    assert [rnnt[name] for name in waits] == ["–", "–"]
    assert (late["kind"], late["after the end %"], late["encoding after the end ms"]) == ("late", "10.0", "10.00")
