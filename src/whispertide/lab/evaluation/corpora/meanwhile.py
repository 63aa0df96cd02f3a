"""Meanwhile, the 64 segments of a late-night show that the Whisper paper evaluates on.

A folder with openai/whisper's `meanwhile.json` (per video: begin, end, text) and one audio file per video, named by its
identifier: the whole video's sound, of which the segment is cut out, or the segment alone.
"""

import json
from pathlib import Path
from typing import Any

from whispertide.audio.file import probe
from whispertide.errors import CorpusError
from whispertide.lab.evaluation.corpora.listed import (
    ListedCorpus,
    Recording,
    audio_beside,
    existing_folder,
    listed_corpus,
    plain_words,
)

INDEX = "meanwhile.json"
_TOLERANCE_S = 3.0  # a file that is longer than the segment by less than this was cut already


def open_meanwhile(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """The segments whose audio is there; some videos are no longer to be had. Raises `CorpusError` if none is."""
    folder = existing_folder(path, f"{INDEX} and audio files named by the video")
    segments = [one for name, entry in _index(folder).items() if (one := _recording(folder, name, entry)) is not None]
    if not segments:
        raise CorpusError(
            f"expected audio in {folder} named like the entries of {INDEX} (for example ID.wav); found none"
        )
    return listed_corpus("meanwhile", segments, quick=quick, seed=seed)


def _index(folder: Path) -> dict[str, dict[str, Any]]:
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CorpusError(
            f"expected {INDEX} of openai/whisper (its folder data) in {folder}; it is not there"
        ) from error
    except (OSError, ValueError) as error:
        raise CorpusError(f"{folder / INDEX} cannot be read: {error}") from error
    if not isinstance(index, dict):
        raise CorpusError(f"expected an object of videos in {folder / INDEX}; got {type(index).__name__}")
    return index


def _recording(folder: Path, name: str, entry: dict[str, Any]) -> Recording | None:
    audio = audio_beside(folder / name) or audio_beside(folder / "audio" / name)
    if audio is None:
        return None
    try:
        begin, end, text = _clock(entry["begin"]), _clock(entry["end"]), str(entry["text"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorpusError(f"{folder / INDEX}: expected begin, end and text of {name}; got {entry!r:.80}") from error
    duration = probe(audio).duration_s
    whole_video = duration is None or duration > end - begin + _TOLERANCE_S
    return Recording(name, (audio,), plain_words(text), group=name, cut=(begin, end) if whole_video else None)


def _clock(text: str) -> float:
    """ "1:04.0" -> 64.0 seconds."""
    total = 0.0
    for part in str(text).split(":"):
        total = total * 60 + float(part)
    return total
