"""Finished cells that are kept with a page, so that rows can be added to it later and on another machine.

A file has a line for each cell, under what was asked for: JSON, compressed. A cell that is kept stands until it is
measured anew. So the rows of a page may be of several states of the program, and each says of which. Records of single
rounds (traces) are not kept.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock

from whispertide.atomic import replacing, writing
from whispertide.errors import CorpusError
from whispertide_lab.evaluation.store import Cell
from whispertide_lab.from_json import built


def read_kept(path: Path) -> dict[str, Cell]:
    """Cells by what was asked for; none where there is no file. Raises `CorpusError` where it is damaged."""
    try:
        return {asked: _cell(json.loads(line)) for asked, line in _read_lines(path).items()}
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from error


def _read_lines(path: Path) -> dict[str, str]:
    """The line of each cell, by what was asked for."""
    if not path.is_file():
        return {}
    try:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
        return {json.loads(line)["asked"]: line for line in lines}
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> CorpusError:
    return CorpusError(f"expected kept cells in {path}; it is damaged ({error}): restore it, or remove it")


def _cell(line: Mapping[str, object]) -> Cell:
    found: Cell = built(Cell, {**line["cell"], "folder": None})  # type: ignore[dict-item]  # an object, or an error
    return found


def keep(path: Path, cells: Mapping[str, Cell]) -> None:
    """Add cells to those of a file, in place of those that were asked for alike. Several processes may do so at once.

    Raises `OutputError` where it cannot be written, `CorpusError` where what is there is damaged.
    """
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            lines = {**_read_lines(path), **{asked: _line(asked, cell) for asked, cell in cells.items()}}
            with replacing(path) as unfinished:
                unfinished.write_bytes(
                    gzip.compress("".join(lines[asked] for asked in sorted(lines)).encode(), mtime=0)
                )


def _line(asked: str, cell: Cell) -> str:
    return json.dumps({"asked": asked, "cell": _plain(cell)}, sort_keys=True) + "\n"


def _plain(cell: Cell) -> dict[str, object]:
    content = {"spec": asdict(cell.spec), "score": dict(cell.score), "utterances": list(cell.utterances)}
    return {**content, "date": cell.date}
