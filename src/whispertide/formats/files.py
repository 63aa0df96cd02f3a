"""Finished transcripts as files: txt, srt, vtt, tsv, json and jsonl, written and read back.

Everything here is a pure function from values to text and back. The module knows nothing of models, sessions or
where the text goes. Seconds and milliseconds appear only in the texts; inside, time is an integer sample index.
"""

import html
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from whispertide.errors import OptionError, TranscriptError
from whispertide.events import Confirmed, End, Event, Language, TurnEnd, from_dict, to_dict
from whispertide.formats.document import Document, Segmenter, TextSegment
from whispertide.formats.subtitles import cues
from whispertide.types import SAMPLE_RATE, Word, seconds, to_samples


def _ms(samples: int) -> int:
    return round(samples * 1000 / SAMPLE_RATE)


def _from_ms(value: int) -> int:
    return round(value * SAMPLE_RATE / 1000)


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- txt -------------------------------------------------------------------------------------------------------------


def render_txt(document: Document) -> str:
    """One segment per line."""
    return "".join(line + "\n" for segment in document.segments if (line := _one_line(segment.text)))


def parse_txt(text: str) -> Document:
    """One segment per line; a text file has no times, so all are 0."""
    return Document(tuple(TextSegment(0, 0, " " + _one_line(line)) for line in text.splitlines() if line.strip()))


# --- srt and vtt -----------------------------------------------------------------------------------------------------

_TIME = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{3})")


def _stamp(ms: int, mark: str) -> str:
    rest, millis = divmod(ms, 1000)
    minutes, secs = divmod(rest, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{secs:02d}{mark}{millis:03d}"


def _parse_stamp(text: str, line: int) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise TranscriptError(f"line {line}: expected a time such as 00:01:02.345; got {text!r}")
    hours, minutes, secs, millis = (int(group or 0) for group in match.groups())
    return ((hours * 60 + minutes) * 60 + secs) * 1000 + millis


def _without_arrow(text: str) -> str:
    """ "-->" inside a text would end the header line for some readers of SubRip, so it loses a dash."""
    return re.sub("-{2,}>", "->", text)


def render_srt(document: Document) -> str:
    """SubRip: numbered cues."""
    blocks = (
        f"{number}\n{_stamp(_ms(cue.start), ',')} --> {_stamp(_ms(cue.end), ',')}\n{cue.text}\n"
        for number, cue in enumerate(cues(document, _without_arrow), 1)
    )
    return "\n".join(blocks)


def render_vtt(document: Document) -> str:
    """WebVTT (W3C): `&`, `<` and `>` are escaped; an incomplete transcript says so in a NOTE."""
    head = "WEBVTT\n\n" if document.complete else "WEBVTT\n\nNOTE This transcript is incomplete.\n\n"
    blocks = (
        f"{_stamp(_ms(cue.start), '.')} --> {_stamp(_ms(cue.end), '.')}\n{html.escape(cue.text, quote=False)}\n"
        for cue in cues(document)
    )
    return head + "\n".join(blocks)


def _parse_cues(text: str, *, unescape: bool) -> tuple[TextSegment, ...]:
    segments: list[TextSegment] = []
    lines = text.removeprefix("\ufeff").splitlines()
    number = 0
    while number < len(lines):
        before, arrow, after = lines[number].partition("-->")
        number += 1
        if not arrow or before.startswith("NOTE"):
            continue
        start = _parse_stamp(before.strip(), number)
        end = _parse_stamp((after.split() or [""])[0], number)
        body: list[str] = []
        while number < len(lines) and lines[number].strip():
            body.append(lines[number])
            number += 1
        said = _one_line(" ".join(body))
        said = " " + (html.unescape(said) if unescape else said)
        segments.append(TextSegment(_from_ms(start), _from_ms(end), said))
    return tuple(segments)


def parse_srt(text: str) -> Document:
    """Cues as segments without words. Raises `TranscriptError` for a malformed time."""
    return _timed(_parse_cues(text, unescape=False))


def parse_vtt(text: str) -> Document:
    """Cues as segments without words. Raises `TranscriptError` where the header or a time is malformed."""
    if not text.removeprefix("\ufeff").startswith("WEBVTT"):
        raise TranscriptError(f"expected a file that starts with WEBVTT; got {text[:20]!r}")
    return _timed(_parse_cues(text, unescape=True))


def _timed(segments: tuple[TextSegment, ...]) -> Document:
    return Document(segments, duration=max((segment.end for segment in segments), default=0))


# --- tsv -------------------------------------------------------------------------------------------------------------


def render_tsv(document: Document) -> str:
    """`start end text` with times in milliseconds (openai/whisper, utils.py); white space in a text becomes a space."""
    rows = (
        f"{_ms(segment.start)}\t{_ms(segment.end)}\t{line}\n"
        for segment in document.segments
        if (line := _one_line(segment.text))
    )
    return "start\tend\ttext\n" + "".join(rows)


def parse_tsv(text: str) -> Document:
    """Raises `TranscriptError` where the header or a row is malformed."""
    lines = text.splitlines()
    if not lines or lines[0].split("\t") != ["start", "end", "text"]:
        raise TranscriptError(f"expected the header start, end, text; got {lines[:1]}")
    segments = []
    for number, line in enumerate(lines[1:], 2):
        start, _, rest = line.partition("\t")
        end, tab, said = rest.partition("\t")
        if not (tab and start.isdecimal() and end.isdecimal()):
            raise TranscriptError(f"line {number}: expected two times in milliseconds and a text; got {line!r}")
        segments.append(TextSegment(_from_ms(int(start)), _from_ms(int(end)), " " + said))
    return _timed(tuple(segments))


# --- json ------------------------------------------------------------------------------------------------------------


def _number(value: Any) -> Any:
    """JSON has no NaN and no infinity: a figure that does not exist is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _number(value) for key, value in values.items()}


def to_json(document: Document) -> dict[str, Any]:
    """The document as a JSON-ready dictionary; its fields are described in docs/cli.md.

    A segment names its words as a range `[first, last + 1]` into the one list of words.
    """
    segments, first = [], 0
    for index, segment in enumerate(document.segments):
        entry = {
            "id": index,
            "start": seconds(segment.start),
            "end": seconds(segment.end),
            "text": segment.text,
            "words": [first, first + len(segment.words)],
        }
        segments.append({**entry, **_numbers(segment.scores)})
        first += len(segment.words)
    return {
        "text": document.text,
        "language": document.language,
        "duration": seconds(document.duration),
        "complete": document.complete,
        "source": document.source,
        "model": document.model,
        "recipe": document.recipe,
        "segments": segments,
        "words": [
            {"text": word.text, "start": seconds(word.start), "end": seconds(word.end), "probability": word.probability}
            for word in document.words
        ],
        "metrics": _numbers(document.metrics),
    }


def render_json(document: Document) -> str:
    """One indented JSON object."""
    return json.dumps(to_json(document), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def json_line(document: Document) -> str:
    """The same object on one line, for several in one stream."""
    return json.dumps(to_json(document), ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


def parse_json(text: str) -> Document:
    """The inverse of `render_json`. Raises `TranscriptError` for anything else."""
    try:
        return _from_json(json.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise TranscriptError(f"expected a transcript as `--format json` writes it; {problem!r}") from problem


def _from_json(data: dict[str, Any]) -> Document:
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


# --- jsonl: the events -----------------------------------------------------------------------------------------------


def event_line(event: Event) -> str:
    """One event as one line."""
    return json.dumps(to_dict(event), ensure_ascii=False, separators=(",", ":")) + "\n"


def document_events(document: Document) -> Iterator[Event]:
    """The events that would have led to this document; there is no `end` for an incomplete one."""
    seq = 0
    if document.language is not None:
        yield Language(seq, 0, document.language, 1.0)
        seq += 1
    for segment in document.segments:
        words = segment.words or (Word(segment.text, segment.start, segment.end),)
        yield Confirmed(seq, segment.end, words)
        yield TurnEnd(seq + 1, segment.end, segment.end)
        seq += 2
    if document.complete:
        yield End(seq, document.duration, document.duration)


def render_jsonl(document: Document) -> str:
    """The document as events, one per line."""
    return "".join(map(event_line, document_events(document)))


def parse_jsonl(text: str) -> Document:
    """The document that a stream of events amounts to; without an `end` event it is incomplete.

    Raises `TranscriptError` naming the line that is not an event.
    """
    segmenter = Segmenter()
    segments: list[TextSegment] = []
    language: str | None = None
    duration, ended = 0, False
    # Not splitlines(): JSON leaves U+2028 and its like as they are inside a string.
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], 1):
        event = _parse_event(line, number)
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


def _parse_event(line: str, number: int) -> Event:
    try:
        return from_dict(json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise TranscriptError(f"line {number}: expected an event; {problem}") from problem


# --- by name ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Format:
    """A file format by name; the name is also its file extension."""

    name: str
    render: Callable[[Document], str]
    parse: Callable[[str], Document]


FORMATS: dict[str, Format] = {
    item.name: item
    for item in (
        Format("txt", render_txt, parse_txt),
        Format("srt", render_srt, parse_srt),
        Format("vtt", render_vtt, parse_vtt),
        Format("json", render_json, parse_json),
        Format("jsonl", render_jsonl, parse_jsonl),
        Format("tsv", render_tsv, parse_tsv),
    )
}


def get_format(name: str) -> Format:
    """The format called `name`. Raises `OptionError` if there is none."""
    if name not in FORMATS:
        raise OptionError(f"expected a format among {', '.join(FORMATS)}; got {name!r}")
    return FORMATS[name]
