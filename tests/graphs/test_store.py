"""Graphs on disk: whole or not at all, built once, by two processes at once too."""

import errno
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.errors import CheckpointError, DiskSpaceError, GraphError
from whispertide.graphs import arithmetic, decoder, encoder
from whispertide.graphs.builder import WeightFile
from whispertide.graphs.contract import DECODER, ENCODER, ENCODER_MASKED, GraphKind
from whispertide.graphs.store import GraphFiles

ALL = (ENCODER, ENCODER_MASKED, DECODER)


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    return load_checkpoint("nano.en")


def pretend(monkeypatch: pytest.MonkeyPatch, outcome: Exception | None = None) -> list[str]:
    """Replace the real build by one that writes empty files, or fails half-way."""
    built: list[str] = []

    def quick(checkpoint: Checkpoint, precision: str, folder: Path) -> None:
        built.append(precision)
        (folder / "encoder.onnx").touch()
        if outcome is not None:
            raise outcome
        (folder / "encoder-masked.onnx").touch()
        (folder / "decoder.onnx").touch()

    for builder in (encoder, decoder):
        monkeypatch.setattr(builder, "build", quick)
    return built


def complete(graphs: GraphFiles) -> bool:
    return all(graphs.path(kind).is_file() for kind in ALL)


def test_builds_once(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    built = pretend(monkeypatch)
    graphs = GraphFiles(checkpoint, "fp32")
    graphs.build(*ALL, announce=said.append)
    graphs.build(*ALL, announce=said.append)
    assert [graphs[kind] for kind in ALL] == [graphs.path(kind) for kind in ALL]
    assert complete(graphs)
    assert built == ["fp32"] * 2  # the encoder's two share their weights, the decoder has its own
    assert len(said) == 1


def test_a_kind_is_built_when_it_is_asked_for(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new kind needs a module of its own and nothing else."""
    told: list[Any] = []

    def build(checkpoint: Checkpoint, precision: str, folder: Path) -> None:
        told.append(precision)
        (folder / "new.onnx").touch()

    module = ModuleType("new")
    module.build = build  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "whispertide.graphs.new", module)
    graphs, kind = GraphFiles(checkpoint, "fp32", tmp_path), GraphKind("new.onnx", "new", 7)
    assert list(tmp_path.glob("*-new-*")) == []
    assert graphs[kind].is_file()
    assert graphs[kind].parent.name == f"{checkpoint.content_hash[:20]}-fp32-new-v7"
    assert told == ["fp32"]
    assert not complete(graphs)


def test_precisions_are_kept_apart(checkpoint: Checkpoint) -> None:
    assert GraphFiles(checkpoint, "fp32").path(DECODER) != GraphFiles(checkpoint, "int8").path(DECODER)


def test_processors_that_multiply_otherwise_may_share_a_cache(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signed weights, as others build them, would give wrong products where these saturate."""
    built = pretend(monkeypatch)
    found: list[Path] = []
    for saturates in (False, True, False, True):
        monkeypatch.setattr(arithmetic, "signed_weights_saturate", lambda answer=saturates: answer)
        found.append(GraphFiles(checkpoint, "int8")[DECODER])
        assert "-fp32-" in GraphFiles(checkpoint, "fp32").path(DECODER).parent.name
    assert found[0] != found[1]
    assert found[:2] == found[2:]
    assert len(built) == 2


def test_a_failed_build_leaves_nothing(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, RuntimeError("interrupted"))
    with pytest.raises(RuntimeError, match="interrupted"):
        GraphFiles(checkpoint, "fp32")[ENCODER]
    assert [path.name for path in (cache_dir() / "graphs").iterdir() if path.is_dir()] == []
    pretend(monkeypatch)
    assert GraphFiles(checkpoint, "fp32")[ENCODER].is_file()


def test_nothing_is_kept_of_a_damaged_checkpoint(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(checkpoint: Checkpoint, precision: str, folder: Path) -> None:
        raise CheckpointError("damaged")

    pretend(monkeypatch)
    graphs = GraphFiles(checkpoint, "fp32")
    monkeypatch.setattr(decoder, "build", refuse)
    with pytest.raises(CheckpointError, match="damaged"):
        graphs.build(ENCODER, DECODER)
    assert not graphs.path(ENCODER).is_file()


def test_a_damaged_set_is_built_anew(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    built = pretend(monkeypatch)
    GraphFiles(checkpoint, "fp32")[DECODER].unlink()
    assert GraphFiles(checkpoint, "fp32")[DECODER].is_file()
    assert len(built) == 2


def test_no_room(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(DiskSpaceError, match="WHISPERTIDE_CACHE"):
        GraphFiles(checkpoint, "fp32")[ENCODER]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it is the system's disk that is always full")
@pytest.mark.parametrize("count", [3, 100_000])
def test_a_disk_that_is_full_loses_no_weights(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """However few they are: a graph without them would be kept."""

    def build(checkpoint: Checkpoint, precision: str, folder: Path) -> None:
        with Path("/dev/full").open("wb") as file:
            WeightFile("encoder.bin", file).put("one", np.ones(count, np.float32))
        (folder / "encoder.onnx").touch()

    monkeypatch.setattr(encoder, "build", build)
    with pytest.raises(DiskSpaceError):
        GraphFiles(checkpoint, "fp32")[ENCODER]
    assert not GraphFiles(checkpoint, "fp32").path(ENCODER).exists()


def test_a_folder_that_cannot_be_written(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a file"
    blocked.touch()
    with pytest.raises(GraphError, match="WHISPERTIDE_CACHE"):
        GraphFiles(checkpoint, "fp32", blocked)[ENCODER]


def test_where_the_cache_cannot_be_written_graphs_are_built_elsewhere(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: Path
) -> None:
    """Built once there, too; and graphs that are in a cache which cannot be written are used."""
    built = pretend(monkeypatch)
    usual = GraphFiles(checkpoint, "fp32")[ENCODER]
    blocked = tmp_path / "a file"
    blocked.touch()
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(blocked))
    with pytest.warns(UserWarning, match="a file cannot be written .*WHISPERTIDE_CACHE"):
        path = GraphFiles(checkpoint, "fp32")[ENCODER]
    assert path == spare / "graphs" / usual.parent.name / usual.name
    assert GraphFiles(checkpoint, "fp32")[ENCODER] == path
    assert len(built) == 2


@pytest.mark.slow
def test_two_processes_at_once(checkpoint: Checkpoint) -> None:
    code = (
        "from whispertide.model.whisper import load_model; from whispertide.options import EngineOptions;"
        "print(load_model('nano.en', EngineOptions(precision='fp32'), announce=print).engine.decoder.dims.n_vocab)"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [worker.communicate(timeout=120)[0].split("\n") for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    assert all("51864" in lines for lines in outputs)
    assert complete(GraphFiles(checkpoint, "fp32"))
    leftovers = [path.name for path in cache_dir().rglob("*.unfinished")]
    assert leftovers == []
