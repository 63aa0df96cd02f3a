"""`diarized_json` of the REST interface, and errors of what is asked for."""

import io
import json

import pytest

from whispertide.decoding.longform import OfflineSegment
from whispertide.errors import OptionError
from whispertide.options import ANY_SPEAKERS, DecodeOptions
from whispertide.server.transcription_answers import diarized, render
from whispertide.server.transcription_form import TranscriptionRequest, _speakers
from whispertide.types import Span, Word


def segment(number: int, text: str, speaker: int | None) -> OfflineSegment:
    start, end = 16_000 * number, 16_000 * number + 8_000
    words = (Word(text, start, end, 0.9, speaker),)
    return OfflineSegment(number, Span(start, end), text, (), words, -0.1, 1.0, 0.0, 0.0, "en")


def test_a_segment_is_as_openais() -> None:
    assert diarized(segment(1, " Yes.", 2)) == {
        "type": "transcript.text.segment",
        "id": "seg_001",
        "start": 1.0,
        "end": 1.5,
        "text": " Yes.",
        "speaker": "B",
    }
    assert diarized(segment(0, " Oh.", None))["speaker"] == ""


class Job:
    samples = 32_000
    duration_s = 2.0
    warning = ""


def test_the_whole_answer() -> None:
    options = DecodeOptions(speakers=2)
    asked = TranscriptionRequest(io.BytesIO(), "base", "diarized_json", frozenset({"segment"}), False, options)
    segments = [segment(0, " Tea?", 1), segment(1, " Yes.", 2)]
    answer = json.loads(bytes(render(asked, Job(), segments, "transcribe").body))  # type: ignore[arg-type]
    assert (answer["task"], answer["duration"], answer["text"]) == ("transcribe", 2.0, "Tea? Yes.")
    assert [(part["speaker"], part["text"]) for part in answer["segments"]] == [("A", " Tea?"), ("B", " Yes.")]


def test_how_many_voices() -> None:
    assert _speakers({}, "json") is None
    assert _speakers({}, "diarized_json") == ANY_SPEAKERS
    assert _speakers({"speakers": "3"}, "srt") == 3
    assert _speakers({"speakers": "0"}, "json") == 0
    for wrong, form in (("0", "diarized_json"), ("21", "json"), ("-1", "json")):
        with pytest.raises(OptionError, match="speakers"):
            _speakers({"speakers": wrong}, form)
