"""Graphs on disk: whole or not at all, built once, by two processes at once too."""

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.errors import DiskSpaceError, GraphError
from whispertide.graphs import build
from whispertide.graphs.store import ensure_graphs, graph_files


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    return load_checkpoint("nano.en")


def pretend(monkeypatch: pytest.MonkeyPatch, outcome: Exception | None = None) -> list[str]:
    """Replace the real build by one that writes empty files, or fails half-way."""
    built: list[str] = []

    def quick(checkpoint: Checkpoint, precision: str, folder: Path, **_: Any) -> None:
        built.append(precision)
        (folder / "encoder.onnx").touch()
        if outcome is not None:
            raise outcome
        (folder / "encoder-masked.onnx").touch()
        (folder / "decoder.onnx").touch()

    monkeypatch.setattr(build, "build_graphs", quick)
    return built


def test_builds_once(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    built = pretend(monkeypatch)
    first = ensure_graphs(checkpoint, "fp32", said.append)
    second = ensure_graphs(checkpoint, "fp32", said.append)
    assert first == second
    assert first.complete
    assert built == ["fp32"]
    assert len(said) == 1


def test_precisions_are_kept_apart(checkpoint: Checkpoint) -> None:
    assert graph_files(checkpoint, "fp32").folder != graph_files(checkpoint, "int8").folder


def test_a_failed_build_leaves_nothing(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, RuntimeError("interrupted"))
    with pytest.raises(RuntimeError, match="interrupted"):
        ensure_graphs(checkpoint, "fp32")
    folder = graph_files(checkpoint, "fp32").folder
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == []
    pretend(monkeypatch)
    assert ensure_graphs(checkpoint, "fp32").complete


def test_a_damaged_set_is_built_anew(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    built = pretend(monkeypatch)
    ensure_graphs(checkpoint, "fp32").decoder.unlink()
    assert ensure_graphs(checkpoint, "fp32").complete
    assert len(built) == 2


def test_no_room(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(DiskSpaceError, match="WHISPERTIDE_CACHE"):
        ensure_graphs(checkpoint, "fp32")


def test_a_folder_that_cannot_be_written(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a file"
    blocked.touch()
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(blocked))
    with pytest.raises(GraphError, match="WHISPERTIDE_CACHE"):
        ensure_graphs(checkpoint, "fp32")


def test_two_processes_at_once(checkpoint: Checkpoint) -> None:
    code = (
        "from whispertide.model.whisper import load_model; from whispertide.options import EngineOptions;"
        "print(load_model('nano.en', EngineOptions(precision='fp32'), announce=print).decoder_graph.dims.n_vocab)"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [worker.communicate(timeout=120)[0].split("\n") for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    assert all("51864" in lines for lines in outputs)
    assert graph_files(checkpoint, "fp32").complete
    leftovers = [path.name for path in cache_dir().rglob("*.unfinished")]
    assert leftovers == []
