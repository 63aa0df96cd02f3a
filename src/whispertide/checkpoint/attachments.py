"""Attachments: trained additions that belong to one checkpoint, one `.npz` each. They lie next to it, in the cache, or
in the package.

A file holds plain arrays, the hash of the checkpoint that they were trained for, and a report of the training. What the
arrays mean, the module that uses them knows; it declares its `Kind`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt

from whispertide.atomic import replacing
from whispertide.checkpoint.cache import cache_path
from whispertide.checkpoint.loader import Checkpoint
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.checkpoint.torch_zip import is_bomb
from whispertide.checkpoint.untrusted import check_regular
from whispertide.errors import CheckpointError, CheckpointNotFoundError

FORMAT = 1
BUNDLED = BUNDLED_DIR / "attachments"  # a folder for each checkpoint that the package has some for
LARGEST = 200 << 20  # bytes; what goes with large-v3 has less
# an array that the file does not have may be beyond all memory, and a report nested beyond all stacks
DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, MemoryError, RecursionError)
_ABOUT = ("format", "content_hash", "report")  # what a file holds apart from the arrays

Arrays = Mapping[str, npt.NDArray[Any]]
Shapes = Mapping[str, tuple[int | None, ...]]  # None: any length


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of attachment.

    title     what messages call one: "a hush word"
    file      its name next to the checkpoint, with {variant} where there can be several: "hush-{variant}s.npz"
    command   what makes one: "whispertide train hush --model {model} --seconds {variant}"
    largest   bytes of a file; more belongs to something else
    """

    title: str
    file: str
    command: str
    largest: int = LARGEST

    def place(self, folder: Path, variant: str = "") -> Path:
        """The path of such a file in a folder, which need not exist."""
        return folder / self.file.format(variant=variant)

    def making(self, model: str = "MODEL", variant: str = "...") -> str:
        """The command that makes one, for messages."""
        return f"`{self.command.format(model=model, variant=variant)}`"


@dataclass(frozen=True, slots=True)
class Attachment:
    """The contents of a file.

    arrays         by name
    content_hash   of the checkpoint that they were trained for, one of its `hashes`; "" if unknown
    report         what they were trained on and what training measured
    """

    arrays: Arrays
    content_hash: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)


def save(path: Path, attachment: Attachment) -> None:
    """Write the file complete, or leave the old one. Raises OSError."""
    about = {"content_hash": np.str_(attachment.content_hash), "report": np.str_(json.dumps(dict(attachment.report)))}
    content: dict[str, Any] = {"format": np.int64(FORMAT), **attachment.arrays, **about}
    # By handle: to a path numpy adds an extension where it finds that one is missing.
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.savez(file, **content)


def path_beside(checkpoint: Checkpoint, kind: Kind, variant: str = "") -> Path:
    """The path of such a file next to the checkpoint, which need not exist."""
    return kind.place(checkpoint.folder, variant)


def path_in_cache(checkpoint: Checkpoint, kind: Kind) -> Path:
    """The path in the cache of a file that belongs to tensors, whatever files they come in."""
    return kind.place(cache_path("attachments", checkpoint.tensors_hash[:20]))


def anywhere(checkpoint: Checkpoint, kind: Kind, variant: str = "") -> Path | None:
    """Find one of that kind next to the checkpoint, or in the cache or the package one of these very tensors
    (`Checkpoint.tensors_hash`); None: there is none.
    """
    beside = path_beside(checkpoint, kind, variant)
    if beside.is_file():
        return beside
    return next(iter_elsewhere(checkpoint, beside.name, kind.largest), None)


def iter_elsewhere(checkpoint: Checkpoint, name: str = "*.npz", largest: int = LARGEST) -> Iterator[Path]:
    """Yield the files of that name of these very tensors that do not lie next to them: in the cache, then in the
    package.
    """
    for root in (cache_path("attachments"), BUNDLED):
        for path in sorted(root.glob(f"*/{name}")):
            # Hashing tensors takes a moment, so it is left out where there is nothing to compare with.
            if _owner(path, largest) == checkpoint.tensors_hash:
                yield path


def report_in(path: Path) -> dict[str, Any]:
    """The report of a file in the package, which is whole."""
    with np.load(path, allow_pickle=False) as content:
        report: dict[str, Any] = json.loads(str(content["report"]))
    return report


def _owner(path: Path, largest: int) -> str | None:
    """The hash of the checkpoint that a file belongs to; None if the file is damaged."""
    try:
        check_regular(path, largest)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            return str(content["content_hash"])
    except DAMAGED:
        return None


def find(checkpoint: Checkpoint, kind: Kind, variant: str = "", *, instead: str) -> Path:
    """Find the file of that kind, as `anywhere` does.

    Raises `CheckpointNotFoundError` where there is none; its message says what makes one, and what to do `instead`.
    """
    path = anywhere(checkpoint, kind, variant)
    if path is not None:
        return path
    missing = path_beside(checkpoint, kind, variant)
    raise CheckpointNotFoundError(
        f"expected {kind.title} of {checkpoint.name}; there is no {missing}: make it with "
        f"{kind.making(checkpoint.argument, variant)}, or choose {instead}"
    )


def load(kind: Kind, path: Path, shapes: Shapes, *hashes: str) -> Attachment:
    """Read a file and check that its arrays have these names and shapes, hold finite numbers, and belong to the
    checkpoint of one of these `hashes` (none: to any).

    Raises `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is damaged, something else, or
    another checkpoint's.
    """
    again = f"make it again with {kind.making()}"
    try:
        form, found = read(path, kind.largest)
    except FileNotFoundError as error:
        raise CheckpointNotFoundError(
            f"expected {kind.title} in {path}; there is none: make it with {kind.making()}"
        ) from error
    except DAMAGED as error:
        # The type alone: numpy's own words advise to load it unsafely.
        raise CheckpointError(
            f"expected {kind.title}; {path} is damaged or something else ({type(error).__name__}): {again}"
        ) from error
    if form != FORMAT:
        raise CheckpointError(f"expected {kind.title} of format {FORMAT}; {path} has format {form}: {again}")
    _check_arrays(kind, path, found.arrays, shapes)
    if hashes and found.content_hash not in hashes:
        raise CheckpointError(
            f"expected {kind.title} of the checkpoint {hashes[0][:12]}; {path} was trained on another checkpoint "
            f"({found.content_hash[:12]}): make one for this model with {kind.making()}"
        )
    return found


def read(path: Path, largest: int = LARGEST) -> tuple[int, Attachment]:
    """Read the format and the contents of a file of any kind, of at most `largest` bytes. Raises `DAMAGED`."""
    check_regular(path, largest)
    with path.open("rb") as file, ZipFile(file) as archive:
        # Before numpy reads it, which would unpack whatever the file asks for.
        if is_bomb(archive.infolist(), path.stat().st_size):
            raise ValueError("more than the file")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
        arrays = {name: content[name] for name in content.files}
    form, owner, report = (arrays.pop(name) for name in _ABOUT)
    about = json.loads(str(report))
    if not isinstance(about, dict):
        raise TypeError("expected a report with names")
    return int(form), Attachment(arrays, str(owner), about)


def _check_arrays(kind: Kind, path: Path, found: Arrays, shapes: Shapes) -> None:
    came = {name: values.shape for name, values in found.items()}
    fits = came.keys() == shapes.keys() and all(
        len(came[name]) == len(shape) and all(want in (None, got) for want, got in zip(shape, came[name], strict=True))
        for name, shape in shapes.items()
    )
    if not fits:
        raise CheckpointError(
            f"expected {kind.title}, arrays {_list_shapes(shapes)}; {path} holds {_list_shapes(came)}: it is "
            "something else, or "
            f"was made for another model; make one with {kind.making()}"
        )
    bad = sorted(
        name for name, values in found.items() if values.dtype.kind not in "biuf" or not np.isfinite(values).all()
    )
    if bad:
        raise CheckpointError(f"expected finite numbers in {path}; {', '.join(bad)} holds others: make it again")


def _list_shapes(shapes: Shapes) -> str:
    named = (
        (name, ", ".join("any" if length is None else str(length) for length in shape))
        for name, shape in shapes.items()
    )
    return ", ".join(f"{name} [{lengths}]" for name, lengths in sorted(named)) or "nothing"
