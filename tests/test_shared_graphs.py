"""Which graphs count as the same, and what each that shares one has of its own."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import shared_graphs
from whispertide.errors import GraphError
from whispertide.model import onnx_engine
from whispertide.model.runtime import GraphSession
from whispertide.options import EngineOptions
from whispertide.understand import model as understanding

ENGINES: Any = onnx_engine  # what a module imports is no name of it to mypy
OPTIONS = EngineOptions(precision="fp32", threads=1)


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was opened by the graphs that are shared in this test alone."""
    names: list[str] = []

    def opening(path: Path, options: EngineOptions) -> GraphSession:
        if not path.exists():
            raise GraphError(f"cannot load {path}")
        names.append(path.name)
        memory: Any = SimpleNamespace()
        return GraphSession(object(), path, memory)

    for module in (shared_graphs, onnx_engine, understanding):
        monkeypatch.setattr(module, "open_session", opening)
    shared_graphs.share_graphs()
    return names


def test_a_file_is_opened_once(tmp_path: Path, opened: list[str]) -> None:
    for name in "ab":
        (tmp_path / name).touch()
    graphs = [module.open_session(tmp_path / name, OPTIONS) for name in "ab" for module in (ENGINES, understanding)]
    assert opened == ["a", "b"]
    assert graphs[0].session is graphs[1].session is not graphs[2].session
    assert graphs[0].spare is not graphs[1].spare  # each gives back what its own runs have used


def test_what_has_changed_is_opened_again(tmp_path: Path, opened: list[str]) -> None:
    path = tmp_path / "a"
    path.touch()
    ENGINES.open_session(path, OPTIONS)
    os.utime(path, (1, 1))
    ENGINES.open_session(path, OPTIONS)
    ENGINES.open_session(path, EngineOptions(precision="fp32", threads=2))
    assert opened == ["a", "a", "a"]


def test_what_cannot_be_opened_is_an_error_every_time(tmp_path: Path, opened: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(GraphError, match="cannot load"):
            ENGINES.open_session(tmp_path / "a", OPTIONS)
    (tmp_path / "a").touch()
    ENGINES.open_session(tmp_path / "a", OPTIONS)
    assert opened == ["a"]
