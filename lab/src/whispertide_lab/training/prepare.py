"""A manifest and its audio -> a folder of shards, as training reads them.

Either all lines are good and the folder is there, or it is not: what has been decoded waits in a hidden folder next to
it, and the same command goes on from there. Each shard remembers what it was made of, so that only what changed is done
anew. Reserved test sentences are left out and counted. Knows nothing of command lines.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from whispertide.atomic import write_text, writing
from whispertide.audio.file import load_audio
from whispertide.audio.pcm import to_int16
from whispertide.dependent import depend_on_parent
from whispertide.errors import AudioError, CorpusError
from whispertide.plural import counted
from whispertide.types import FloatArray, seconds
from whispertide_lab.from_json import built
from whispertide_lab.new_folder import check_new
from whispertide_lab.speech.manifest import Line, Problem, Spans, check_length, read_manifest
from whispertide_lab.speech.text import is_reserved
from whispertide_lab.training.shards import LICENCES, Utterance, write_licences, write_shard

LINES = 200  # of the manifest that go into a shard
VERSION = 1  # counts up whenever the same lines give other shards

Advance = Callable[[str, int, int], None]  # what is running, lines done, and in all


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was made of a manifest. `left_out` are bad lines that were asked to be left out."""

    utterances: int
    seconds: float
    reserved: int
    left_out: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _Shard:
    """What became of one shard's lines; stored next to it as JSON."""

    digest: str
    utterances: int
    samples: int
    problems: tuple[tuple[int, str], ...]


class BadManifestError(CorpusError):
    """Some lines cannot be used; `problems` are all of them, in order."""

    def __init__(self, manifest: Path, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        listed = "\n".join(f"  {problem}" for problem in problems)
        said = f"{counted(len(problems), 'line')} of {manifest} cannot be used. Correct or remove, or use --skip-bad"
        super().__init__(f"{said}:\n{listed}")


def prepare(
    manifest: Path, output: Path, *, skip_bad: bool = False, workers: int = 1, advance: Advance = lambda *_: None
) -> Prepared:
    """Make the folder of shards `output` of a manifest.

    Raises `BadManifestError` with every line that cannot be used, unless these are to be left out; `CorpusError` where
    the manifest cannot be read or nothing is left; `OutputError` where `output` is there already or cannot be written.
    """
    check_new(output, "for the shards")
    lines, problems = read_manifest(manifest)
    allowed = [line for line in lines if not is_reserved(line.text)]
    unfinished = output.with_name(f".{output.name}.part")
    with writing(output):
        unfinished.mkdir(parents=True, exist_ok=True)
        shards = _make(allowed, unfinished, workers, advance)
        problems = sorted(
            [*problems, *(Problem(*problem) for shard in shards.values() for problem in shard.problems)],
            key=lambda problem: problem.number,
        )
        if problems and not skip_bad:
            raise BadManifestError(manifest, problems)
        made = Prepared(
            sum(shard.utterances for shard in shards.values()),
            seconds(sum(shard.samples for shard in shards.values())),
            len(lines) - len(allowed),
            tuple(problems),
        )
        if not made.utterances:
            raise CorpusError(
                f"expected speech in {manifest}; of its {len(lines)} lines none can be used: {made.reserved} are "
                "reserved for tests by a rule on their text, as one sentence in ten is"
            )
        kept = {number for number, shard in shards.items() if shard.utterances}
        _finish(unfinished, output, kept, _licences(allowed, problems))
    return made


def _groups(lines: Sequence[Line]) -> Iterator[tuple[int, list[Line]]]:
    """Shards by number. A line's place decides, so that correcting one line changes one shard."""
    for number, group in groupby(lines, lambda line: (line.number - 1) // LINES):
        yield number, list(group)


def _make(lines: Sequence[Line], folder: Path, workers: int, advance: Advance) -> dict[int, _Shard]:
    """Every shard of these lines that is not there yet, by several processes."""
    shards: dict[int, _Shard] = {}
    done = 0
    with ProcessPoolExecutor(max(1, workers), initializer=depend_on_parent) as pool:
        jobs = [(len(group), number, pool.submit(_shard, group, folder, number)) for number, group in _groups(lines)]
        try:
            for count, number, job in jobs:
                shards[number] = job.result()
                done += count
                advance("decoding", done, len(lines))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return shards


def _shard(lines: Sequence[Line], folder: Path, number: int) -> _Shard:
    """One shard, made or found as it was made before."""
    record, digest = folder / f"{number:05d}.made", _digest(lines)
    found = _recorded(record)
    if found is not None and found.digest == digest and not found.problems:
        return found
    record.unlink(missing_ok=True)
    utterances: list[Utterance] = []
    problems: list[tuple[int, str]] = []
    for line in lines:
        said = _utterance(line)
        if isinstance(said, str):
            problems.append((line.number, said))
        else:
            utterances.append(said)
    for old in (folder / f"{number:05d}.json", folder / f"{number:05d}.npy"):
        old.unlink(missing_ok=True)
    if utterances:
        write_shard(folder, number, utterances)
    shard = _Shard(digest, len(utterances), sum(len(said.samples) for said in utterances), tuple(problems))
    write_text(record, json.dumps(asdict(shard)))
    return shard


def _digest(lines: Sequence[Line]) -> str:
    """Of everything that the shard depends on: the lines, and size and age of their audio."""
    described = [(str(line), *_size_and_age(line.audio)) for line in lines]
    return hashlib.sha256(repr((VERSION, described)).encode()).hexdigest()


def _size_and_age(audio: Path) -> tuple[int, ...]:
    """Nothing of a file that is gone since the manifest was read: decoding says so, with the line."""
    try:
        stat = audio.stat()
    except OSError:
        return ()
    return stat.st_size, stat.st_mtime_ns


def _recorded(path: Path) -> _Shard | None:
    try:
        shard: _Shard = built(_Shard, json.loads(path.read_text(encoding="utf-8")))
        return shard
    except (OSError, ValueError, TypeError, KeyError):
        return None


@lru_cache(maxsize=1)
def _audio(path: Path) -> FloatArray:
    """The lines of a long recording mostly follow each other."""
    return load_audio(path)


def _utterance(line: Line) -> Utterance | str:
    """What the line describes, or why there is no such thing."""
    try:
        audio = _audio(line.audio)
    except AudioError as error:
        return str(error)
    if line.end is not None and line.end > len(audio) + 800:
        return f"expected a stretch within the audio, {seconds(len(audio)):.2f} s; it ends at {seconds(line.end):g} s"
    samples = audio[line.start : line.end]
    if reason := check_length(line, len(samples)):
        return reason
    return Utterance(to_int16(samples), line.text, line.speaker, _within(line, len(samples)))


def _within(line: Line, count: int) -> Spans | None:
    """The words' spans, counted from the utterance's first sample and inside it."""
    if line.words is None:
        return None
    moved = ((first - line.start, end - line.start) for first, end in line.words)
    return tuple((min(max(0, first), count - 1), min(end, count)) for first, end in moved)


def _licences(lines: Sequence[Line], problems: Sequence[Problem]) -> Counter[str]:
    """Utterances under each licence; lines that name none are not counted."""
    bad = {problem.number for problem in problems}
    return Counter(line.licence for line in lines if line.licence and line.number not in bad)


def _finish(unfinished: Path, output: Path, numbers: set[int], licences: Counter[str]) -> None:
    """The shards of this run alone, under their name."""
    for path in list(_leftovers(unfinished, numbers)):
        path.unlink()
    if licences:
        write_licences(unfinished, licences)
    if output.exists():
        output.rmdir()
    shutil.move(unfinished, output)


def _leftovers(folder: Path, numbers: set[int]) -> Iterator[Path]:
    """Records, and shards of an earlier run that had more lines."""
    for path in folder.iterdir():
        if path.suffix not in (".json", ".npy") or path.name == LICENCES or int(path.stem) not in numbers:
            yield path
