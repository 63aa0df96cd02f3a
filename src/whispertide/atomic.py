"""Files and folders that are there whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path in the same folder to write a file or a folder to. In the end it takes the name of `path`, in place of
    what was there (a folder: only an empty one); after an error it is removed. Raises OSError.
    """
    whole = Path(os.path.abspath(path))  # "." has no name
    unfinished = whole.with_name(f".{whole.name}.{os.getpid()}.part")
    try:
        yield unfinished
        unfinished.replace(whole)
    finally:
        if unfinished.is_dir():
            shutil.rmtree(unfinished, ignore_errors=True)
        else:
            unfinished.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole file of UTF-8, or none. Raises OSError."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
