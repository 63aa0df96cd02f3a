"""FLEURS: one language folder (`en_us`) with test.tsv and the audio of that split.

The table has no header: number, file, raw transcription, transcription, characters, samples, gender (Conneau et al.
2022). The raw transcription is the reference; normalising is the score's business. No word times.
"""

from collections.abc import Iterator
from pathlib import Path

from whispertide.errors import CorpusError
from whispertide.lab.evaluation.corpora.listed import (
    ListedCorpus,
    Recording,
    existing_folder,
    listed_corpus,
    plain_words,
    read_lines,
)

_SPLITS = ("test", "dev", "validation", "train")
# Folder names begin with a language code; where Whisper's differs:
_WHISPER_CODES = {"cmn": "zh", "yue": "yue", "fil": "tl", "nb": "no", "jv": "jw", "iw": "he"}


def open_fleurs(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """The test split of one language, or the first split that is there. Raises `CorpusError` where there is none."""
    folder = existing_folder(path, "one language of FLEURS: test.tsv and audio/test")
    split = next((name for name in _SPLITS if (folder / f"{name}.tsv").is_file()), None)
    if split is None:
        raise CorpusError(f"expected test.tsv in {folder}; found none: name the folder of one language, like en_us")
    recordings = list(_recordings(folder, split))
    if not recordings:
        raise CorpusError(f"{folder / split}.tsv is empty; expected one utterance per line")
    return listed_corpus(f"fleurs-{folder.name}-{split}", recordings, quick=quick, seed=seed)


def _recordings(folder: Path, split: str) -> Iterator[Recording]:
    code = folder.name.partition("_")[0]
    language = _WHISPER_CODES.get(code, code)
    seen: dict[str, int] = {}
    for line in read_lines(folder / f"{split}.tsv"):
        fields = line.split("\t")
        if len(fields) < 4:
            raise CorpusError(f"{folder / split}.tsv: expected at least 4 columns between tabs; got {line[:80]!r}")
        number, file, raw = fields[:3]
        seen[number] = seen.get(number, 0) + 1  # a sentence is read by up to three speakers
        name = f"{number}-{seen[number]}"
        group = fields[6].strip().lower() if len(fields) > 6 else ""
        yield Recording(name, (_audio(folder, split, file),), plain_words(raw), group=group, language=language)


def _audio(folder: Path, split: str, file: str) -> Path:
    places = (folder / "audio" / split, folder / split, folder / "audio", folder)
    for place in places:
        if (found := place / file).is_file():
            return found
    raise CorpusError(
        f"{folder / split}.tsv names {file}, but it is not in {places[0]}; unpack audio/{split}.tar.gz there"
    )
