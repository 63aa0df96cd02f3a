"""Recordings to learn short windows from: any speech, without transcripts. Files, folders, manifests -> shards.

A manifest names speakers and languages; else every file is a speaker of its own. Where it has transcripts, sentences
that are reserved for tests are left out. Speakers take turns until there is enough, so that few of them do not fill
it. Knows nothing of windows or models.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import numpy as np

from whispertide.atomic import replacing, writing
from whispertide.audio.extensions import AUDIO
from whispertide.audio.file import decode_blocks
from whispertide.audio.pcm import to_int16
from whispertide.errors import AudioError, CorpusError
from whispertide.types import SAMPLE_RATE, FloatArray, seconds
from whispertide_lab.speech.manifest import Line, read_manifest
from whispertide_lab.speech.noise import Dice
from whispertide_lab.speech.text import is_reserved
from whispertide_lab.training.shards import Shards, Utterance, open_shards, write_shard

MANIFEST = "manifest.jsonl"
LEAST_S = 60.0  # of sound, to learn anything at all
PIECE_S, SHORTEST_S = 20, 0.4
SILENT = 1e-3  # a recording of which no sample is louder holds no speech
HELD_OUT = 0.1  # of the speakers
_PER_SHARD = 200

Advance = Callable[[str, int, int], None]


@dataclass(slots=True)
class LeftOut:
    """Recordings that cannot be used, by reason, and the first that cannot be read."""

    counts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    first: str = ""

    def __str__(self) -> str:
        said = ", ".join(f"{count} {reason}" for reason, count in sorted(self.counts.items()))
        return (said or "none left out") + (f" (first: {self.first})" if self.first else "")


def gather(paths: Sequence[Path], folder: Path, wanted_s: float, seed: int, advance: Advance) -> Shards:
    """At least `wanted_s` of sound, where there is so much, as shards in `folder`, which may be there already.

    Folders of shards are taken as they are. Raises `CorpusError` where a path holds no audio or all of it is too
    little, which says what is missing, and `OutputError` where `folder` cannot be written.
    """
    made = [path for path in paths if next(path.glob("[0-9]*.json"), None)]
    lines = [line for path in paths if path not in made for line in _lines(path)]
    left_out = LeftOut()
    if lines and not folder.exists():
        with writing(folder), replacing(folder) as unfinished:
            unfinished.mkdir(parents=True)
            _write(_in_turns(lines, seed), unfinished, wanted_s, left_out, advance)
    speech = open_shards([*made, *([folder] if lines else [])])
    return _checked(speech, left_out, len(lines))


def _checked(speech: Shards, left_out: LeftOut, recordings: int) -> Shards:
    """Raises `CorpusError` where it is too little."""
    if speech.seconds < LEAST_S:
        raise CorpusError(
            f"expected at least {LEAST_S:g} s of speech; got {speech.seconds:.1f} s of {recordings} recordings, left "
            f"out: {left_out}. Give more recordings of people who speak"
        )
    return speech


def apart(speech: Shards, seed: int) -> tuple[Shards, Shards]:
    """What is trained on, and some speakers who are not; where there is one alone, some of what they say.

    Not as `lessons.divided` has it: what runs of either kind were taught, and how they go on, hangs on their division.
    """
    speakers = speech.by_speaker()
    names = sorted(speakers)
    np.random.RandomState([seed % 2**32, len(names)]).shuffle(names)
    if len(names) == 1:
        return speech.one_in(round(1 / HELD_OUT))
    count = max(1, round(HELD_OUT * len(names)))
    return _of(speakers, names[count:]), _of(speakers, names[:count])


def _of(speakers: Mapping[str, Shards], names: Sequence[str]) -> Shards:
    return Shards(tuple(place for name in names for place in speakers[name].places))


# --- recordings -------------------------------------------------------------------------------------------------------


def _lines(path: Path) -> list[Line]:
    """The recordings of a path: a file, a manifest, a folder with one, or a folder of files."""
    manifest = path / MANIFEST if path.is_dir() else path
    if manifest.suffix == ".jsonl" and manifest.is_file():
        lines, problems = read_manifest(manifest, texts=False)
        if not lines:
            raise CorpusError(f"expected recordings in {manifest}; got none, first {next(iter(problems), 'no line')}")
        return [line for line in lines if not (line.text and is_reserved(line.text))]
    if not path.exists():
        raise CorpusError(f"expected a recording, a folder of recordings or a manifest; {path} does not exist")
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix[1:].lower() in AUDIO)
    if not files:
        raise CorpusError(f"expected recordings in {path}; it has no file that is called like one, such as a .flac")
    return [Line(number, file, "", "", 0, None, None, "") for number, file in enumerate(files)]


def _in_turns(lines: Sequence[Line], seed: int) -> Iterator[Line]:
    """Speakers one after the other, each with a recording of theirs."""
    by_speaker = defaultdict[str, list[Line]](list)
    for line in lines:
        by_speaker[_speaker(line)].append(line)
    dice: Dice = np.random.RandomState(seed % 2**32)
    rows = [
        [spoken[at] for at in dice.permutation(len(spoken))]
        for spoken in (by_speaker[name] for name in dice.permutation(sorted(by_speaker)))
    ]
    return (line for turn in zip_longest(*rows) for line in turn if line is not None)


def _speaker(line: Line) -> str:
    return line.speaker or str(line.audio)


def _write(lines: Iterator[Line], folder: Path, wanted_s: float, left_out: LeftOut, advance: Advance) -> None:
    said: list[Utterance] = []
    number, count = 0, 0
    for line in lines:
        for piece in _pieces(line, left_out):
            said.append(Utterance(to_int16(piece), line.text, _speaker(line), None, language=line.language or None))
            count += len(piece)
        advance("seconds of speech", min(round(seconds(count)), round(wanted_s)), round(wanted_s))
        if len(said) >= _PER_SHARD:
            write_shard(folder, number, said)
            number, said = number + 1, []
        if seconds(count) >= wanted_s:
            break
    if said:
        write_shard(folder, number, said)
    if not count:
        raise CorpusError(f"expected recordings of people who speak; left out: {left_out}")


def _pieces(line: Line, left_out: LeftOut) -> Iterator[FloatArray]:
    """A recording, cut where it is long; nothing of what is silent, short or cannot be read, which is counted."""
    at, found, longest = 0, 0, 0
    try:
        for block in decode_blocks(str(line.audio), block=PIECE_S * SAMPLE_RATE):
            piece = block[max(0, line.start - at) : None if line.end is None else max(0, line.end - at)]
            at += len(block)
            longest = max(longest, len(piece))
            if len(piece) >= SHORTEST_S * SAMPLE_RATE and np.abs(piece).max() > SILENT:
                found += 1
                yield piece
            if line.end is not None and at >= line.end:
                break
    except AudioError as error:
        left_out.counts["that cannot be read"] += 1
        left_out.first = left_out.first or str(error)
        return
    if not found:
        silent = longest >= SHORTEST_S * SAMPLE_RATE
        left_out.counts["silent" if silent else f"shorter than {SHORTEST_S:g} s"] += 1
