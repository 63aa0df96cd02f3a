"""The answers of the REST interface, format by format, without HTTP and without audio."""

import io
import json
import math
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from whispertide.options import DecodeOptions
from whispertide.server.transcription_answers import StreamedAnswer, diarized, render, sse, usage
from whispertide.server.transcription_form import TranscriptionRequest
from whispertide.types import OfflineSegment, Span, Word


def segment(number: int, text: str, speaker: int | None = None) -> OfflineSegment:
    start, end = 16_000 * number, 16_000 * number + 8_000
    words = (Word(text, start, end, 0.9, speaker),)
    return OfflineSegment(number, Span(start, end), text, (7, 8), words, -0.1, 1.0, 0.0, 0.0, "en")


SEGMENTS = [segment(0, " Tea?", 1), segment(1, " Yes.", 2)]


def request(form: str, *granularities: str) -> TranscriptionRequest:
    return TranscriptionRequest(io.BytesIO(), "base", form, frozenset(granularities), False, DecodeOptions())


def job(samples: int = 32_000, warning: str = "") -> Any:
    transcriber = SimpleNamespace(language_of=lambda options, detected: detected)
    return SimpleNamespace(samples=samples, duration_s=samples / 16_000, warning=warning, transcriber=transcriber)


def answered(form: str, *granularities: str, segments: Any = SEGMENTS, of: Any = None) -> Any:
    return json.loads(bytes(render(request(form, *granularities), of or job(), segments, "transcribe").body))


def test_a_segment_of_one_voice_is_as_openais() -> None:
    assert diarized(segment(1, " Yes.", 2)) == {
        "type": "transcript.text.segment",
        "id": "seg_001",
        "start": 1.0,
        "end": 1.5,
        "text": " Yes.",
        "speaker": "B",
    }
    assert diarized(segment(0, " Oh."))["speaker"] == ""
    assert diarized(replace(segment(0, " Oh."), words=()))["speaker"] == ""


def test_the_formats_in_json() -> None:
    assert answered("json") == {"text": "Tea? Yes.", "usage": {"type": "duration", "seconds": 2}}
    parts = answered("diarized_json")
    assert (parts["task"], parts["duration"], parts["text"]) == ("transcribe", 2.0, "Tea? Yes.")
    assert [(part["speaker"], part["text"]) for part in parts["segments"]] == [("A", " Tea?"), ("B", " Yes.")]


def test_the_verbose_answer_has_what_was_asked_for() -> None:
    neither = answered("verbose_json")
    assert neither.keys() == {"task", "language", "duration", "text", "usage"}
    assert neither["language"] == "english"
    both = answered("verbose_json", "word", "segment")
    assert both["words"] == [
        {"word": "Tea?", "start": 0.0, "end": 0.5, "speaker": 1},
        {"word": "Yes.", "start": 1.0, "end": 1.5, "speaker": 2},
    ]
    assert [(part["id"], part["text"], part["tokens"]) for part in both["segments"]] == [
        (0, " Tea?", [7, 8]),
        (1, " Yes.", [7, 8]),
    ]


def test_a_translation_is_in_english_whatever_was_said() -> None:
    """As OpenAI's reference has it: the language of the output."""
    german = [replace(one, language="de") for one in SEGMENTS]
    said = {
        task: json.loads(bytes(render(request("verbose_json"), job(), german, task).body))["language"]
        for task in ("transcribe", "translate")
    }
    assert said == {"transcribe": "german", "translate": "english"}


def test_words_say_whose_they_are_where_that_is_known() -> None:
    words = answered("verbose_json", "word", segments=[segment(0, " Tea?", 1), segment(1, " Oh.")])["words"]
    assert [word.get("speaker") for word in words] == [1, None]
    assert "speaker" not in words[1]


def test_clients_get_a_language_and_numbers_also_where_there_are_none() -> None:
    odd = replace(segment(0, " Tea?"), no_speech_prob=math.nan, avg_logprob=-math.inf, window=160_000)
    found = answered("verbose_json", "segment", segments=[odd])["segments"][0]
    assert (found["no_speech_prob"], found["avg_logprob"], found["seek"]) == (0.0, 0.0, 1000)
    assert answered("verbose_json", segments=[])["language"] == "english"


@pytest.mark.parametrize(
    ("form", "kind", "begins"),
    [("text", "text/plain", b"Tea? Yes.\n"), ("srt", "application/x-subrip", b"1\n"), ("vtt", "text/vtt", b"WEBVTT")],
)
def test_the_formats_in_text(form: str, kind: str, begins: bytes) -> None:
    answer = render(request(form), job(), SEGMENTS, "transcribe")
    assert answer.media_type == kind
    assert bytes(answer.body).startswith(begins)


def test_every_answer_says_its_model_and_what_is_wrong_with_the_audio() -> None:
    for form in ("json", "verbose_json", "diarized_json", "text", "srt", "vtt"):
        headers = render(request(form), job(warning="cut off"), SEGMENTS, "transcribe").headers
        assert headers["x-whispertide-model"] == "base"
        assert json.loads(headers["x-whispertide-warning"]) == "cut off"


def test_a_second_that_has_begun_counts() -> None:
    assert [usage(job(samples))["seconds"] for samples in (0, 1, 16_000, 16_001)] == [0, 1, 1, 2]


def test_a_message_of_a_stream_is_one_line() -> None:
    message = sse({"type": "x", "text": "ü\n\n"})
    assert message.endswith("\n\n")
    assert message.count("\n") == 2
    assert json.loads(message.removeprefix("data: "))["text"] == "ü\n\n"


@pytest.mark.parametrize("breaks", [False, True])
async def test_the_file_stays_open_until_the_answer_is_sent_or_cannot_be(breaks: bool) -> None:
    held, closed, seen = AsyncExitStack(), list[bool](), list[bool]()
    held.callback(lambda: closed.append(True))

    async def pieces() -> Any:
        seen.append(bool(closed))
        yield sse({"type": "x"})

    async def receive() -> Any:
        raise AssertionError("nobody asks")

    async def send(message: Any) -> None:
        if breaks and message["type"] == "http.response.body":
            raise OSError("the client is gone")

    scope = {"type": "http", "method": "POST", "headers": [], "asgi": {"spec_version": "2.4"}}
    answer = StreamedAnswer(pieces(), {"x-whispertide-model": "base"}, held)
    assert answer.headers["cache-control"] == "no-store"
    with pytest.raises(ClientDisconnect) if breaks else nullcontext():
        await answer(scope, receive, send)
    assert seen == [False]
    assert closed == [True]
