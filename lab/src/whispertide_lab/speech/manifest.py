"""A user's manifest: one JSON object per line, each a recording, or a stretch of one, and what is said in it.

    {"audio": "talks/monday.flac", "text": "Good morning, everyone.", "speaker": "ann",
     "start": 12.5, "end": 14.9, "words": [{"word": "Good", "start": 12.6, "end": 12.8}, ...]}

`audio` and `text` must be there (`file` and `transcript` mean the same, so that the manifest of a corpus for `bench`
serves too); paths are relative to the manifest. Times are seconds in the file. `words`, where known, are those of the
text, each with its start and end. `language`, a code or a name, counts where a line is scored; a training run has one
for all. `licence`, that of the recording, is kept with the shards. Every line that cannot be used is found, and named
by its number.

Knows nothing of how audio is decoded, nor of shards.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whispertide.errors import CorpusError
from whispertide.types import CHUNK_SECONDS, SAMPLE_RATE, to_samples

FASTEST = 40  # letters a second; nobody speaks so fast
SLACK_S = 0.05  # that a time may lie after the end of its audio, because somebody rounded it

Spans = tuple[tuple[int, int], ...]

_NAMES = {"audio": ("audio", "file"), "text": ("text", "transcript")}
_NOT_LETTERS = re.compile(r"[^\w']+")


@dataclass(frozen=True, slots=True)
class Line:
    """A line that can be used as far as can be told without its audio. Samples count from the start of the file."""

    number: int
    audio: Path
    text: str
    speaker: str
    start: int
    end: int | None  # None: to the end of the file
    words: Spans | None  # one per word of text.split()
    language: str = "en"  # as it is written there
    licence: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the line of this number cannot be used."""

    number: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.number}: {self.reason}"


def read_manifest(path: Path, *, texts: bool = True) -> tuple[list[Line], list[Problem]]:
    """All lines that can be used and all that cannot; empty lines count as neither. Without `texts` none is needed,
    and no language is taken for English.

    Raises `CorpusError` where there is no such file, or it cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CorpusError(
            f"expected a manifest at {path}, one JSON object per line; it cannot be read: {error}"
        ) from error
    lines: list[Line] = []
    problems: list[Problem] = []
    for number, row in enumerate(content.split(b"\n"), start=1):
        if not row.strip():
            continue
        try:
            lines.append(_line(number, row, path.parent, texts=texts))
        except ValueError as error:
            problems.append(Problem(number, str(error)))
        except RecursionError:  # reading it, or telling what came
            problems.append(Problem(number, "expected a JSON object; this one is nested too deeply to be read"))
    return lines, problems


def _line(number: int, row: bytes, folder: Path, *, texts: bool) -> Line:
    """Raises ValueError, whose text says what is wrong."""
    entry = _object(row)
    audio = _file(folder, _string(entry, "audio"))
    text = " ".join(_string(entry, "text").split()) if texts or _has_text(entry) else ""
    start, end = _moment(entry.get("start", 0), "start"), None
    if entry.get("end") is not None:
        end = _moment(entry["end"], "end")
        if end <= start:
            raise ValueError(f"expected an end after the start; got {entry['end']!r} after {entry.get('start', 0)!r}")
    listed = entry.get("words")
    words = None if listed is None or listed == [] else _words(listed, text, start, end)
    licence = _about(entry, "licence", "") or _about(entry, "license", "")
    speaker, language = _about(entry, "speaker", ""), _about(entry, "language", "en" if texts else "")
    return Line(number, audio, text, speaker, start, end, words, language, " ".join(licence.split()))


def _about(entry: Mapping[str, Any], name: str, otherwise: str) -> str:
    """A text that need not be there."""
    value = entry.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, str):
        raise ValueError(f"expected a text as {name}; got {value!r:.60}")
    _check_characters(value, name)
    return value


def _object(row: bytes) -> Mapping[str, Any]:
    try:
        entry = json.loads(row)
    except ValueError as error:  # not JSON, or not UTF-8
        raise ValueError(f"expected a JSON object; {error}") from error
    if not isinstance(entry, dict):
        raise ValueError(f"expected a JSON object; got {row[:40]!r}")
    return entry


def _has_text(entry: Mapping[str, Any]) -> bool:
    return any(isinstance(entry.get(name), str) and entry[name].strip() for name in _NAMES["text"])


def _string(entry: Mapping[str, Any], name: str) -> str:
    there = [key for key in _NAMES[name] if key in entry]
    if not there:
        raise ValueError(f"expected {name!r}; it has {', '.join(map(repr, entry)) or 'nothing'}")
    key = next((key for key in there if entry[key] is not None), there[0])
    value = entry[key]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"expected a text that is not empty as {key!r}; got {json.dumps(value):.60}")
    _check_characters(value, key)
    return value


def _check_characters(value: str, name: str) -> None:
    """JSON can spell half of a character, which no tokenizer takes."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = value[error.start]
        raise ValueError(
            f"expected whole characters in {name!r}; got half of one, {half!a}, in {value!a:.60}"
        ) from error


def _file(folder: Path, name: str) -> Path:
    try:
        audio = folder / Path(name).expanduser()
        there = audio.is_file()
    except (OSError, RuntimeError) as error:  # a name too long for a file; ~ of a user whom nobody knows
        raise ValueError(f"expected the name of an audio file; got {name:.60}: {error}") from error
    if not there:
        raise ValueError(f"there is no file {audio}")
    return audio


def _moment(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e7:
        raise ValueError(f"expected seconds, not negative, as {name!r}; got {value!r}")
    return to_samples(value)


def _words(listed: object, text: str, start: int, end: int | None) -> Spans:
    """The spans of the words of `text`, which must be the words listed, in order and within the stretch."""
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise ValueError(f"expected 'words' as a list of objects with word, start and end; got {listed!r:.60}")
    spoken = [bare_word(str(one.get("word", ""))) for one in listed]
    written = [bare_word(word) for word in text.split()]
    if spoken != written:
        raise ValueError(f"expected the words of the text, {len(written)} of them; got {_difference(spoken, written)}")
    spans = [(_moment(one.get("start"), "start"), _moment(one.get("end"), "end")) for one in listed]
    before = start
    for word, (first, last) in zip(text.split(), spans, strict=True):
        if last <= first:
            raise ValueError(f"expected the word {word!r} to end after it starts; got {_span(first, last)}")
        if first < before - to_samples(SLACK_S):
            raise ValueError(f"expected words in order, from the start on; {word!r} is at {_span(first, last)}")
        if end is not None and last > end + to_samples(SLACK_S):
            raise ValueError(f"expected words within the stretch; {word!r} is at {_span(first, last)}")
        before = first
    return tuple(spans)


def _difference(spoken: Sequence[str], written: Sequence[str]) -> str:
    """Where the two part."""
    for one, other in zip(spoken, written, strict=False):
        if one != other:
            return f"{one!r} for {other!r}"
    return f"{len(spoken)}"


def _span(first: int, last: int) -> str:
    return f"{first / SAMPLE_RATE:g} to {last / SAMPLE_RATE:g} s"


def bare_word(word: str) -> str:
    """In small letters, without marks: two spellings of one word are equal so."""
    return _NOT_LETTERS.sub("", word.lower())


def check_length(line: Line, count: int) -> str | None:
    """Why `count` samples of audio do not go with this line, or None if they do."""
    seconds = count / SAMPLE_RATE
    if seconds < 0.1:
        return f"expected at least 0.1 s of audio; got {seconds:.2f} s"
    if len(line.text) > FASTEST * seconds:
        return f"expected text of at most {FASTEST} letters a second; got {len(line.text)} letters in {seconds:.1f} s"
    if line.words is None and seconds > CHUNK_SECONDS:
        return (
            f"expected at most {CHUNK_SECONDS} s, what Whisper hears at once, where the words' times are not known; "
            f"got {seconds:.1f} s: cut it with start and end, or give words"
        )
    if line.words is not None and line.words[-1][1] - line.start > count + to_samples(SLACK_S):
        return f"expected words within the audio, {seconds:.2f} s; the last is at {_span(*line.words[-1])}"
    return None
