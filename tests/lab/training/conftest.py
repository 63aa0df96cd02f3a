"""What tests of training share. Some run without torch: what needs it is imported where it is used."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from small_training import model_folder, nano, quiet, small_dims, write_speech
from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.weights import TensorStore
from whispertide_lab.training.shards import Shards, open_shards


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    """Several would wait for each other longer than they compute."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_speech(tmp_path_factory.mktemp("speech") / "shards")


@pytest.fixture(scope="module")
def more_speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_speech(tmp_path_factory.mktemp("speech") / "shards", each=30)


@pytest.fixture(scope="module")
def shards(more_speech: Path) -> Shards:
    return open_shards([more_speech])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """One layer of width 16, random weights."""
    from whispertide_lab.training.network import new_network, save_tensors

    folder = tmp_path_factory.mktemp("small")
    save_tensors(new_network(small_dims(), 0), folder / "model.safetensors", np.float32)
    return replace(nano(), dims=small_dims(), tensors=TensorStore.from_folder(folder))


@pytest.fixture
def small_folder(tmp_path: Path, checkpoint: Checkpoint) -> Path:
    return model_folder(tmp_path / "model", checkpoint)


@pytest.fixture
def small_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes of one or two layers next to the real ones."""
    from whispertide_lab.training import shapes
    from whispertide_lab.training.widen import Target

    monkeypatch.setitem(shapes.SHAPES, "small", Target(16, 2, 1))
    monkeypatch.setitem(shapes.SHAPES, "wide", Target(24, 3, 2))
    monkeypatch.setitem(shapes.SHAPES, "low", Target(256, 4, 2))


@pytest.fixture(scope="module")
def finished(speech: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from scratch that came to its end."""
    from small_runs import begun
    from whispertide_lab.training import shapes
    from whispertide_lab.training.widen import Target

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(shapes.SHAPES, "small", Target(16, 2, 1))
        run = begun(tmp_path_factory.mktemp("runs") / "whole", speech)
    assert run.train(quiet, workers=0)
    return run.folder
