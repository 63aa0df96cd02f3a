"""Built graphs on disk: built once per checkpoint content and precision, found again by every later process.

A set of graphs is one folder, `<cache>/graphs/<content hash>-<precision>-v<version>`. It appears whole or not at all:
it is built under another name and renamed, under a lock, so two processes may ask for it at once.
"""

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.errors import DiskSpaceError, GraphError
from whispertide.graphs.contract import VERSION
from whispertide.options import Precision


@dataclass(frozen=True, slots=True)
class GraphFiles:
    """The graph files of one checkpoint at one precision."""

    folder: Path

    @property
    def encoder(self) -> Path:
        """Attends everywhere."""
        return self.folder / "encoder.onnx"

    @property
    def encoder_masked(self) -> Path:
        """Takes an attention bias; shares the weights of `encoder`."""
        return self.folder / "encoder-masked.onnx"

    @property
    def decoder(self) -> Path:
        """The decoder for every use."""
        return self.folder / "decoder.onnx"

    @property
    def complete(self) -> bool:
        """Whether all files are there."""
        return all(path.is_file() for path in (self.encoder, self.encoder_masked, self.decoder))


def graph_files(checkpoint: Checkpoint, precision: Precision) -> GraphFiles:
    """Where the graphs of `checkpoint` are or will be."""
    name = f"{checkpoint.content_hash[:20]}-{precision}-v{VERSION}"
    return GraphFiles(cache_dir() / "graphs" / name)


def ensure_graphs(
    checkpoint: Checkpoint, precision: Precision, announce: Callable[[str], None] | None = None
) -> GraphFiles:
    """The graphs of `checkpoint`, built now if they are not there yet.

    Raises `DiskSpaceError` where there is no room and `GraphError` where the cache folder cannot be written.
    """
    files = graph_files(checkpoint, precision)
    if files.complete:
        return files
    try:
        files.folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{files.folder}.lock"):
            if not files.complete:
                if announce:
                    announce(f"building the {precision} graphs of {checkpoint.name} (once)")
                _build_whole(checkpoint, precision, files.folder)
    except OSError as error:
        raise _storage_error(error, files.folder) from error
    return files


def _build_whole(checkpoint: Checkpoint, precision: Precision, folder: Path) -> None:
    from whispertide.graphs.build import build_graphs
    from whispertide.graphs.saturation import signed_weights_saturate

    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that was killed
    shutil.rmtree(folder, ignore_errors=True)  # damaged: a file is missing
    unfinished.mkdir()
    try:
        build_graphs(checkpoint, precision, unfinished, unsigned=precision == "int8" and signed_weights_saturate())
        unfinished.rename(folder)
    except BaseException:
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
