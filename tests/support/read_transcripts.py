"""Transcripts read back: a test's view of what the program wrote. A file that is malformed is an assertion or a
`ValueError`.
"""

import html
import json
import re
from collections.abc import Callable

from whispertide.events import Confirmed, End, Language, TurnEnd, from_dict
from whispertide.formats.document import Document, Segmenter, TextSegment
from whispertide.types import SAMPLE_RATE, Word, to_samples

_TIME = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{3})")


def _from_ms(value: int) -> int:
    return round(value * SAMPLE_RATE / 1000)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _timed(segments: list[TextSegment]) -> Document:
    return Document(tuple(segments), duration=max((segment.end for segment in segments), default=0))


def parse_txt(text: str) -> Document:
    """One segment per line; a text file has no times, so all are 0."""
    return Document(tuple(TextSegment(0, 0, " " + _one_line(line)) for line in text.splitlines() if line.strip()))


def _stamp(text: str) -> int:
    match = _TIME.fullmatch(text)
    assert match, f"expected a time such as 00:01:02.345; got {text!r}"
    hours, minutes, secs, millis = (int(group or 0) for group in match.groups())
    return _from_ms(((hours * 60 + minutes) * 60 + secs) * 1000 + millis)


def _cues(text: str) -> list[TextSegment]:
    """Cues as segments without words."""
    segments, lines = [], iter(text.splitlines())
    for line in lines:
        start, arrow, end = line.partition(" --> ")
        if arrow and not line.startswith("NOTE"):
            body: list[str] = []
            while said := next(lines, "").strip():
                body.append(said)
            segments.append(TextSegment(_stamp(start), _stamp(end), " " + _one_line(" ".join(body))))
    return segments


def parse_srt(text: str) -> Document:
    """Cues as segments without words."""
    return _timed(_cues(text))


def parse_vtt(text: str) -> Document:
    """Cues as segments without words."""
    assert text.startswith("WEBVTT\n")
    return _timed([TextSegment(cue.start, cue.end, html.unescape(cue.text)) for cue in _cues(text)])


def parse_tsv(text: str) -> Document:
    """A row is a segment."""
    header, *rows = text.splitlines()
    assert header.split("\t") == ["start", "end", "text"]
    found = [row.split("\t", 2) for row in rows]
    return _timed([TextSegment(_from_ms(int(start)), _from_ms(int(end)), " " + said) for start, end, said in found])


def parse_json(text: str) -> Document:
    """All of it."""
    data = json.loads(text)
    words = [
        Word(word["text"], to_samples(word["start"]), to_samples(word["end"]), word["probability"])
        for word in data["words"]
    ]
    segments = []
    for entry in data["segments"]:
        scores = {key: value for key, value in entry.items() if key not in {"id", "start", "end", "text", "words"}}
        mine = tuple(words[slice(*entry["words"])])
        segments.append(TextSegment(to_samples(entry["start"]), to_samples(entry["end"]), entry["text"], mine, scores))
    named = {key: data[key] for key in ("language", "model", "recipe", "source", "complete", "metrics")}
    return Document(tuple(segments), duration=to_samples(data["duration"]), **named)


def parse_whisper_json(text: str) -> Document:
    """Segments with their words."""
    data = json.loads(text)
    segments = []
    for entry in data["segments"]:
        words = tuple(
            Word(word["word"], to_samples(word["start"]), to_samples(word["end"]), word["probability"])
            for word in entry["words"]
        )
        segments.append(TextSegment(to_samples(entry["start"]), to_samples(entry["end"]), entry["text"], words))
    return Document(tuple(segments), language=data["language"])


def parse_jsonl(text: str) -> Document:
    """The document that a stream of events amounts to; without an `end` event it is incomplete."""
    segmenter = Segmenter()
    segments: list[TextSegment] = []
    language: str | None = None
    duration, ended = 0, False
    # Not splitlines(): JSON leaves U+2028 and its like as they are inside a string.
    for line in text.removesuffix("\n").split("\n") if text else []:
        event = from_dict(json.loads(line))
        duration = max(duration, event.at)
        match event:
            case Confirmed(words=words):
                segments += segmenter.push(words)
            case TurnEnd():
                segments += segmenter.end_turn()
            case Language(language=code):
                language = code
            case End(duration=total):
                duration, ended = total, True
    segments += segmenter.end_turn()
    return Document(tuple(segments), language, duration, complete=ended)


PARSERS: dict[str, Callable[[str], Document]] = {
    "txt": parse_txt,
    "srt": parse_srt,
    "vtt": parse_vtt,
    "json": parse_json,
    "whisper-json": parse_whisper_json,
    "jsonl": parse_jsonl,
    "tsv": parse_tsv,
}
