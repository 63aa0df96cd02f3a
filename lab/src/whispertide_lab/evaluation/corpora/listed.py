"""Corpora of recordings that are already in a folder: one list, one hash, whatever the layout was.

The hash is over every reference and every byte of every audio file, so it takes a moment on first use. Does not know
any layout; those are the modules named after them.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path

import numpy as np

from whispertide.audio.file import duration_of, load_audio
from whispertide.errors import CorpusError
from whispertide.types import FloatArray, seconds, to_samples
from whispertide_lab.evaluation.wer import split_words
from whispertide_lab.speech.utterance import RefWord, Utterance

QUICK_SECONDS = 120  # of audio, about, when little time is to be spent
_MISSING_S = 1.0  # of a stretch, at most: ends of segments are rounded, and headers a little off
AUDIO_SUFFIXES = (".flac", ".wav", ".opus", ".ogg", ".mp3", ".m4a", ".sph")


@dataclass(frozen=True, slots=True)
class Recording:
    """What is said in some files, one after the other; `cut` keeps only those seconds (first, last) of them.

    Without words nothing is said in them. `seconds` None: as long as the files' headers say. `prompted`: the words are
    those that the speaker was asked to read, and nobody checked that they were.
    """

    id: str
    files: tuple[Path, ...]
    words: tuple[RefWord, ...]
    exact_times: bool = False
    group: str = ""
    language: str = "en"
    cut: tuple[float, float] | None = None
    seconds: float | None = None
    prompted: bool = False

    def utterance(self) -> Utterance:
        """As it is evaluated. Raises `AudioFileError` where a file is missing or no audio."""
        return Utterance(
            id=self.id,
            words=self.words,
            seconds=self.length_s(),
            audio=partial(load_joined, self.files, self.cut),
            exact_times=self.exact_times,
            group=self.group,
            language=self.language,
            prompted=self.prompted,
        )

    def length_s(self) -> float:
        """Seconds of audio, by the headers where nobody said. Raises `AudioFileError`."""
        if self.seconds is not None:
            return self.seconds
        if self.cut is not None:
            return self.cut[1] - self.cut[0]
        return sum(map(length_of, self.files))


def length_of(file: Path) -> float:
    """Seconds of audio, by the header where it says. Raises `AudioFileError`."""
    told = duration_of(file)
    return told if told is not None else len(load_audio(file)) / to_samples(1)


def load_joined(files: Sequence[Path], cut: tuple[float, float] | None = None) -> FloatArray:
    """The files one after the other, 16 kHz mono float32 [n], or the seconds `cut` of that.

    Raises `AudioFileError` for a file that is no audio, and `CorpusError` where a cut lies after the end of it.
    """
    if cut is None:
        return np.concatenate(list(map(load_audio, files))) if len(files) > 1 else load_audio(files[0])
    whole = _whole(tuple(files))
    if to_samples(cut[1]) > len(whole) + to_samples(_MISSING_S):
        raise CorpusError(
            f"expected {files[-1]} to last until {cut[1]:g} s, where what was labelled ends; it ends at "
            f"{seconds(len(whole)):g} s: is it cut off, or another recording?"
        )
    return whole[to_samples(cut[0]) : to_samples(cut[1])].copy()


@lru_cache(maxsize=1)
def _whole(files: tuple[Path, ...]) -> FloatArray:
    """Stretches of a long recording mostly follow each other: it is decoded once."""
    return load_joined(files)


@dataclass
class ListedCorpus:
    """A corpus of recordings in a folder, in the order of the list.

    hand_labelled  recordings of the same source, in this corpus or not, whose words have exact times: on them a model
                   that places words is checked
    """

    name: str
    recordings: tuple[Recording, ...] = field(repr=False)
    hand_labelled: tuple[Recording, ...] = field(default=(), repr=False)

    def utterances(self) -> Iterator[Utterance]:
        """In the order of the list. Raises `AudioFileError` where a file is missing."""
        return (recording.utterance() for recording in self.recordings)

    @cached_property
    def hash(self) -> str:
        """Twelve hexadecimal digits over references and audio files. Raises `CorpusError` if a file cannot be read."""
        digest, digest_of = hashlib.sha256(), cache(_file_digest)
        for one in self.recordings:
            words = [(word.text, word.start, word.end) for word in one.words]
            facts = [one.id, one.group, one.language, one.exact_times, one.cut, words, *["prompted"] * one.prompted]
            digest.update(json.dumps(facts).encode())
            for file in one.files:
                digest.update(digest_of(file))
        return digest.hexdigest()[:12]


def _file_digest(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError as error:
        raise CorpusError(f"{file} is part of the corpus but cannot be read: {error.strerror or error}") from error


def listed_corpus(
    name: str,
    recordings: Iterable[Recording],
    *,
    quick: bool,
    seed: int,
    hand_labelled: tuple[Recording, ...] = (),
) -> ListedCorpus:
    """The corpus; with `quick` two minutes of it or a little more, chosen by the seed, in the list's order.

    Raises `CorpusError` for two recordings of one name: what is kept of the first would be taken for the second.
    """
    every = tuple(recordings)
    twice = [name for name, count in Counter(one.id for one in every).items() if count > 1]
    if twice:
        raise CorpusError(
            f"expected recordings with names of their own in {name}; {len(twice)} names are there several times, the "
            f"first is {twice[0]!r}: rename them, or name a folder that has each once"
        )
    if not quick:
        return ListedCorpus(name, every, hand_labelled)
    chosen: list[int] = []
    total = 0.0
    for at in np.random.RandomState(seed % 2**32).permutation(len(every)):
        if total >= QUICK_SECONDS:
            break
        chosen.append(int(at))
        total += every[int(at)].length_s()
    return ListedCorpus(f"{name}-quick", tuple(every[at] for at in sorted(chosen)), hand_labelled)


def plain_words(text: str, language: str = "en") -> tuple[RefWord, ...]:
    """The words of a transcript, of which nobody knows the times."""
    return tuple(RefWord(word) for word in split_words(text, language))


def existing_folder(path: str | Path, what: str) -> Path:
    """The folder, if it is one. Raises `CorpusError`, which says what was expected in it."""
    folder = Path(os.path.expanduser(path))
    if not folder.is_dir():
        came = "is a file" if folder.exists() else "does not exist"
        raise CorpusError(f"expected a folder with {what}; {folder} {came}; check the path")
    return folder


def find_audio(base: Path) -> Path | None:
    """The audio file of this path without its suffix, in any of the usual formats; None if there is none."""
    for suffix in AUDIO_SUFFIXES:
        for spelled in (suffix, suffix.upper()):
            if (file := base.with_name(base.name + spelled)).is_file():
                return file
    return None


def read_lines(file: Path) -> list[str]:
    """The lines of a UTF-8 text file that are not blank. Raises `CorpusError` where it cannot be read."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{file} cannot be read as text: {error}") from error
    return [line for line in text.splitlines() if line.strip()]
