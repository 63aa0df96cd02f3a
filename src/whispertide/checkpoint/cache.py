"""The cache directory, small notes that are kept there, and the digests of files, which are such notes.

The directory is `$WHISPERTIDE_CACHE`, or the platform's own place for caches, or a spare one where nobody can write
there. This module does not know what others keep in it, nor about the Hugging Face cache, which has its own directory
and rules.
"""

import errno
import hashlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from whispertide.atomic import CHOOSE_CACHE, check_place, write_text
from whispertide.errors import CheckpointError, OptionError

_FULL = (errno.ENOSPC, errno.EDQUOT)


def cache_dir() -> Path:
    """The cache directory of whispertide; it may not exist yet, and may be impossible to make (`cache_path`).

    `$WHISPERTIDE_CACHE` if set; else `whispertide` in `$XDG_CACHE_HOME` or `~/.cache` (Linux and other Unix),
    in `~/Library/Caches` (macOS), in `%LOCALAPPDATA%` (Windows). Raises `OptionError` where the variable names the home
    of a user that is not known here.
    """
    chosen = os.environ.get("WHISPERTIDE_CACHE")
    if chosen:
        return _in_home(chosen)
    try:
        home = Path.home()
    except RuntimeError:  # a user without a name and a home, as containers have
        return spare_dir()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "whispertide" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "whispertide"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "whispertide"


def _in_home(chosen: str) -> Path:
    try:
        return Path(chosen).expanduser()
    except RuntimeError as error:
        raise OptionError(
            f"expected a folder in WHISPERTIDE_CACHE; got {chosen!r}, and that user has no home here: set the "
            "whole path"
        ) from error


def cache_path(*parts: str) -> Path:
    """The path for something of this name: in `cache_dir()`, or in a spare place if nobody can write there, as in a
    container whose user has no home. A `UserWarning` tells of that once.
    """
    usual = cache_dir()
    if os.path.exists(usual.joinpath(*parts)) or (problem := write_problem(usual)) is None:
        return usual.joinpath(*parts)
    _tell(usual, problem)
    return spare_dir().joinpath(*parts)


def write_problem(folder: Path) -> str | None:
    """The reason why nothing can be written in a folder, which may not exist yet; None if it can. A full disk can be
    emptied, and is no reason.
    """
    try:
        check_place(folder / "anything")
    except OSError as error:
        return None if error.errno in _FULL else error.strerror or str(error)
    return None


@cache
def _tell(folder: Path, problem: str) -> None:
    text = f"{folder} cannot be written ({problem}); {spare_dir()} is used instead: {CHOOSE_CACHE}"
    warnings.warn(text, stacklevel=3)


@cache
def spare_dir() -> Path:
    """A folder of the user among the system's temporary ones: the same for later runs, until the system clears it."""
    if not hasattr(os, "getuid"):  # Windows has temporary folders for each user
        folder = Path(tempfile.gettempdir()) / "whispertide"
        folder.mkdir(exist_ok=True)
        return folder
    folder = Path(tempfile.gettempdir()) / f"whispertide-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    about = folder.lstat()
    # Others may write next to it. What they put there under its name must not become a graph that is run.
    mine = folder.is_dir() and not folder.is_symlink() and about.st_uid == os.getuid() and not about.st_mode & 0o022
    return folder if mine else Path(tempfile.mkdtemp(prefix="whispertide-"))


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
        note = cache_path("digests", f"{hashlib.sha256(bytes(path)).hexdigest()[:32]}.json")
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
    """Write `content` as JSON with the key that it holds for. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**key, **content}, indent=2))  # of two processes at once the later one's stays


def read_note(path: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """The note for this key, which is part of it; None: there is none, or it has another key, or is damaged."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) and kept.items() >= key.items() else None
