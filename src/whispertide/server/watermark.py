"""The journal's newest number in a file next to it, so that a journal that has gone back is noticed.

SQLite forgets every transaction after a damaged one in its log, and says nothing. So each transaction of the journal
has a number. Once it is written, its number is written here, and only then does a client learn of it. A journal with a
lower number than this file has lost something that a client may have been told.
"""

import os
import zlib
from dataclasses import dataclass
from pathlib import Path

_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Watermark:
    """A number that is overwritten in place: it needs no room on a full disk."""

    path: Path

    def read(self) -> int | None:
        """Read the number; None if the file is missing or damaged. Raises `OSError`."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        number = text[:_DIGITS]
        return int(number) if number.isdigit() and text == _line(number) else None

    def write(self, number: int) -> None:
        """Write the number. It survives the death of the process, as the journal does. Raises `OSError`."""
        # Not emptied first: all lines have one length, so that at no moment there is none.
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.write(file, _line(b"%0*d" % (_DIGITS, number)))
        finally:
            os.close(file)


def _line(number: bytes) -> bytes:
    return number + b" %08x\n" % zlib.crc32(number)
