"""TIMIT: read sentences with hand-labelled word times, so latency may be claimed on them.

Layout: PART/REGION/SPEAKER/SENTENCE with .WAV (NIST sphere or RIFF), .WRD (first sample, last sample, word) and .TXT,
in capitals as on the disc or in small letters as some copies have it. Of a folder with a TEST part that part is read.
"""

from collections.abc import Iterator
from pathlib import Path

from whispertide.errors import CorpusError
from whispertide.lab.evaluation.corpora.listed import (
    ListedCorpus,
    Recording,
    existing_folder,
    listed_corpus,
    read_lines,
)
from whispertide.lab.speech.utterance import RefWord

_AUDIO = (".wav", ".wav.wav", ".flac", ".sph")  # as they are on the disc, and as converters leave them


def open_timit(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """Every sentence with word times below `path`, or below its TEST. Raises `CorpusError` where there is none."""
    folder = existing_folder(path, "TIMIT: files *.WRD and *.WAV")
    part = next(
        (entry for entry in sorted(folder.iterdir()) if entry.is_dir() and entry.name.upper() == "TEST"), folder
    )
    sentences = list(_sentences(part))
    if not sentences:
        raise CorpusError(f"expected TIMIT in {part}: *.WRD with *.WAV beside it; found none")
    return listed_corpus(f"timit-{part.name.lower()}", sentences, quick=quick, seed=seed)


def _sentences(part: Path) -> Iterator[Recording]:
    for labels in sorted(file for file in part.rglob("*") if file.suffix.upper() == ".WRD"):
        speaker = labels.parent.name
        yield Recording(
            id=f"{speaker}-{labels.stem}",
            files=(_audio(labels),),
            words=_words(labels),
            exact_times=True,
            group=speaker,
        )


def _audio(labels: Path) -> Path:
    for suffix in _AUDIO:
        for spelled in (suffix.upper(), suffix, suffix.upper() + ".wav"):
            if (file := labels.with_name(labels.stem + spelled)).is_file():
                return file
    raise CorpusError(f"expected the audio of {labels} beside it ({labels.stem}.WAV); it is not there")


def _words(labels: Path) -> tuple[RefWord, ...]:
    words = []
    for line in read_lines(labels):
        try:
            start, end, text = line.split()
            words.append(RefWord(text, int(start), int(end)))
        except ValueError as error:
            raise CorpusError(f"{labels}: expected 'first-sample last-sample word'; got {line[:80]!r}") from error
    return tuple(words)
