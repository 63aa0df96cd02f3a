"""Where this program keeps what it can make again, and the digests of files, which it keeps there.

The directory is `$WHISPERTIDE_CACHE`, or the platform's own place for caches. This module does not know what others
keep in it, nor about the Hugging Face cache, which has its own directory and rules.
"""

import hashlib
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from whispertide.atomic import write_text
from whispertide.errors import CheckpointError


def cache_dir() -> Path:
    """The cache directory of whispertide; it may not exist yet.

    `$WHISPERTIDE_CACHE` if set; else `whispertide` in `$XDG_CACHE_HOME` or `~/.cache` (Linux and other Unix),
    in `~/Library/Caches` (macOS), in `%LOCALAPPDATA%` (Windows).
    """
    chosen = os.environ.get("WHISPERTIDE_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "whispertide" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "whispertide"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "whispertide"


def file_digest(path: Path) -> str:
    """SHA-256 of a file's whole content, in hexadecimal.

    Computed once per (path, size, modification time) and remembered in the cache directory; where that cannot be
    written the digest is computed each time. Raises `CheckpointError` when the file cannot be read.
    """
    path = path.resolve()
    try:
        status = path.stat()
        # A change that leaves size and time as they are goes unnoticed; to read gigabytes at every start would be
        # dearer.
        key = {"path": str(path), "size": status.st_size, "mtime_ns": status.st_mtime_ns}
        note = cache_dir() / "digests" / f"{hashlib.sha256(bytes(path)).hexdigest()[:32]}.json"
        known = _recall(note, key)
        if known is not None:
            return known
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    with suppress(OSError):  # a read-only or full cache costs time only
        _remember(note, {**key, "sha256": digest})
    return digest


def _recall(note: Path, key: dict[str, object]) -> str | None:
    try:
        known = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict):
        return None
    digest = known.pop("sha256", None)
    return digest if known == key and isinstance(digest, str) and len(digest) == 64 else None


def _remember(note: Path, content: dict[str, object]) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    write_text(note, json.dumps(content))  # two processes may do so at once; both write the same
