"""A model with an adapter for short windows: bare windows are heard with it, padded ones without, by one decoder."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from random_models import MINI, random_whisper
from whispertide.checkpoint.low_rank import adapted_names
from whispertide.checkpoint.short import GROUPS, ShortAdapter
from whispertide.graphs.contract import DECODER, ENCODER
from whispertide.graphs.store import GraphFiles
from whispertide.model.onnx_engine import OnnxEngine
from whispertide.model.whisper import WhisperModel
from whispertide.options import EngineOptions
from whispertide.streaming.framing import BARE, PAD30, Hush, Merged, Zeros, taught_framing

OPTIONS = EngineOptions(threads=1, precision="fp32")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> WhisperModel:
    return WhisperModel.of(random_whisper(tmp_path_factory.mktemp("short") / "plain", MINI), OPTIONS)


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> WhisperModel:
    checkpoint = random_whisper(tmp_path_factory.mktemp("short") / "adapted", MINI)
    rng = np.random.default_rng(0)
    shapes = {name: checkpoint.tensors.shape(name) for name in adapted_names(MINI, GROUPS)}
    matrices = {
        name: (rng.standard_normal((2, columns), np.float32), rng.standard_normal((rows, 2), np.float32))
        for name, (rows, columns) in shapes.items()
    }
    ShortAdapter(2, matrices, checkpoint.tensors_hash).save(checkpoint.folder / "short.npz")
    return WhisperModel.of(checkpoint, OPTIONS)


def test_without_an_adapter_nothing_changes(plain: WhisperModel) -> None:
    assert not plain.knows_short
    assert plain.short is plain
    assert plain.adapted_hash == plain.content_hash


@pytest.mark.slow
def test_bare_windows_are_heard_with_it_and_padded_ones_without(adapted: WhisperModel, plain: WhisperModel) -> None:
    assert adapted.knows_short
    assert adapted.content_hash == plain.content_hash != adapted.adapted_hash
    assert BARE.adapted(adapted) is Zeros().adapted(adapted) is adapted.short
    assert PAD30.adapted(adapted) is Hush().adapted(adapted) is adapted
    mel = np.random.default_rng(0).standard_normal((80, 100), np.float32)
    ours, theirs, short = (model.encode(mel).cross_k[0] for model in (adapted, plain, adapted.short))
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
    assert np.abs(np.asarray(short) - np.asarray(theirs)).max() > 0.01


def test_the_decoder_is_one_for_both(adapted: WhisperModel) -> None:
    engine, short = adapted.engine, adapted.short.engine
    assert isinstance(engine, OnnxEngine)
    assert isinstance(short, OnnxEngine)
    assert short.decoder is engine.decoder
    graphs = GraphFiles(adapted.short.checkpoint, "fp32")
    assert graphs.path(ENCODER).is_file()
    assert not graphs.path(DECODER).is_file()


def test_an_adapter_for_merged_padding_is_for_that_alone(tmp_path: Path, adapted: WhisperModel) -> None:
    checkpoint = random_whisper(tmp_path / "merged", MINI)
    learned = replace(ShortAdapter.of_checkpoint(adapted.checkpoint), report={"options": {"merged": 16}})
    learned.save(checkpoint.folder / "short.npz")
    model = WhisperModel.of(checkpoint, OPTIONS)
    assert (model.short_merged, adapted.short_merged) == (16, 0)
    assert taught_framing(16).adapted(model) is model.short is not model
    assert Merged().adapted(model) is model
    assert Merged().adapted(adapted) is Merged(stand_for_all=16).adapted(adapted) is adapted


@pytest.mark.slow
def test_an_adapter_of_another_checkpoint_is_told_of(tmp_path: Path, adapted: WhisperModel) -> None:
    other = random_whisper(tmp_path / "other", MINI, embedding=0.1)
    (other.folder / "short.npz").write_bytes((adapted.checkpoint.folder / "short.npz").read_bytes())
    from whispertide.errors import CheckpointError

    with pytest.raises(CheckpointError, match="was trained on another checkpoint"):
        _ = WhisperModel.of(other, OPTIONS).short
