"""Corpora that are made once and kept: recordings as FLAC with their references, in the cache directory.

A recording is whole when its reference file is there, which is written last; both are put in place in one step each,
so that making a corpus can be interrupted at any moment and goes on where it was. The hash of a corpus is over its
version, every reference and every sample.

Does not know what is recorded.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock

from whispertide.atomic import replacing, write_text
from whispertide.audio.file import load_audio
from whispertide.errors import CorpusError
from whispertide.types import SAMPLE_RATE, seconds
from whispertide_lab.speech.apart import WORKERS, Make, make_all
from whispertide_lab.speech.utterance import RefWord, Utterance
from whispertide_lab.speech.voices import Int16Array

Reference = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CachedCorpus:
    """A corpus whose recordings are in a folder."""

    name: str
    hash: str
    folder: Path
    references: tuple[Reference, ...]

    def utterances(self) -> Iterator[Utterance]:
        """In the order of their names."""
        for reference in self.references:
            words = tuple(RefWord(text, start, end) for text, start, end in reference["words"])
            yield Utterance(
                id=reference["id"],
                words=words,
                seconds=seconds(reference["samples"]),
                audio=partial(load_audio, self.folder / f"{reference['id']}.flac"),
                exact_times=bool(words),
                group=reference["group"],
            )


def write_recording(
    folder: Path, name: str, samples: Int16Array, words: Sequence[tuple[str, int, int]], group: str, note: str = ""
) -> None:
    """Put one recording (16 kHz, [n]) and its reference into `folder`; `words` are texts with first and last sample."""
    audio = folder / f"{name}.flac"
    with replacing(audio) as unfinished:
        _write_flac(unfinished, samples)
        size = unfinished.stat().st_size
    reference = {
        "id": name,
        "group": group,
        "note": note,
        "samples": len(samples),
        "bytes": size,
        "sha256": hashlib.sha256(samples.astype("<i2").tobytes()).hexdigest(),
        "words": [list(word) for word in words],
    }
    write_text(folder / f"{name}.json", json.dumps(reference))


def _write_flac(path: Path, samples: Int16Array) -> None:
    import av

    with av.open(str(path), "w", format="flac") as container:
        stream = container.add_stream("flac", rate=SAMPLE_RATE)
        stream.layout = "mono"
        for at in range(0, len(samples), SAMPLE_RATE):
            frame = av.AudioFrame.from_ndarray(samples[None, at : at + SAMPLE_RATE], format="s16", layout="mono")
            frame.sample_rate, frame.pts = SAMPLE_RATE, at
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def read_recording(folder: Path, name: str) -> Reference | None:
    """The reference of a recording that is whole; None if it has to be made (again)."""
    try:
        reference = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        whole = (folder / f"{name}.flac").stat().st_size == reference["bytes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return reference if whole else None


def cached_corpus(name: str, version: str, folder: Path, recordings: Mapping[str, Make]) -> CachedCorpus:
    """The corpus in `folder`, after making what is missing of it.

    `recordings` maps each name to a function that makes this recording and ends with `write_recording`; those that are
    made together have the same one. Two run at a time. Raises `CorpusError` where one fails or the folder cannot be
    written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            missing = {key: make for key, make in recordings.items() if read_recording(folder, key) is None}
            if missing:
                _make(name, folder, missing)
    except OSError as error:
        if isinstance(error, CorpusError):
            raise
        free = shutil.disk_usage(folder.parent).free >> 20 if folder.parent.is_dir() else 0
        raise CorpusError(f"the corpus {name} cannot be kept in {folder} ({free} MB free there): {error}") from error
    references = []
    for key in recordings:
        reference = read_recording(folder, key)
        if reference is None:
            raise CorpusError(f"the recording {key} of {name} was made but is not whole; delete {folder} and try again")
        references.append(reference)
    return CachedCorpus(name, _digest(version, references), folder, tuple(references))


def _digest(version: str, references: Sequence[Reference]) -> str:
    """Over what is heard and what is scored against; not over sizes of files, which depend on the encoder."""
    scored = [[part[key] for key in ("id", "group", "samples", "sha256", "words")] for part in references]
    return hashlib.sha256(json.dumps([version, scored]).encode()).hexdigest()[:12]


def _make(name: str, folder: Path, missing: Mapping[str, Make]) -> None:
    """Run the makers with a progress bar on standard error, then say how fast it went."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("making {task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    began = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=None)
        make_all(missing.values(), WORKERS, lambda done, count: progress.update(task, completed=done, total=count))
    wall = time.monotonic() - began
    made = [reference for key in missing if (reference := read_recording(folder, key)) is not None]
    audio = sum(seconds(reference["samples"]) for reference in made)
    words = sum(len(reference["words"]) for reference in made)
    said = f"made {name}: {len(made)} recordings, {audio / 60:.1f} min, {words} words"
    console.print(f"{said} in {wall:.0f} s ({audio / max(wall, 1e-3):.0f}x real time)", highlight=False, soft_wrap=True)
