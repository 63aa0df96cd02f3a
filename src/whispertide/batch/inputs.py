"""Find recordings by names of files, folders, patterns, addresses and manifests.

    talk.mp3                    a file, whatever it is called
    talks                       a folder: the recordings in it and in its folders
    'talks/**/*.wav'            a pattern: `*`, `?`, `[ab]`, and `**` for any folders; `?` not in one of the web
    s3://bucket/talks           any of these by an address that fsspec opens
    list.jsonl                  a manifest: one JSON object per line with `audio`, and `output` where that has a name

Knows nothing of what is done with a recording.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from whispertide.audio.extensions import AUDIO
from whispertide.errors import AudioFileError, OptionError

MANIFEST = ".jsonl"
_MAGIC = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Found:
    """A recording, and the place of its transcript."""

    name: str
    place: PurePosixPath
    size: int = 0


def is_address(name: str) -> bool:
    """True if `name` is an address for fsspec, such as `s3://bucket/talk.mp3`, and no path."""
    return "://" in name and not os.path.exists(name)


def without_query(name: str) -> str:
    """An address of the web without its query, such as a signature; any other name as it is."""
    return name.partition("?")[0] if name.startswith(("http://", "https://")) else name


def find_recordings(names: Iterable[str]) -> list[Found]:
    """Find the recordings that `names` stand for, each once and in the order of the names.

    A recording that is not there is among them: it fails by itself, and the others are transcribed. A `UserWarning`
    tells of each folder that cannot be read and is left out. Raises `AudioFileError` for a folder or pattern without
    recordings, for anything else that is not there, and for an address that cannot be listed, `OptionError` for a name
    that cannot be meant and for a manifest that cannot be read or gives one recording two transcripts.
    """
    found: dict[str, Found] = {}
    for name in names:
        for recording in _in_one(name):
            found.setdefault(recording.name, recording)
    return list(found.values())


def check_any(recordings: Sequence[Found]) -> None:
    """Raise `AudioFileError` if none of the recordings is there, before a model is loaded for them."""
    if any(is_address(each.name) or os.path.exists(each.name) for each in recordings):
        return
    if len(recordings) > 1:
        raise AudioFileError(f"{recordings[0].name}: there is no such file, nor any of the others; check the paths")
    raise AudioFileError(f"{recordings[0].name}: there is no such file; check the path")


def check_addresses(recordings: Iterable[Found]) -> None:
    """Raise `OptionError` if the package is missing that opens one kind of the addresses, before a model is loaded."""
    one_of_each = {each.name.partition("://")[0]: each.name for each in recordings if is_address(each.name)}
    for name in one_of_each.values():
        _open_system(name)


def _in_one(name: str) -> Iterable[Found]:
    if name in ("", "-"):
        raise OptionError(f"expected a file, a folder, a pattern, an address or a manifest; got {name!r}")
    if name.endswith(MANIFEST):
        return _in_manifest(name)
    if is_address(name):
        return _at_address(name)
    path = os.path.abspath(name)
    if os.path.isdir(path):
        return _in_folder(path, name)
    if not os.path.exists(path) and _MAGIC & set(name):
        return _matching(path, name)
    if not os.path.lexists(path) and not _is_recording(path):
        raise AudioFileError(f"{name}: expected a folder or a recording; there is none of that name")
    return [Found(path, PurePosixPath(Path(path).stem), _size(path))]


def _at_address(name: str) -> Iterable[Found]:
    plain = without_query(name)
    if _MAGIC & set(plain):
        return _matching(name, name)
    if _is_recording(plain):  # without asking: some servers answer such a question with the whole file
        return [Found(name, PurePosixPath(PurePosixPath(plain).stem))]
    return _in_folder(name, name)


# --- folders and patterns ---------------------------------------------------------------------------------------------


def _in_folder(place: str, name: str) -> list[Found]:
    system, root = _open_system(place)
    with _as_audio_errors(name):
        files = system.find(root, detail=True)
    return _recordings(system, files, root, name)


def _matching(pattern: str, name: str) -> list[Found]:
    system, path = _open_system(pattern)
    pieces = path.split("/")
    fixed = next(
        number
        for number, piece in enumerate(pieces)
        if _MAGIC & set(piece) and not (_is_local(system) and os.path.exists("/".join(pieces[: number + 1])))
    )
    root = "/".join(pieces[:fixed])
    with _as_audio_errors(name):
        files = _glob(system, path, root)
    return _recordings(system, files, root, name)


def _glob(system: Any, pattern: str, root: str) -> Mapping[str, Mapping[str, Any]]:
    """The files that match a pattern; its folder `root` is none, whatever brackets are in the name."""
    if not _MAGIC & set(root):
        found: Mapping[str, Mapping[str, Any]] = system.glob(pattern, detail=True)
        return found
    from fsspec import AbstractFileSystem
    from fsspec.implementations.dirfs import DirFileSystem

    # Not its own method, which would put the folder in front of the pattern.
    below = AbstractFileSystem.glob(DirFileSystem(root, system), pattern[len(root) :].lstrip("/"), detail=True)
    return {f"{root}/{path}": about for path, about in below.items()}


def _recordings(system: Any, files: Mapping[str, Mapping[str, Any]], root: str, name: str) -> list[Found]:
    """The recordings among the listed `files`, placed as they lie below `root`."""
    found = []
    for path, about in sorted(files.items()):
        place = PurePosixPath(path[len(root) :].lstrip("/"))
        hidden = any(part.startswith(".") for part in place.parts)
        if _is_file(path, about) and not hidden and _is_recording(path):
            address = path if _is_local(system) else system.unstrip_protocol(path)
            found.append(Found(address, place.with_suffix(""), about.get("size") or 0))
    if not found:
        raise AudioFileError(f"{name}: expected recordings there; there are none (they are known by their extensions)")
    return found


def _is_file(path: str, about: Mapping[str, Any]) -> bool:
    # fsspec calls every link on this machine "other", whatever it leads to.
    return about["type"] == "file" or (about.get("islink", False) and os.path.isfile(path))


def _is_recording(name: str) -> bool:
    return PurePosixPath(name).suffix.lstrip(".").lower() in AUDIO


def _is_local(system: Any) -> bool:
    return "file" in ((system.protocol,) if isinstance(system.protocol, str) else system.protocol)


def _open_system(place: str) -> tuple[Any, str]:
    """Open fsspec's file system for a path or an address; returns it and the path in it. Raises `OptionError` if it has
    none.
    """
    import fsspec

    if not is_address(place):  # a path may hold "::", which chains addresses
        system = fsspec.filesystem("file", skip_instance_cache=True)
        system.ls = partial(_list_strictly, system.ls)
        return system, place.replace(os.sep, "/")
    try:
        system, path = fsspec.core.url_to_fs(place)
    except (ImportError, ValueError) as error:
        raise OptionError(f"{place}: expected an address that fsspec can open; {error}") from error
    return system, path.rstrip("/")


def _list_strictly(ls: Callable[..., Any], path: str, **options: Any) -> Any:
    """List with fsspec's `ls`; report an unreadable folder, which fsspec would skip silently."""
    try:
        return ls(path, **options)
    except FileNotFoundError:
        raise
    except OSError as error:
        if not PurePosixPath(path).name.startswith("."):
            warnings.warn(f"{path}: the folder cannot be read ({error.strerror}); it is left out", stacklevel=2)
        raise


@contextmanager
def _as_audio_errors(name: str) -> Iterator[None]:
    """Turn any error of listing a store into an `AudioFileError` that names it: each store has errors of its own."""
    try:
        yield
    except Exception as error:
        raise AudioFileError(f"{name}: it cannot be listed ({type(error).__name__}: {error})") from error


# --- manifests --------------------------------------------------------------------------------------------------------


def _in_manifest(name: str) -> Iterator[Found]:
    """Read a manifest. Paths are relative to it. Every line counts: a list with an error is refused."""
    places: dict[str, PurePosixPath] = {}
    folder = name.rpartition("/")[0] if is_address(name) else str(Path(os.path.abspath(name)).parent)
    filled = [(number, line) for number, line in enumerate(_lines(name), start=1) if line.strip()]
    if not filled:
        raise OptionError(f"{name}: expected a manifest, one JSON object per line; it is empty")
    for number, line in filled:
        try:
            found = _parse_entry(json.loads(line), folder)
            if (before := places.setdefault(found.name, found.place)) != found.place:
                raise ValueError(f"expected one 'output' for {found.name}; got {before} before, and {found.place} here")
            yield found
        except (ValueError, RecursionError) as error:
            raise OptionError(f"{name}, line {number}: {error}") from error


def _lines(name: str) -> list[str]:
    try:
        if is_address(name):
            system, path = _open_system(name)
            content: bytes = system.cat_file(path)
        else:
            content = Path(name).read_bytes()
        # Not `splitlines`, which also splits at separators that a line of JSON may hold.
        return content.decode("utf-8-sig").split("\n")
    except OptionError:
        raise
    except FileNotFoundError as error:
        raise OptionError(
            f"{name}: expected a manifest, one JSON object per line; there is no such file: check the path"
        ) from error
    except Exception as error:
        # Every store has errors of its own.
        raise OptionError(
            f"{name}: expected a manifest, one JSON object per line; it cannot be read: {error}"
        ) from error


def _parse_entry(entry: Any, folder: str) -> Found:
    """Read a line. Raises ValueError with the reason."""
    if not isinstance(entry, dict):
        raise ValueError(f"expected a JSON object; got {entry!r:.60}")
    audio = entry.get("audio") or entry.get("file")
    if not isinstance(audio, str):
        got = "it has none" if audio is None else f"got {audio!r:.60}"
        raise ValueError(f"expected the path or the address of a recording as 'audio'; {got}")
    # A start of 0 is the whole recording's; an end cannot be known to be.
    if entry.get("start") or entry.get("end") is not None:
        raise ValueError(
            "expected a whole recording; it has 'start' or 'end', and no part of a file can be chosen here"
        )
    name = audio if is_address(audio) else f"{folder}/{audio}" if is_address(folder) else os.path.join(folder, audio)
    place = _transcript_path(entry.get("output"), audio)
    if not _can_be_named(str(place)):
        raise ValueError(f"expected a name that a file can have, for its transcript; got {str(place)!r:.60}")
    return Found(name, place, _size(name))


def _transcript_path(output: Any, audio: str) -> PurePosixPath:
    """The place of the transcript: named by the line, else as the recording lies below the manifest, else by name."""
    path = PurePosixPath(without_query(audio).replace(os.sep, "/"))
    if output is None:
        inside = not (is_address(audio) or path.is_absolute() or Path(audio).is_absolute() or ".." in path.parts)
        return path.with_suffix("") if inside else PurePosixPath(path.stem)
    if not isinstance(output, str) or not output.strip("./"):
        raise ValueError(f"expected a name as 'output'; got {output!r:.60}")
    place = PurePosixPath(output)
    if place.is_absolute() or ".." in place.parts:
        raise ValueError(f"expected an 'output' inside the folder of transcripts; got {output!r:.60}")
    return place


def _can_be_named(name: str) -> bool:
    """True if a file can have this name: JSON can hold what no name can."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def _size(name: str) -> int:
    try:
        return 0 if is_address(name) else os.path.getsize(name)
    except OSError:
        return 0
