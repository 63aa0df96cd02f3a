"""Checks of a file's claims about its tensors: it may be damaged, or lie.

A shape can ask for more numbers than any machine has, or be so long that to multiply it takes minutes; a name or a
value can fill megabytes of an error. Nothing here knows about formats.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from whispertide.errors import CheckpointError, CheckpointNotFoundError

MOST_DIMS = 8  # a Whisper's tensors have three
_LONGEST = 1 << 40  # numbers
_QUOTED = 60  # characters


def count_elements(shape: tuple[object, ...], most: int) -> int:
    """The number of elements in a tensor of this shape.

    Raises `ValueError` for more than `most`, more than `MOST_DIMS` dimensions, and lengths that are no counts.
    """
    if len(shape) > MOST_DIMS:
        raise ValueError(f"a tensor of {len(shape)} dimensions")
    # Exactly int: True is one, too, and no length. And before they are multiplied: one may have millions of digits.
    lengths = [length for length in shape if type(length) is int and 0 <= length <= _LONGEST]
    if len(lengths) != len(shape):
        raise ValueError(f"a tensor of shape {quote(shape)}")
    count = math.prod(lengths)
    if count > most:
        raise ValueError(f"a tensor of more than {most} numbers, the most that fit")
    return count


def shorten(text: str | Exception, width: int = _QUOTED) -> str:
    """Shorten a text from a file or a library for a message: at most `width` characters, in one line."""
    line = "".join(char if char.isprintable() else " " for char in str(text)[: width + 1])
    return line if len(line) <= width else f"{line[: width - 3]}..."


def quote(value: object) -> str:
    """Quote a value of a file in a message, shortened."""
    try:
        return shorten(repr(value))
    except (ValueError, RecursionError):  # a number of more digits than Python writes; a nesting beyond the stack
        return f"a {type(value).__name__} beyond measure"


def read_exactly(file: BinaryIO, count: int) -> bytes:
    """Read the next bytes of a file. Raises `EOFError` if there are fewer. `count` must be known to be small."""
    found = file.read(count)
    if len(found) != count:
        raise EOFError("it ends early")
    return found


def read_numbers(path: Path, dtype: npt.DTypeLike, count: int, offset: int) -> npt.NDArray[Any]:
    """Read `count` numbers [count] of a file of weights, from byte `offset` on.

    Raises `CheckpointError` when the file cannot be read any more.
    """
    try:
        found = np.fromfile(path, dtype, count, offset=offset)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if found.size != count:
        raise CheckpointError(f"{path} became shorter while it was in use: download the model again")
    return found


def check_regular(path: Path, most: int) -> None:
    """Raises `ValueError` for a device or a pipe, which may never end, a folder, and a file of more than `most` bytes;
    `OSError` if there is none. Nothing is opened.
    """
    status = path.stat()
    if not S_ISREG(status.st_mode):
        raise ValueError("it is not a file, but a device or a folder")
    if status.st_size > most:
        raise ValueError(f"expected at most {most} bytes; it has {status.st_size}")


def regular_bytes(path: Path, most: int) -> bytes:
    """Read a file. Raises as `check_regular` does."""
    check_regular(path, most)
    with path.open("rb") as file:
        return file.read(most)


@contextmanager
def open_weights(path: Path, form: str) -> Iterator[BinaryIO]:
    """Open a file of weights; errors while it is read name the file, and say that it may be no `form`.

    Raises `CheckpointNotFoundError` when it is missing, and `CheckpointError`.
    """
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise CheckpointNotFoundError(f"expected the weights {path}, but there is no such file") from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    except CheckpointError:
        raise
    except (EOFError, ValueError) as error:
        raise CheckpointError(
            f"{path} is damaged or truncated ({shorten(error)}), or no {form}: download it again"
        ) from error


def first_of(names: Iterable[str], count: int = 3) -> str:
    """Shorten the first of some names."""
    listed = list(names)
    return ", ".join(shorten(name) for name in listed[:count]) + (" ..." if len(listed) > count else "")
