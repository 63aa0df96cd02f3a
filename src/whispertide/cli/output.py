"""Output files of transcripts: their names, checks before any work is done, and writing whole files or none.

A file appears under its name only when it is complete: it is written next to it as `NAME.….part` and renamed. What was
confirmed before an interrupt goes to `talk.partial.txt`, so that it is never taken for the whole of `talk.txt`.
Knows nothing of audio, models or transcripts.
"""

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO, get_args

from whispertide.atomic import CHOOSE_OUTPUT, check_place, is_special, shortened, writing
from whispertide.errors import OptionError, OutputError
from whispertide.options import WHISPER_JSON, file_extension

STDIN = "-"
FormatName = Literal["txt", "srt", "vtt", "json", "whisper-json", "jsonl", "tsv"]
FORMATS: tuple[str, ...] = get_args(FormatName)
_EXTENSIONS = tuple(dict.fromkeys(map(file_extension, FORMATS)))
_CHOOSE = "choose another output"
_JOINABLE = ("txt", "json", "jsonl")  # the formats of which several fit into one stream


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of one transcript, and its format; `path` None is standard output, `shared` if others go there
    too.
    """

    path: Path | None
    format: str
    shared: bool = False


def plan_targets(inputs: Sequence[str], output: str | None, form: str | None) -> list[Target]:
    """Plan one target per input, and check it: raises `OptionError` for a combination without a meaning, `OutputError`
    for a file that could not be written.

    `output` is a folder if it exists as one or ends with a separator; the files in it are named after their inputs.
    """
    if output is None:
        chosen = form or "txt"
        if len(inputs) > 1 and chosen not in _JOINABLE:
            raise OptionError(f"several {chosen} transcripts cannot share one output; use --output FOLDER/")
        return [Target(None, chosen, shared=len(inputs) > 1)] * len(inputs)
    if not output:
        raise OptionError("expected a file or a folder for --output; got an empty name")
    with writing(output, CHOOSE_OUTPUT):
        return _plan(inputs, output, form)


def plan_formats(inputs: Sequence[str], output: str | None, forms: Sequence[str]) -> list[tuple[Target, ...]]:
    """Plan the targets of each input, one of each format, or one if none is named. Several need a folder as output.

    Raises what `plan_targets` raises.
    """
    if len(forms) > 1 and not (output and _is_folder(output)):
        got = "none" if output is None else repr(output)
        raise OptionError(f"expected --output to be a folder (ending with /) for {len(forms)} formats; got {got}")
    if {"json", WHISPER_JSON} <= {*forms}:
        raise OptionError(f"expected json or {WHISPER_JSON}, which both become .json; got both: leave out one")
    return list(zip(*(plan_targets(inputs, output, form) for form in forms or (None,)), strict=True))


def as_folder(output: str | None) -> str | None:
    """Take the output as a folder, which may yet be made; one that is named as a file of some format stays a file."""
    return f"{output}/" if output and _extension(Path(output)) not in _EXTENSIONS else output


def _extension(path: Path) -> str:
    return path.suffix.lstrip(".").lower()


def _is_folder(output: str) -> bool:
    return output.endswith(("/", os.sep)) or Path(output).is_dir()


def _plan(inputs: Sequence[str], output: str, form: str | None) -> list[Target]:
    folder = Path(output)
    if _is_folder(output):
        targets = [Target(path, form or "txt") for path in _names(inputs, folder, form or "txt")]
        _check_folder(folder)
    else:
        if len(inputs) > 1:
            raise OptionError(
                f"expected --output to be a folder (ending with /) for {len(inputs)} files; got {output!r}"
            )
        targets = [Target(folder, _format_of(folder, form))]
    for target in targets:
        if target.path is not None:
            _check_other(target.path, inputs)
            check_file(target.path)
    return targets


def _format_of(path: Path, form: str | None) -> str:
    """The chosen format, else the one of a file's extension; text without one.

    Raises `OptionError` for an extension that is unknown, and for one that names another format than is asked for.
    """
    suffix = _extension(path)
    if form is not None:
        if suffix in _EXTENSIONS and suffix != file_extension(form):
            other = path.with_suffix(f".{file_extension(form)}")
            raise OptionError(
                f"expected an output that ends with {other.suffix} for --format {form}; got {path.name!r}: write to "
                f"{other.name}, or leave out --format for {suffix}"
            )
        return form
    if suffix and suffix not in _EXTENSIONS:
        raise OptionError(
            f"expected an output that ends with .{', .'.join(_EXTENSIONS)}; got {path.name!r}: choose one of them, or "
            "set the format with --format"
        )
    if (name := path.name) in FORMATS:  # `-o srt`, and `-osrt` of whisper.cpp
        raise OptionError(f"expected a file or a folder for --output; got {name!r}, a format: choose it with -f {name}")
    return suffix or "txt"


def _names(inputs: Sequence[str], folder: Path, form: str) -> list[Path]:
    """Name the outputs: `talk.wav` -> `talk.txt`; inputs that share a stem keep their extension (`talk.wav.txt`), then
    get numbers.
    """
    stems = [_stem(name) for name in inputs]
    folded = [stem.casefold() for stem in stems]  # some file systems do not tell A from a
    taken: set[str] = set()
    paths = []
    for name, stem in zip(inputs, stems, strict=True):
        base = stem if folded.count(stem.casefold()) == 1 else Path(name).name
        unique, number = base, 1
        while unique.casefold() in taken:
            number += 1
            unique = f"{base}-{number}"
        taken.add(unique.casefold())
        paths.append(folder / f"{unique}.{file_extension(form)}")
    return paths


def _stem(name: str) -> str:
    return "stdin" if name == STDIN else Path(name).stem


def _check_folder(folder: Path) -> None:
    """Make the folder if only it is missing; its parent must be there, as a misspelt path would lie anywhere."""
    if folder.is_dir():
        return
    if folder.exists():
        raise OutputError(f"expected a folder for the output; {folder} is a file")
    with writing(folder, "make it first, or choose another"):
        folder.mkdir()


def _check_other(path: Path, inputs: Sequence[str]) -> None:
    """Check that the output is none of the inputs."""
    for name in inputs:
        if name != STDIN and path.exists() and os.path.exists(name) and path.samefile(name):
            raise OutputError(f"the output {path} is one of the inputs; choose another name")


def check_file(path: Path) -> None:
    """Check an output file before the work is done. Raises `OutputError`."""
    with writing(path, _CHOOSE), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.stat()  # an OSError for a name that is too long, or a link to itself
    if path.is_dir():
        raise OutputError(f"expected a file for the output; {path} is a folder; choose another name")
    if is_special(path):
        return
    if path.exists() and not (
        os.access(path, os.W_OK) and path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise OutputError(f"the output {path} is read-only; remove it, or choose another name")
    parent = path.resolve().parent
    if parent.exists() and not parent.is_dir():
        raise OutputError(f"expected a folder for the output; {path.parent} is a file; choose another name")
    if not parent.is_dir():
        raise OutputError(f"the output's folder {path.parent} does not exist; make it first")
    with writing(path.parent, _CHOOSE):
        check_place(path.resolve())


def check_new(path: Path) -> None:
    """Refuse an existing file, for audio that cannot be recorded again. Raises `OutputError`."""
    if path.exists() and not is_special(path):
        raise OutputError(f"the output {path} exists; choose another name, or replace it with --overwrite")


def partial_path(path: Path) -> Path:
    """The path of an interrupted transcript: `talk.txt` -> `talk.partial.txt`."""
    ending = f".partial{path.suffix}"
    return path.with_name(shortened(path.stem, len(os.fsencode(ending))) + ending)


class Writer:
    """Writes one transcript to its target, text by text; `finish` puts it in its place, leaving without it does not."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._path = target.path
        self._file: TextIO | None = None
        self._temporary: Path | None = None

    @property
    def destination(self) -> str:
        """The name for messages."""
        return "standard output" if self._path is None else str(self._path)

    def write(self, text: str) -> None:
        """Append `text`. Raises `OutputError` when there is no room or no permission."""
        with writing(self.destination):
            file = self._open()
            file.write(text)
            file.flush()

    def finish(self, *, whole: bool = True) -> Path | None:
        """Close and put the file in its place, or in that of a partial one; returns its path.

        Raises `OutputError`; a file that cannot take its name stays under the one it has.
        """
        if self._path is None:
            return None
        with writing(self.destination):
            file = self._open()
            # On a full disk closing tries once more to write what had no room. Of a partial one all before that counts.
            with contextlib.nullcontext() if whole else contextlib.suppress(OSError):
                file.close()
            if self._temporary is None:
                return self._path
            final = self._path if whole else partial_path(self._path)
            self._rename(self._temporary, final.resolve())  # a link stays a link
        return final

    def _rename(self, temporary: Path, final: Path) -> None:
        self._temporary = None  # from here on it is not to be removed
        with contextlib.suppress(OSError):  # some file systems, such as those of Windows, know no modes
            temporary.chmod(_mode_for(final))
        try:
            temporary.replace(final)
        except OSError as error:
            raise OutputError(
                f"cannot write {final}: {error.strerror or error}; the transcript is in {temporary}"
            ) from error

    def discard(self) -> None:
        """Remove an unfinished file."""
        if self._path is None:
            return
        with contextlib.suppress(OSError):  # what could not be written need not be written now
            if self._file is not None:
                self._file.close()
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)
            self._temporary = None

    def _open(self) -> TextIO:
        if self._file is None:
            self._file = self._start()
        return self._file

    def _start(self) -> TextIO:
        if self._path is None:
            return sys.stdout
        if is_special(self._path):
            return self._path.open("w", encoding="utf-8", newline="\n")
        real = self._path.resolve()
        handle, name = tempfile.mkstemp(prefix=f"{shortened(real.name)}.", suffix=".part", dir=real.parent)
        self._temporary = Path(name)
        return os.fdopen(handle, "w", encoding="utf-8", newline="\n")


def _mode_for(path: Path) -> int:
    """The mode of the file that is replaced, else what a new file would get."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
