"""Plan the transcript of each recording. Nothing is computed before each has a name of its own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from whispertide.batch.inputs import Found
from whispertide.errors import OptionError
from whispertide.formats.files import with_others
from whispertide.options import file_extension


@dataclass(frozen=True, slots=True)
class Task:
    """One recording and its transcript, as a path below the folder of transcripts; `size` of the recording in bytes."""

    input: str
    output: PurePosixPath
    size: int = 0


def plan(recordings: Iterable[Found], form: str, others: Sequence[str] = ()) -> list[Task]:
    """Plan one task per recording, the largest first: then no worker sits alone with a long one at the end. Its
    transcript has `others` next to it (`formats.files.with_others`).

    Raises `OptionError` where two recordings would become the same transcript, or where the transcript of one would be
    the folder of another's. A name must not depend on which other recordings there are, or a larger archive would give
    other names when it goes on.
    """
    taken: dict[str, str] = {}
    tasks = []
    for found in recordings:
        output = _output_path(found.place, form)
        for path in with_others(output, others):
            key = str(path).casefold()  # some file systems do not tell A from a
            if key in taken:
                raise OptionError(
                    f"{taken[key]} and {found.name} would both become {path}: transcribe them into two folders, "
                    "or list them in a manifest with an 'output' each"
                )
            taken[key] = found.name
        tasks.append(Task(found.name, output, found.size))
    for task in tasks:
        for folder in task.output.parents:
            if (name := taken.get(str(folder).casefold())) is not None:
                raise OptionError(
                    f"{name} would become the file {folder}, in which {task.input} would have its transcript: give one "
                    "another name as 'output' in a manifest"
                )
    return sorted(tasks, key=lambda task: -task.size)


def _output_path(place: PurePosixPath, form: str) -> PurePosixPath:
    ending = f".{file_extension(form)}"
    return place if place.suffix == ending else place.with_name(place.name + ending)
