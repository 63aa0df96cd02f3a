"""Text files that people write for us, with one thing a line: API keys, key terms."""

import re
from pathlib import Path

_COMMENT = re.compile(r"(^|\s)#.*")  # a key or a term may have the sign within: C#


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file in UTF-8 that are not empty, without comments (# first or after a space).

    Raises `OSError`, and `UnicodeDecodeError` if it is no such text.
    """
    lines = path.read_text(encoding="utf-8-sig").splitlines()  # some editors write a mark first
    return list(filter(None, (_COMMENT.sub("", line).strip() for line in lines)))
