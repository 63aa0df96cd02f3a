"""Graphs of one file are opened once in a process: none keeps anything of a run, and to open those of nano.en takes
longer than most tests.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from whispertide.model import onnx_engine
from whispertide.model.runtime import GraphSession, open_session
from whispertide.options import EngineOptions
from whispertide.understand import model as understanding

_MOST = 24  # graphs; those that are used least are opened again


def share_graphs() -> None:
    """From now on, for engines and the command network. Each has memory to give back of its own."""

    @lru_cache(_MOST)
    def opened(path: Path, changed: int, options: EngineOptions) -> GraphSession:
        return open_session(path, options)

    def shared(path: Path, options: EngineOptions) -> GraphSession:
        if not path.is_file():
            return open_session(path, options)
        graph = opened(path, path.stat().st_mtime_ns, options)
        return replace(graph, spare=graph.spare and type(graph.spare)())

    for module in (onnx_engine, understanding):
        share: Any = module
        share.open_session = shared
