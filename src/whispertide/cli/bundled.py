"""The recording that the package brings along, with its transcript."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from whispertide.errors import AudioFileError

if TYPE_CHECKING:
    from whispertide.types import FloatArray


@contextmanager
def bundled_files() -> Iterator[tuple[Path, Path]]:
    """Open the bundled recording and its transcript. Raises `AudioFileError` if the package lacks them."""
    with as_file(files("whispertide") / "bundled" / "audio") as folder:
        recording, transcript = folder / "demo.flac", folder / "demo.txt"
        if not recording.is_file():
            raise AudioFileError(f"the bundled recording {recording} is missing; install whispertide again")
        yield recording, transcript


def is_bundled_recording(name: str) -> bool:
    """True if a path leads to the recording of the package."""
    with bundled_files() as (recording, _):
        return os.path.exists(name) and recording.samefile(name)


def bundled_audio() -> "FloatArray":
    """The bundled recording, 16 kHz mono [n]."""
    from whispertide.audio.file import load_audio

    with bundled_files() as (recording, _):
        return load_audio(recording)
