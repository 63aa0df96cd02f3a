"""The folder of transcripts: the finished ones, their provenance, and the report of every run.

    OUT/talks/monday.txt        a transcript; whole, or not there
    OUT/_batch/options.json     what made these transcripts; another model or format is refused
    OUT/_batch/report.jsonl     a line for each recording that is done with; of several the last counts
    OUT/_batch/lock             held while a run writes here

A transcript is written under another name, brought to the disk, and renamed; only then comes its line. So whatever is
killed, a transcript is whole or missing, and one without a line is made again.
"""

import errno
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TextIO

from filelock import FileLock, Timeout

from whispertide.atomic import CHOOSE_OUTPUT, check_place, replacing, shortened, write_text, writing
from whispertide.batch.plan import Task
from whispertide.batch.worker import Outcome
from whispertide.errors import OutputError
from whispertide.formats.files import HOLD_OTHERS, other_name, other_path, with_others

_STATE = "_batch"
_LATER = {  # what folders of earlier versions do not say
    **{"languages": "", "keyterms": "", "speakers": 0},
    **{"translate_to": "", "correct": False, "translator": "", "multichannel": False},
}
_UNFINISHED = re.compile(r"\.(?P<name>.+)\.\d+\.part")  # of `atomic.replacing`


@dataclass(frozen=True, slots=True)
class Provenance:
    """All that the text of a transcript depends on besides its recording."""

    model: str
    weights: str
    precision: str
    format: str
    language: str | None
    task: str
    prompt: str
    beam: int = 1
    languages: str = ""
    keyterms: str = ""
    speakers: int = 0
    translate_to: str = ""
    correct: bool = False
    translator: str = ""
    multichannel: bool = False

    def paths(self, output: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """The path of a transcript, and of each translation and correction that lies next to it."""
        wanted = (*((None,) if self.correct else ()), *((self.translate_to,) if self.translate_to else ()))
        return with_others(output, () if self.format in HOLD_OTHERS else map(other_name, wanted))


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the report; `output` is relative to the folder, None if there is no transcript."""

    input: str
    output: str | None
    state: str
    reason: str = ""
    audio_s: float = 0.0


class Archive:
    """A folder that only this run writes into; see `open_archive`."""

    def __init__(self, folder: Path, report: TextIO, entries: Mapping[str, Entry]) -> None:
        self._folder = folder
        self._report = report
        self._entries = dict(entries)

    @property
    def report(self) -> Path:
        """The file with a line per recording."""
        return report_path(self._folder)

    def remaining(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks without a transcript; one that failed in an earlier run is tried again."""
        return [task for task in tasks if self._there(task) is None]

    def entries(self, tasks: Sequence[Task]) -> list[Entry]:
        """The entries of these tasks, from this run or an earlier one."""
        return [self._entries[task.input] for task in tasks if task.input in self._entries]

    def _there(self, task: Task) -> Entry | None:
        entry = self._entries.get(task.input)
        same = entry is not None and entry.output == str(task.output)
        return entry if same and os.path.isfile(self._folder / task.output) else None

    def keep(self, task: Task, outcome: Outcome) -> Entry:
        """Put a transcript in its place, and its line into the report. Raises `OutputError`.

        Where its name is too long for the disk, this recording alone has failed.
        """
        place = self._folder / task.output
        with writing(place, "the same command continues"):
            outcome = _write_transcript(place, outcome)
            output = None if outcome.text is None else str(task.output)
            entry = Entry(task.input, output, outcome.state, outcome.reason, outcome.audio_s)
            # In ASCII: a file name need not be Unicode, and what stands for its other bytes cannot be written as UTF-8.
            self._report.write(json.dumps(asdict(entry)) + "\n")
            self._report.flush()
        self._entries[task.input] = entry
        return entry


def check_folder(folder: Path) -> None:
    """Raise `OutputError` if nothing could be kept in `folder`, before there is anything to keep."""
    if not os.path.isdir(folder.parent):
        raise OutputError(f"the folder {folder.parent} does not exist; make it first, or choose another --output")
    with writing(folder, CHOOSE_OUTPUT):
        check_place(folder / _STATE)


def report_path(folder: Path) -> Path:
    """The path of the report in a folder of transcripts."""
    return folder / _STATE / "report.jsonl"


@contextmanager
def open_archive(folder: Path, made: Provenance, tasks: Sequence[Task]) -> Iterator[Archive]:
    """Open the archive in `folder`, which is made if only it is missing.

    Raises `OutputError` where the folder cannot be written, where another run writes there, where transcripts are there
    that other options or other recordings made, or that no batch made.
    """
    check_folder(folder)
    state = folder / _STATE
    with ExitStack() as held:
        with writing(folder, CHOOSE_OUTPUT):  # not around the block: what goes wrong in there says itself what it is
            state.mkdir(parents=True, exist_ok=True)
            held.enter_context(_hold(FileLock(state / "lock"), folder))
            entries = dict(_read(report_path(folder)))
            _check(folder, made, tasks, entries)
            _tidy(folder, tasks)
            report = held.enter_context(_open_for_append(report_path(folder)))
            _end_line(report_path(folder), report)
        yield Archive(folder, report, entries)


@contextmanager
def _open_for_append(path: Path) -> Iterator[TextIO]:
    file = path.open("a", encoding="utf-8", newline="\n")
    try:
        yield file
    finally:
        with suppress(OSError):  # every line is flushed, so this is one that failed, which was told of, once more
            file.close()


@contextmanager
def _hold(lock: FileLock, folder: Path) -> Iterator[None]:
    try:
        # Without waiting: the other run may take days.
        lock.acquire(timeout=0)
    except Timeout:
        raise OutputError(f"another run writes into {folder}; wait for its end, or choose another --output") from None
    try:
        yield
    finally:
        lock.release()


def _check(folder: Path, made: Provenance, tasks: Sequence[Task], entries: Mapping[str, Entry]) -> None:
    options = folder / _STATE / "options.json"
    for task in tasks:
        if task.output.parts[0].casefold() == _STATE:  # some file systems do not tell A from a
            raise OutputError(f"the folder {_STATE} in {folder} is for the report; rename the one of {task.input}")
    if not options.exists():
        _check_free(folder, made, tasks)
        write_text(options, json.dumps(asdict(made), ensure_ascii=False, indent=2) + "\n")
        return
    before = _as_json(options.read_text(encoding="utf-8"))
    changes = [
        f"{name}: {before.get(name)!r} then, {value!r} now"
        for name, value in asdict(made).items()
        if before.get(name, _LATER.get(name)) != value
    ]
    if changes:
        raise OutputError(
            f"the transcripts in {folder} were made with other options ({'; '.join(changes)}): use those, or "
            "choose another --output"
        )
    _check_owners(folder, made, tasks, entries.values())


def _check_owners(folder: Path, made: Provenance, tasks: Iterable[Task], entries: Iterable[Entry]) -> None:
    owners: dict[PurePosixPath, tuple[str, str]] = {}
    for entry in entries:
        if entry.output is not None:
            transcript, *others = made.paths(PurePosixPath(entry.output))
            owners[transcript] = entry.input, "the transcript"
            owners.update(dict.fromkeys(others, (entry.input, "a translation")))
    for task in tasks:
        for path in made.paths(task.output):
            owner, what = owners.get(path, (task.input, ""))
            if owner != task.input:
                raise OutputError(f"{folder / path} is {what} of {owner}; choose another --output for {task.input}")


def _check_free(folder: Path, made: Provenance, tasks: Iterable[Task]) -> None:
    for path in (path for task in tasks for path in made.paths(task.output)):
        if os.path.exists(folder / path):
            raise OutputError(f"{folder / path} is there, and no batch made it; choose another --output")


def _as_json(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _read(report: Path) -> Iterator[tuple[str, Entry]]:
    """Read the lines of a report, without one that a killed run left unfinished."""
    if not report.exists():
        return
    # A run that was killed may have left half a character.
    for line in report.read_text(encoding="utf-8", errors="replace").split("\n"):
        entry = _as_json(line)
        try:
            yield entry["input"], Entry(**entry)
        except (KeyError, TypeError):
            continue


def _end_line(path: Path, report: TextIO) -> None:
    content = path.read_bytes()[-1:]
    # Or the next line would go on with one that a killed run left unfinished.
    if content not in (b"", b"\n"):
        report.write("\n")


def _tidy(folder: Path, tasks: Iterable[Task]) -> None:
    """Remove unfinished files of these transcripts that a killed run left."""
    names: defaultdict[Path, set[str]] = defaultdict(set)
    for task in tasks:
        names[(folder / task.output).parent].add(shortened(task.output.name))
    for place, known in names.items():
        if not os.path.isdir(place):
            continue
        for path in place.glob(".*.part"):
            unfinished = _UNFINISHED.fullmatch(path.name)
            if unfinished and not known.isdisjoint(_transcripts_of(PurePosixPath(unfinished["name"]))):
                path.unlink()


def _transcripts_of(name: PurePosixPath) -> tuple[str, str]:
    """What a file's transcript may be called: as itself, or without the language of a translation."""
    return name.name, name.with_suffix("").with_suffix(name.suffix).name


def _write_transcript(place: Path, outcome: Outcome) -> Outcome:
    """Write the transcript, if there is one; returns the final outcome. Raises OSError."""
    if outcome.text is None:
        return outcome
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        for name, text in outcome.others.items():  # first: where the transcript is, they are
            _write(other_path(place, name), text)
        _write(place, outcome.text)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return Outcome("failed", reason=f"the name {place.name} is too long; give it another as 'output' in a manifest")
    return outcome


def _write(path: Path, text: str) -> None:
    # In the same folder, because a rename is atomic only within one file system.
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        # A power cut could otherwise leave the name without the content, and the report would call it done.
        os.fsync(file.fileno())
