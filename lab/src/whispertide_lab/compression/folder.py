"""A compressed checkpoint as a folder: the file of palettes, and what lies next to the original's weights."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from whispertide.checkpoint import Checkpoint, attachments, load_checkpoint
from whispertide.checkpoint.palette_file import Stored
from whispertide.checkpoint.weights import WEIGHTS, Weights
from whispertide_lab.checkpoint_folder import CONFIGS, read_configs, write_json
from whispertide_lab.compression.palette_writer import write_palette_file
from whispertide_lab.new_folder import check_new

_COPIED = (".json", ".txt")  # configurations, vocabulary; an index of shards is not copied


def check_folders(checkpoint: Checkpoint, output: Path) -> None:
    """Raise `CheckpointError` for a checkpoint that is no folder of Hugging Face's or faster-whisper's layout,
    `OutputError` unless the output is new or empty and can be written.
    """
    read_configs(checkpoint, "to compress")
    check_new(output, "for the compressed checkpoint")


def as_kept(weight: Weights) -> Weights:
    """A tensor that is not palettised, as it is stored: float16 unless that cannot hold it."""
    half = np.asarray(weight).astype(np.float16)
    return half if np.isfinite(half).all() else np.asarray(weight, np.float32)


def half_size(checkpoint: Checkpoint) -> int:
    """Bytes of all its tensors as float16."""
    shapes = map(checkpoint.tensors.shape, checkpoint.tensors.names())
    return sum(2 * int(np.prod(shape, dtype=np.int64)) for shape in shapes)


def write_folder(checkpoint: Checkpoint, tensors: Mapping[str, Stored], folder: Path) -> int:
    """Write the checkpoint with these tensors into a folder that is there; returns the bytes of its weights.

    What was learned for the original goes along as it is, and says so. Raises OSError.
    """
    for path in sorted(checkpoint.folder.iterdir()):
        if path.is_file() and path.suffix in _COPIED and not path.name.endswith(".index.json"):
            shutil.copyfile(path, folder / path.name)
    for name, content in zip(CONFIGS, read_configs(checkpoint, "to compress"), strict=True):
        if content:
            write_json(folder / name, content)
    write_palette_file(folder / WEIGHTS, tensors, checkpoint.content_hash)
    content_hash = load_checkpoint(folder).content_hash
    for path in sorted(checkpoint.folder.glob("*.npz")):
        carry_over(path, folder / path.name, checkpoint.content_hash, content_hash)
    return (folder / WEIGHTS).stat().st_size


def carry_over(path: Path, target: Path, source_hash: str, content_hash: str) -> bool:
    """Write the attachment in `path`, of the checkpoint `source_hash`, to `target` as one of `content_hash`, which must
    be nearly the same function. Its report says so. False, and nothing is written, if it belongs to another or there is
    none.

    Raises OSError.
    """
    try:
        _, found = attachments.read(path)
    except OSError:
        # It is among `DAMAGED` as well, but a file that cannot be read need not be damaged.
        raise
    except attachments.DAMAGED:
        return False
    if found.content_hash != source_hash:
        return False
    made_for = {**found.report, "made_for": source_hash}
    attachments.save(target, replace(found, content_hash=content_hash, report=made_for))
    return True
