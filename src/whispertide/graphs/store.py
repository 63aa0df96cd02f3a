"""Built graphs on disk: built once per checkpoint content and precision, found again by every later process.

Graphs that share their weights are one folder, `<cache>/graphs/<content hash>-<precision>-<builder>-v<version>`. Where
a processor needs unsigned weights the precision is called `int8-unsigned`, because machines may share a cache. A folder
appears whole or not at all: it is built under another name and renamed, under a lock, so two processes may ask for it
at once.
"""

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from filelock import FileLock

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.cache import cache_path
from whispertide.errors import CheckpointError, DiskSpaceError, GraphError, WhispertideError
from whispertide.graphs.arithmetic import linear_kind
from whispertide.graphs.contract import GraphKind
from whispertide.options import Precision
from whispertide.types import Announce


@dataclass(frozen=True, slots=True)
class GraphFiles:
    """The graph files of one checkpoint at one precision, by kind; `folder` None: in the cache."""

    checkpoint: Checkpoint
    precision: Precision
    folder: Path | None = None

    def __getitem__(self, kind: GraphKind) -> Path:
        """The file of a kind, built now if it is not there yet.

        Raises `DiskSpaceError` where there is no room and `GraphError` where the folder cannot be written.
        """
        self.build(kind)
        return self.path(kind)

    def path(self, kind: GraphKind) -> Path:
        """The path of a kind's file, whether it is there or not."""
        numbers = "int8-unsigned" if linear_kind(self.precision) == "dynamic-uint8" else self.precision
        name = f"{self.checkpoint.content_hash[:20]}-{numbers}-{kind.folder}"
        if self.folder is not None:
            return self.folder / name / kind.file
        return cache_path("graphs", name, kind.file)

    def build(self, *kinds: GraphKind, announce: Announce | None = None) -> None:
        """Build those that are not there yet, after telling `announce`. Raises as `[]` does.

        Where the checkpoint is damaged (`CheckpointError`), none of them is kept.
        """
        missing = [kind for kind in kinds if not self.path(kind).is_file()]
        if missing and announce:
            announce(f"building the {self.precision} graphs of {self.checkpoint.name} (once)")
        for number, kind in enumerate(missing):
            path = self.path(kind)
            try:
                build_once(path.parent, path.is_file, partial(self._build, kind))
            except CheckpointError:  # a damaged one: nothing of it is kept
                for built in missing[:number]:
                    shutil.rmtree(self.path(built).parent, ignore_errors=True)
                raise

    def _build(self, kind: GraphKind, folder: Path) -> None:
        builder = import_module(f"whispertide.graphs.{kind.builder}")
        builder.build(self.checkpoint, self.precision, folder)


def build_once(folder: Path, is_whole: Callable[[], bool], build: Callable[[Path], None]) -> None:
    """Have `build` fill a folder of graphs, unless it `is_whole`; by one process at a time, and whole or not at all.

    Raises `DiskSpaceError` where there is no room, `GraphError` where it cannot be written, and what `build` raises.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Asked under the lock: another process may have built it meanwhile.
        with FileLock(f"{folder}.lock"):
            if not is_whole():
                _build_whole(folder, build)
    except OSError as error:
        if isinstance(error, WhispertideError):  # some of ours are builtins, too, and say more already
            raise
        raise _storage_error(error, folder) from error


def _build_whole(folder: Path, build: Callable[[Path], None]) -> None:
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that was killed
    shutil.rmtree(folder, ignore_errors=True)  # damaged: a file is missing
    unfinished.mkdir()
    try:
        build(unfinished)
        # Renaming is one step: a folder under its own name is whole.
        unfinished.rename(folder)
    except BaseException:
        # Also after an interrupt nothing half built stays.
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _storage_error(error: OSError, folder: Path) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskSpaceError(
            f"no room for the graphs in {folder.parent}: free some space, or set WHISPERTIDE_CACHE to another folder"
        )
    return GraphError(
        f"cannot write the graphs to {folder.parent} ({error.strerror or error}): make it writable, "
        "or set WHISPERTIDE_CACHE to another folder"
    )
