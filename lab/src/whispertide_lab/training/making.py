"""Makes folders of synthetic speech with all cores: whole shards only, to be stopped and continued at any moment.

A shard is a function of the recipe and its number, and of the installed versions of texts and synthesizers. Each is
made by a process of its own (`python -m whispertide_lab.training.making FOLDER NUMBER`), because the synthesizers'
libraries carry state from one sentence to the next, and may crash. The folder also holds the recipe and the sentences
that it draws from, so that it can be continued on another machine.

Knows nothing of what is said or by whom.
"""

import json
import math
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from filelock import FileLock, Timeout

from whispertide.atomic import replacing, write_text, writing
from whispertide.errors import CorpusError, OptionError
from whispertide.types import SAMPLE_RATE, seconds
from whispertide_lab.from_json import built
from whispertide_lab.speech.apart import Apart, make_all
from whispertide_lab.speech.manners import Manner, draw_manner
from whispertide_lab.speech.speakers import Say, check_installed, open_speaker
from whispertide_lab.speech.texts import collect_texts, draw_sentence, own_texts, read_texts, write_texts
from whispertide_lab.training.shards import Utterance, write_shard

VERSION = 1  # counts up whenever the same recipe gives other speech
SHARD_S = 900.0
_TURN = 24  # sentences that one voice says in one manner, one after the other
_OWN = ".making-"  # folders of single processes

Advance = Callable[[str, int, int], None]  # what is running, steps done, and in all
Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What speech is made of: random numbers, voices, and the texts' most frequent words (None: all of them)."""

    seed: int
    voices: tuple[str, ...]
    vocabulary: int | None = None
    shard_s: float = SHARD_S
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Made:
    """What a run has made; what lay there before does not count."""

    shards: int
    utterances: int
    inexact: int  # of these, with some word times that are not exact
    audio_s: float
    wall_s: float

    def __str__(self) -> str:
        pace = self.audio_s / 60 / max(self.wall_s, 1e-3)
        share = self.inexact / max(self.utterances, 1)
        return (
            f"made {self.shards} shards in {self.wall_s:.0f} s: {self.utterances:,} utterances, "
            f"{self.audio_s / 3600:.2f} hours of speech ({pace:.2f} hours a minute); "
            f"{share:.1%} have word times that are not all exact"
        )


def make_speech(
    folder: Path,
    recipe: Recipe,
    hours: float,
    jobs: int,
    *,
    advance: Advance,
    announce: Announce,
    sentences: Path | None = None,
) -> Made:
    """Make what is missing of `hours` of speech (rounded up to whole shards) in `folder`, `jobs` shards at a time.

    `sentences`: a file of them, one a line, in place of the texts of installed packages. Raises `OptionError` for a
    recipe or sentences other than the folder's, `CorpusError` where a package is missing, sentences cannot be used or a
    shard fails, `OutputError` where the folder cannot be written. However it ends, only whole shards are left.
    """
    check_installed(recipe.voices)
    with _held(folder):
        _prepare(folder, recipe, sentences, announce)
        count = math.ceil(hours * 3600 / recipe.shard_s - 1e-9)
        missing = [number for number in range(count) if not _list_of(folder, number).exists()]
        _remove_unfinished(folder)
        began = time.monotonic()
        try:
            makers = [_apart(folder, number) for number in missing]
            make_all(makers, jobs, lambda done, _: advance("making speech", count - len(missing) + done, count))
        finally:
            _remove_unfinished(folder)
        return _summary(folder, missing, time.monotonic() - began)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The folder, made if need be, and nobody else's for the while."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(folder / ".lock", timeout=0):
                yield
        except Timeout as error:
            raise CorpusError(
                f"another program is making speech in {folder}; wait for it or choose another folder"
            ) from error


def _prepare(folder: Path, recipe: Recipe, sentences: Path | None, announce: Announce) -> None:
    """Write the recipe and the sentences where there are none; refuse a folder of others."""
    path, texts = folder / "recipe.json", folder / "sentences.txt"
    if path.exists() and (others := _differences(read_recipe(folder), recipe)):
        raise OptionError(
            f"expected the options that {folder} was made with, to continue it; {others}: give those, or another folder"
        )
    own = None if sentences is None else own_texts(sentences, recipe.vocabulary)
    if own is not None and texts.exists() and read_texts(texts) != own:
        raise OptionError(
            f"expected the sentences that {folder} was made from; {sentences} has others: give a new folder"
        )
    if not path.exists():
        write_text(path, json.dumps(asdict(recipe)) + "\n")
    if not texts.exists():
        announce("collecting sentences")
        with replacing(texts) as unfinished:
            write_texts(unfinished, collect_texts(recipe.vocabulary) if own is None else own)


def _differences(before: Recipe, now: Recipe) -> str:
    """What differs, and what it was."""
    pairs = ((each.name, getattr(before, each.name), getattr(now, each.name)) for each in fields(Recipe))
    return ", ".join(f"its {name}: {_short(was)}, not {_short(asked)}" for name, was, asked in pairs if was != asked)


def _short(value: object) -> str:
    """Of many voices the first few."""
    if not isinstance(value, tuple):
        return str(value)
    return ", ".join(value[:3]) + (f" and {len(value) - 3} more" if len(value) > 3 else "")


def read_recipe(folder: Path) -> Recipe:
    """The recipe of a folder. Raises `CorpusError` where there is none, or one that is damaged."""
    path = folder / "recipe.json"
    try:
        recipe: Recipe = built(Recipe, json.loads(path.read_text(encoding="utf-8")))
        return recipe
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"expected the recipe of synthetic speech in {path}; it cannot be read: {error}") from error


def _list_of(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.json"


def _remove_unfinished(folder: Path) -> None:
    """What processes that were ended have left: their own folders, and sound whose list was still to be moved."""
    for own in folder.glob(f"{_OWN}*"):
        shutil.rmtree(own, ignore_errors=True)
    for sound in folder.glob("[0-9]*.npy"):
        if not sound.with_suffix(".json").exists():
            sound.unlink()


def _apart(folder: Path, number: int) -> Apart:
    return Apart(__name__, f"shard {number}", (str(folder), str(number)))


def _summary(folder: Path, numbers: Sequence[int], wall_s: float) -> Made:
    entries = [entry for number in numbers for entry in json.loads(_list_of(folder, number).read_text("utf-8"))]
    return Made(
        shards=len(numbers),
        utterances=len(entries),
        inexact=sum(not entry.get("exact", True) for entry in entries),
        audio_s=seconds(sum(entry["samples"] for entry in entries)),
        wall_s=wall_s,
    )


# --- one shard --------------------------------------------------------------------------------------------------------


def make_shard(
    folder: Path,
    number: int,
    recipe: Recipe,
    texts: Sequence[str],
    opened: Callable[[Manner], AbstractContextManager[Say]] = open_speaker,
) -> None:
    """Make one shard; once per process. Raises `CorpusError` where a synthesizer fails, OSError for the disk."""
    dice = np.random.RandomState([recipe.seed % 2**32, number, recipe.version])
    enough = round(recipe.shard_s * SAMPLE_RATE)
    made: list[Utterance] = []
    total = 0
    while total < enough:
        manner = draw_manner(recipe.voices, dice)
        with opened(manner) as say:
            for said in _turn(say, manner, texts, dice):
                made.append(said)
                total += len(said.samples)
                if total >= enough:
                    break
    with TemporaryDirectory(dir=folder, prefix=_OWN) as own:
        write_shard(Path(own), number, made)
        for suffix in (".npy", ".json"):  # a shard with a list is whole
            file = _list_of(Path(own), number).with_suffix(suffix)
            file.replace(folder / file.name)


def _turn(say: Say, manner: Manner, texts: Sequence[str], dice: np.random.RandomState) -> Iterator[Utterance]:
    for _ in range(_TURN):
        sentence = draw_sentence(texts, dice)
        said = say(sentence.said)
        if said is not None:
            yield Utterance(said.samples, sentence.written, manner.voice, sentence.spans(said.words), said.exact)


def main(arguments: list[str]) -> None:
    """FOLDER NUMBER: make one shard of a folder whose recipe and sentences are there."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it cleans up after itself
    folder, number = Path(arguments[0]), int(arguments[1])
    try:
        make_shard(folder, number, read_recipe(folder), read_texts(folder / "sentences.txt"))
    except (CorpusError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
