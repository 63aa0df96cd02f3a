"""A folder among the inputs stands for the recordings in it. Knows file names alone; nothing is opened."""

from collections.abc import Iterable
from pathlib import Path

from whispertide.errors import AudioFileError

# What recordings are usually called. A folder may hold notes and pictures as well; any file can be named by itself.
_SOUND = (
    "aac ac3 aif aifc aiff amr ape au caf eac3 flac m4a m4b mka mp2 mp3 mpga oga ogg opus spx tta voc w64 wav weba wma"
)
_FILM = "3gp avi flv m2ts m4v mkv mov mp4 mpeg mpg mts ogv vob webm wmv"
AUDIO = frozenset(f"{_SOUND} {_FILM}".split(" "))


def with_folders_opened(names: Iterable[str]) -> list[str]:
    """`names`, with each folder replaced by the audio and video files in it, by name; folders inside it are left out.

    A folder without any stays what it is, so that whoever reads it can complain. Raises `AudioFileError` for one that
    cannot be listed.
    """
    found: list[str] = []
    for name in names:
        is_folder = name != "" and Path(name).is_dir()  # Path("") is the working directory
        found += (is_folder and _recordings(Path(name))) or [name]
    return found


def _recordings(folder: Path) -> list[str]:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise AudioFileError(
            f"{folder}: the folder cannot be read ({error.strerror}); check its permissions"
        ) from error
    return [
        str(path)
        for path in paths
        if path.suffix.lstrip(".").lower() in AUDIO and not path.name.startswith(".") and path.is_file()
    ]
