"""Where this program keeps what it can make again, notes that are kept there, and the digests of files, which are some.

The directory is `$WHISPERTIDE_CACHE`, or the platform's own place for caches. This module does not know what others
keep in it, nor about the Hugging Face cache, which has its own directory and rules.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

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
        known = (read_note(note, key) or {}).get("sha256")
        if isinstance(known, str) and len(known) == 64:
            return known
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    with suppress(OSError):  # a read-only or full cache costs time only
        write_note(note, key, {"sha256": digest})
    return digest


def write_note(path: Path, key: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    """Keep `content` as JSON with the key that it holds for, where it is a file of its own. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**key, **content}, indent=2))  # of two processes at once the later one's stays


def read_note(path: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is kept there for this key, which is in it; None: nothing, or for another key, or damaged."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) and kept.items() >= key.items() else None
