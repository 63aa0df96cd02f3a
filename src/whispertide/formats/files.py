"""Finished transcripts as files: txt, srt, vtt, tsv, json, whisper-json and jsonl.

Everything here is a pure function from values to text. The module knows nothing of models, sessions or
where the text goes. Seconds and milliseconds appear only in the texts; inside, time is an integer sample index.
"""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import PurePath
from typing import Any, TypeVar

from whispertide.events import Confirmed, Correction, End, Event, Language, Translation, TurnEnd, to_dict
from whispertide.formats.document import Document, OtherText
from whispertide.formats.numbers import json_numbers
from whispertide.formats.subtitles import SUBTITLES, cues
from whispertide.formats.whisper_json import render_whisper_json
from whispertide.options import WHISPER_JSON, SubtitleOptions, check_choice
from whispertide.types import SAMPLE_RATE, Word, seconds, speaker_name

_Path = TypeVar("_Path", bound=PurePath)


def _ms(samples: int) -> int:
    return round(samples * 1000 / SAMPLE_RATE)


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- txt -------------------------------------------------------------------------------------------------------------


def render_txt(document: Document) -> str:
    """Render one segment per line, after its voice if that is known."""
    return "".join(
        line + "\n" for segment in document.segments if (line := named(_one_line(segment.text), segment.speaker))
    )


def named(text: str, speaker: int | None) -> str:
    """A line of plain text with its voice before it; an empty one stays empty."""
    return _label(speaker) + text if text else text


def _label(speaker: int | None) -> str:
    return "" if speaker is None else f"{speaker_name(speaker)}: "


# --- srt and vtt -----------------------------------------------------------------------------------------------------


def _stamp(ms: int, mark: str) -> str:
    rest, millis = divmod(ms, 1000)
    minutes, secs = divmod(rest, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{secs:02d}{mark}{millis:03d}"


def _without_arrow(text: str) -> str:
    """Remove a dash from "-->" inside a text, which would end the header line for some readers of SubRip."""
    return re.sub("-{2,}>", "->", text)


def render_srt(document: Document, options: SubtitleOptions = SUBTITLES) -> str:
    """Render SubRip: numbered cues, with the voice before the first of its cues."""
    blocks = (
        f"{number}\n{_stamp(_ms(cue.start), ',')} --> {_stamp(_ms(cue.end), ',')}\n{cue.text}\n"
        for number, cue in enumerate(cues(document, _without_arrow, options, _label), 1)
    )
    return "\n".join(blocks)


def render_vtt(document: Document, options: SubtitleOptions = SUBTITLES) -> str:
    """Render WebVTT (W3C): `&`, `<` and `>` are escaped, and a voice is a `<v>`; an incomplete transcript says so in a
    NOTE.
    """
    head = "WEBVTT\n\n" if document.complete else "WEBVTT\n\nNOTE This transcript is incomplete.\n\n"
    blocks = (
        f"{_stamp(_ms(cue.start), '.')} --> {_stamp(_ms(cue.end), '.')}\n{_voice_tag(cue.speaker)}"
        f"{html.escape(cue.text, quote=False)}\n"
        for cue in cues(document, options=options)
    )
    return head + "\n".join(blocks)


def _voice_tag(speaker: int | None) -> str:
    return "" if speaker is None else f"<v {speaker_name(speaker)}>"


# --- tsv -------------------------------------------------------------------------------------------------------------


def render_tsv(document: Document) -> str:
    """Render `start end text` with times in milliseconds (openai/whisper, utils.py); white space in a text becomes a
    space.
    """
    rows = (
        f"{_ms(segment.start)}\t{_ms(segment.end)}\t{line}\n"
        for segment in document.segments
        if (line := _one_line(segment.text))
    )
    return "start\tend\ttext\n" + "".join(rows)


# --- json ------------------------------------------------------------------------------------------------------------


def _to_json(document: Document) -> dict[str, Any]:
    """Convert a document to a JSON-ready dictionary; its fields are described in docs/reference/cli.md.

    A segment names its words as a range `[first, last + 1]` into the one list of words.
    """
    segments, first = [], 0
    for index, segment in enumerate(document.segments):
        entry = {
            "id": index,
            "start": segment.start_s,
            "end": segment.end_s,
            "text": segment.text,
            "words": [first, first + len(segment.words)],
            **_speaker(segment.speaker),
        }
        segments.append({**entry, **json_numbers(segment.scores)})
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
            {
                "text": word.text,
                "start": word.start_s,
                "end": word.end_s,
                "probability": word.probability,
                **_speaker(word.speaker),
            }
            for word in document.words
        ],
        "metrics": json_numbers(document.metrics),
        **named_others(document.others),
    }


HOLD_OTHERS = ("json", "jsonl")  # formats that hold translations and corrections themselves


def other_name(language: str | None) -> str:
    """What a translation into a language (None: a correction) is called: its file, or its line."""
    return language or "corrected"


def other_path(transcript: _Path, name: str) -> _Path:
    """The path of a translation next to its transcript: `talk.fr.srt` of `talk.srt`."""
    return transcript.with_suffix(f".{name}{transcript.suffix}")


def with_others(transcript: _Path, names: Iterable[str]) -> tuple[_Path, ...]:
    """The path of a transcript, and of each translation and correction next to it, by `other_name`."""
    return (transcript, *(other_path(transcript, name) for name in names))


def named_others(others: Iterable[OtherText], call: Callable[[int], int | str] = int) -> dict[str, Any]:
    """Translations and corrections, by name; without any there is no such field. `call` is how a voice is called."""
    named: dict[str, list[dict[str, Any]]] = {}
    for other in others:
        voice = {} if other.speaker is None else {"speaker": call(other.speaker)}
        entry = {"start": other.start_s, "end": other.end_s, "text": other.text, **voice}
        if other.language is None:
            named.setdefault("corrections", []).append(entry)
        else:
            named.setdefault("translations", []).append({"language": other.language, **entry})
    return named


def _speaker(number: int | None) -> dict[str, int]:
    """The field of a voice; none where nobody asked, or nobody knows."""
    return {} if number is None else {"speaker": number}


def render_json(document: Document) -> str:
    """Render one indented JSON object."""
    return json.dumps(_to_json(document), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def json_line(document: Document) -> str:
    """Render the same object on one line, for several in one stream."""
    return json.dumps(_to_json(document), ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


# --- jsonl: the events -----------------------------------------------------------------------------------------------


def event_line(event: Event) -> str:
    """Render one event as one line."""
    return json.dumps(to_dict(event), ensure_ascii=False, separators=(",", ":")) + "\n"


def document_events(document: Document) -> Iterator[Event]:
    """The events that would have led to this document, without `end` for an incomplete one."""
    seq = 0
    if document.language is not None:
        yield Language(seq, 0, document.language, 1.0)
        seq += 1
    for segment in document.segments:
        words = segment.words or (Word(segment.text, segment.start, segment.end, speaker=segment.speaker),)
        yield Confirmed(seq, segment.end, words)
        yield TurnEnd(seq + 1, segment.end, segment.end)
        seq += 2
    for other in document.others:
        if other.language is None:
            yield Correction(seq, other.end, other.start, other.end, other.text, speaker=other.speaker)
        else:
            yield Translation(seq, other.end, other.start, other.end, other.language, other.text, speaker=other.speaker)
        seq += 1
    if document.complete:
        yield End(seq, document.duration, document.duration)


def render_jsonl(document: Document) -> str:
    """Render the document as events, one per line."""
    return "".join(map(event_line, document_events(document)))


# --- by name ---------------------------------------------------------------------------------------------------------


FORMATS: dict[str, Callable[..., str]] = {
    "txt": render_txt,
    "srt": render_srt,
    "vtt": render_vtt,
    "json": render_json,
    WHISPER_JSON: render_whisper_json,
    "jsonl": render_jsonl,
    "tsv": render_tsv,
}


def get_format(name: str, subtitles: SubtitleOptions = SUBTITLES) -> Callable[[Document], str]:
    """The function that renders a document as the text of a file: `get_format("srt")(document)`. The file's extension
    is `options.file_extension(name)`.

    `subtitles` is for `srt` and `vtt`. Raises `OptionError` if there is no such format.
    """
    check_choice("the format", name, tuple(FORMATS))
    render = FORMATS[name]
    return partial(render, options=subtitles) if render in (render_srt, render_vtt) else render
