"""Published corpora, read from the folders that they unpack to. Does not know recognisers or scores."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from whispertide.audio.file import duration_of
from whispertide.errors import CorpusError
from whispertide_lab.evaluation.corpora.listed import (
    ListedCorpus,
    Recording,
    existing_folder,
    find_audio,
    listed_corpus,
    plain_words,
    read_lines,
)
from whispertide_lab.speech.utterance import RefWord


def _corpus(name: str, recordings: Iterable[Recording], expected: str, *, quick: bool, seed: int) -> ListedCorpus:
    """The corpus of these recordings. Raises `CorpusError` where there is none, with what was expected."""
    found = list(recordings)
    if not found:
        raise CorpusError(f"expected {expected}; found none")
    return listed_corpus(name, found, quick=quick, seed=seed)


# --- LibriSpeech ------------------------------------------------------------------------------------------------------


def open_librispeech(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """Every utterance below `path` that has text and audio. Raises `CorpusError` where there is none.

    Layout: SUBSET/SPEAKER/CHAPTER with SPEAKER-CHAPTER.trans.txt and one FLAC file per line of it; the folder may be
    the whole, one subset or one speaker. Files converted to another format next to the text are found too. There are no
    word times (Panayotov et al. 2015 aligned the sentences, not the words), so no latency is claimed.
    """
    folder = existing_folder(path, "LibriSpeech: files *.trans.txt and *.flac")
    recordings = [one for file in sorted(folder.rglob("*.trans.txt")) for one in _chapter(file)]
    expected = f"LibriSpeech in {folder}: *.trans.txt with audio next to it"
    return _corpus(f"librispeech-{folder.name}", recordings, expected, quick=quick, seed=seed)


def _chapter(transcript: Path) -> Iterator[Recording]:
    for line in read_lines(transcript):
        name, _, text = line.partition(" ")
        audio = find_audio(transcript.parent / name)
        if audio is None:
            raise CorpusError(
                f"{transcript} names {name}, but there is no audio of that name next to it; unpack it again"
            )
        yield Recording(name, (audio,), plain_words(text), group=name.partition("-")[0])


# --- TED-LIUM ---------------------------------------------------------------------------------------------------------

_IGNORED = "ignore_time_segment_in_scoring"
_NOT_WORDS = re.compile(r"<[^>]*>|\{[^}]*\}|\[[^\]]*\]|\(\d+\)")


def open_tedlium(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """The talks in `path`, which holds `stm` and `sph`; of a whole release its test part. Raises `CorpusError`.

    For long form: one whole talk per utterance, as openai/whisper evaluated TED-LIUM 3 (its data/README.md). A talk is
    cut from the beginning of its first labelled segment to the end of its last one; the reference is the text of all
    labelled segments. Segments marked `ignore_time_segment_in_scoring` have no label, but those in between are heard:
    what is said there counts as inserted. A line of `stm`: file, channel, speaker, start, end, labels, text.
    """
    folder = existing_folder(path, "TED-LIUM: folders stm and sph")
    part = _tedlium_part(folder)
    talks = [talk for file in sorted((part / "stm").glob("*.stm")) for talk in _talks(part, file)]
    expected = f"talks in {part / 'stm'}: files *.stm with labelled segments"
    return _corpus(f"tedlium-{part.name}", talks, expected, quick=quick, seed=seed)


def _tedlium_part(folder: Path) -> Path:
    for candidate in (folder, folder / "legacy" / "test", folder / "test"):
        if (candidate / "stm").is_dir():
            return candidate
    raise CorpusError(f"expected TED-LIUM in {folder}: a folder stm in it, in legacy/test or in test; found none")


def _talks(part: Path, stm: Path) -> Iterator[Recording]:
    """One talk per file and speaker's recording in an stm file."""
    segments: dict[str, list[tuple[float, float, str]]] = {}
    for line in read_lines(stm):
        if line.startswith(";;"):
            continue
        name, start, end, text = _segment(stm, line)
        if text != _IGNORED:
            segments.setdefault(name, []).append((start, end, text))
    for name, labelled in segments.items():
        audio = find_audio(part / "sph" / name)
        if audio is None:
            raise CorpusError(f"{stm} names {name}, but there is no audio of it in {part / 'sph'}; unpack it again")
        labelled.sort(key=lambda segment: segment[:2])
        cut = (labelled[0][0], max(end for _, end, _ in labelled))
        text = " ".join(text for _, _, text in labelled)
        yield Recording(name, (audio,), plain_words(_spoken(text)), group=name, cut=cut)


def _segment(stm: Path, line: str) -> tuple[str, float, float, str]:
    fields = line.split(maxsplit=5)
    try:
        name, _, _, start, end, rest = fields
        # <labels> may be missing; the text may not
        text = rest.split(">", 1)[1] if rest.startswith("<") and "," in rest.split(">", 1)[0] else rest
        return name, float(start), float(end), text.strip()
    except (ValueError, IndexError) as error:
        raise CorpusError(
            f"{stm}: expected 'file channel speaker start end <labels> text'; got {line[:80]!r}"
        ) from error


def _spoken(text: str) -> str:
    """Without marks for noises and unknown words; "it 's" is one word again."""
    return " ".join(_NOT_WORDS.sub(" ", text).replace(" '", "'").split())


# --- Meanwhile --------------------------------------------------------------------------------------------------------

_MEANWHILE = "meanwhile.json"
_TOLERANCE_S = 3.0  # a file that is longer than the segment by less than this was cut already


def open_meanwhile(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """The segments whose audio is there; some videos are no longer to be had. Raises `CorpusError` if none is.

    The 64 segments of a late-night show that the Whisper paper evaluates on: openai/whisper's `meanwhile.json` (per
    video: begin, end, text) and one audio file per video, named by its identifier: all of its sound, of which the
    segment is cut out, or the segment alone.
    """
    folder = existing_folder(path, f"{_MEANWHILE} and audio files named by the video")
    segments = [one for name, entry in _videos(folder).items() if (one := _video(folder, name, entry)) is not None]
    expected = f"audio in {folder} named like the entries of {_MEANWHILE} (for example ID.wav)"
    return _corpus("meanwhile", segments, expected, quick=quick, seed=seed)


def _videos(folder: Path) -> dict[str, dict[str, Any]]:
    try:
        index = json.loads((folder / _MEANWHILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CorpusError(
            f"expected {_MEANWHILE} of openai/whisper (its folder data) in {folder}; it is not there"
        ) from error
    except (OSError, ValueError) as error:
        raise CorpusError(f"{folder / _MEANWHILE} cannot be read: {error}") from error
    if not isinstance(index, dict):
        raise CorpusError(f"expected an object of videos in {folder / _MEANWHILE}; got {type(index).__name__}")
    return index


def _video(folder: Path, name: str, entry: dict[str, Any]) -> Recording | None:
    audio = find_audio(folder / name) or find_audio(folder / "audio" / name)
    if audio is None:
        return None
    try:
        begin, end, text = _clock(entry["begin"]), _clock(entry["end"]), str(entry["text"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorpusError(
            f"{folder / _MEANWHILE}: expected begin, end and text of {name}; got {entry!r:.80}"
        ) from error
    duration = duration_of(audio)
    whole_video = duration is None or duration > end - begin + _TOLERANCE_S
    return Recording(name, (audio,), plain_words(text), group=name, cut=(begin, end) if whole_video else None)


def _clock(text: str) -> float:
    """ "1:04.0" -> 64.0 seconds."""
    total = 0.0
    for part in str(text).split(":"):
        total = total * 60 + float(part)
    return total


# --- TIMIT ------------------------------------------------------------------------------------------------------------

_TIMIT_AUDIO = (".wav", ".wav.wav", ".flac", ".sph")  # as they are on the disc, and as converters leave them


def open_timit(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """Every sentence with word times below `path`, or below its TEST. Raises `CorpusError` where there is none.

    Hand-labelled word times, so latency may be claimed. Layout: PART/REGION/SPEAKER/SENTENCE with .WAV (NIST sphere or
    RIFF), .WRD (first sample, last sample, word) and .TXT, in capitals as on the disc or in small letters.
    """
    folder = existing_folder(path, "TIMIT: files *.WRD and *.WAV")
    part = next(
        (entry for entry in sorted(folder.iterdir()) if entry.is_dir() and entry.name.upper() == "TEST"), folder
    )
    expected = f"TIMIT in {part}: *.WRD with *.WAV next to it"
    return _corpus(f"timit-{part.name.lower()}", _sentences(part), expected, quick=quick, seed=seed)


def _sentences(part: Path) -> Iterator[Recording]:
    for labels in sorted(file for file in part.rglob("*") if file.suffix.upper() == ".WRD"):
        name, audio = labels.parent.name, _labelled_audio(labels)
        yield Recording(f"{name}-{labels.stem}", (audio,), _labels(labels), exact_times=True, group=name)


def _labelled_audio(labels: Path) -> Path:
    for suffix in _TIMIT_AUDIO:
        for spelled in (suffix.upper(), suffix, suffix.upper() + ".wav"):
            if (file := labels.with_name(labels.stem + spelled)).is_file():
                return file
    raise CorpusError(f"expected the audio of {labels} next to it ({labels.stem}.WAV); it is not there")


def _labels(labels: Path) -> tuple[RefWord, ...]:
    words = []
    for line in read_lines(labels):
        try:
            start, end, text = line.split()
            words.append(RefWord(text, int(start), int(end)))
        except ValueError as error:
            raise CorpusError(f"{labels}: expected 'first-sample last-sample word'; got {line[:80]!r}") from error
    return tuple(words)


# --- FLEURS -----------------------------------------------------------------------------------------------------------

_SPLITS = ("test", "dev", "validation", "train")
# Folder names begin with a language code; where Whisper's differs:
_WHISPER_CODES = {"cmn": "zh", "yue": "yue", "fil": "tl", "nb": "no", "jv": "jw", "iw": "he"}


def open_fleurs(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """The test split of one language, or the first split that is there. Raises `CorpusError` where there is none.

    The table has no header: number, file, raw transcription, transcription, characters, samples, gender (Conneau et al.
    2022). The raw transcription is the reference; normalising is the score's business. No word times, and nobody knows
    which recordings are of one speaker.
    """
    folder = existing_folder(path, "one language of FLEURS: test.tsv and audio/test")
    split = next((name for name in _SPLITS if (folder / f"{name}.tsv").is_file()), None)
    if split is None:
        raise CorpusError(f"expected test.tsv in {folder}; found none: name the folder of one language, like en_us")
    expected = f"one utterance per line in {folder / split}.tsv"
    return _corpus(f"fleurs-{folder.name}-{split}", _table(folder, split), expected, quick=quick, seed=seed)


def _table(folder: Path, split: str) -> Iterator[Recording]:
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
        words = plain_words(raw, language)
        yield Recording(name, (_split_audio(folder, split, file),), words, language=language)


def _split_audio(folder: Path, split: str, file: str) -> Path:
    places = (folder / "audio" / split, folder / split, folder / "audio", folder)
    for place in places:
        if (found := place / file).is_file():
            return found
    raise CorpusError(
        f"{folder / split}.tsv names {file}, but it is not in {places[0]}; unpack audio/{split}.tar.gz there"
    )
