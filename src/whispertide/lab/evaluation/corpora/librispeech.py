"""LibriSpeech as it unpacks: SUBSET/SPEAKER/CHAPTER with SPEAKER-CHAPTER.trans.txt and one FLAC file per line of it.

The folder may be the whole, one subset or one speaker. Files converted to another format next to the text are found
too. There are no word times (Panayotov et al. 2015 aligned the sentences, not the words), so no latency is claimed.
"""

from collections.abc import Iterator
from pathlib import Path

from whispertide.errors import CorpusError
from whispertide.lab.evaluation.corpora.listed import (
    ListedCorpus,
    Recording,
    audio_beside,
    existing_folder,
    listed_corpus,
    plain_words,
    read_lines,
)

_TRANSCRIPTS = "*.trans.txt"


def open_librispeech(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """Every utterance below `path` that has text and audio. Raises `CorpusError` where there is none."""
    folder = existing_folder(path, "LibriSpeech: files *.trans.txt and *.flac")
    recordings = [one for file in sorted(folder.rglob(_TRANSCRIPTS)) for one in _chapter(file)]
    if not recordings:
        raise CorpusError(f"expected LibriSpeech in {folder}: *.trans.txt with audio beside it; found none")
    return listed_corpus(f"librispeech-{folder.name}", recordings, quick=quick, seed=seed)


def _chapter(transcript: Path) -> Iterator[Recording]:
    for line in read_lines(transcript):
        name, _, text = line.partition(" ")
        audio = audio_beside(transcript.parent / name)
        if audio is None:
            raise CorpusError(
                f"{transcript} names {name}, but there is no audio of that name beside it; unpack it again"
            )
        yield Recording(name, (audio,), plain_words(text), group=name.partition("-")[0])
