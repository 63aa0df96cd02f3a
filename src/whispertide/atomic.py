"""Files and folders that are complete or not there at all, and one message for failed writes."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from whispertide.errors import OutputError, WhispertideError

_LONGEST_NAME = 255  # bytes, on all usual file systems
_ADDED = 40  # what a temporary name has more than the file's, and some room


def shortened(name: str, room: int = _ADDED) -> str:
    """Shorten the name of a file to leave room for so many more bytes in a longer name."""
    encoded = os.fsencode(name)
    longest = _LONGEST_NAME - room
    return name if len(encoded) <= longest else encoded[:longest].decode("utf-8", "ignore")


def printable(name: str) -> str:
    """Make the name of a file valid UTF-8: surrogates cannot be printed or written."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # whatever the locale has for files


def check_place(path: Path) -> None:
    """Raise OSError if nothing can be written at `path`, before there is anything to write. Missing folders above it
    can be made later.
    """
    path.exists()  # an OSError for a name that is too long
    above = next(folder for folder in Path(os.path.abspath(path)).parents if folder.exists())
    with TemporaryFile(dir=above):
        pass


CHOOSE_OUTPUT = "choose another with --output"
CHOOSE_CACHE = "make it writable, or set WHISPERTIDE_CACHE to another folder"


@contextmanager
def writing(place: Path | str, advice: str = "choose another place, or make room") -> Iterator[None]:
    """Turn an OSError of the block into an `OutputError`, which says that `place` cannot be written and gives `advice`.

    An error of the tree passes, and so does one that says that the reader of our output has gone, which is no fault.
    """
    try:
        yield
    except (WhispertideError, BrokenPipeError):  # some of the tree are OSErrors, too, and say more already
        raise
    except OSError as error:
        raise OutputError(f"{place} cannot be written: {error.strerror or error}; {advice}") from error


def is_special(path: Path) -> bool:
    """True for a pipe or a device, also at the end of a link: what is written goes into it, and no file takes its
    place.
    """
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path in the same folder to write a file or a folder to. In the end it takes the name of `path` and
    replaces what is there (a folder: only an empty one); after an error it is removed. A pipe or a device is yielded
    itself. Raises OSError.
    """
    if is_special(path):
        yield path
        return
    whole = Path(os.path.abspath(path))  # "." has no name
    unfinished = whole.with_name(f".{shortened(whole.name)}.{os.getpid()}.part")
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
