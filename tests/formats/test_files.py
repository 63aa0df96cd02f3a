import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from read_transcripts import PARSERS, parse_json, parse_jsonl, parse_srt, parse_vtt
from whispertide.errors import OptionError
from whispertide.events import Confirmed, End, Event, Hypothesis, Language, from_dict
from whispertide.formats.document import Document, TextSegment, segment_words
from whispertide.formats.files import (
    FORMATS,
    document_events,
    event_line,
    get_format,
    json_line,
    render_json,
    render_jsonl,
    render_srt,
    render_tsv,
    render_txt,
    render_vtt,
)
from whispertide.options import SubtitleOptions
from whispertide.types import SAMPLE_RATE, Word

HELLO = Document(
    segment_words(
        [
            Word(" Hello", 1600, 8000, 0.9),
            Word(" there.", 8000, 16001, 0.5),
            Word(" Fish", 3600 * SAMPLE_RATE, 3600 * SAMPLE_RATE + 8000, 0.8),
            Word(" & <chips>", 3600 * SAMPLE_RATE + 8000, 3601 * SAMPLE_RATE, 0.7),
        ]
    ),
    language="en",
    duration=3602 * SAMPLE_RATE,
    model="base.en",
    recipe="whisper-streaming",
    source="talk.wav",
    metrics={"rounds": 3, "first_word_latency_s": None},
)

# What may stand in a word, the characters that formats treat specially among it.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\t\n\r\x85\u2028"<>&-'), max_size=12)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    at, segments = 0, []
    for _ in range(draw(st.integers(0, 4))):
        words = []
        for _ in range(draw(st.integers(0, 4))):
            start = at + draw(st.integers(0, 3 * SAMPLE_RATE))
            at = start + draw(st.integers(0, SAMPLE_RATE))
            words.append(Word(" " + draw(TEXT), start, at, draw(st.floats(0, 1))))
        if words:
            text = "".join(word.text for word in words)
            segments.append(TextSegment(words[0].start, words[-1].end, text, tuple(words), {"avg_logprob": -0.5}))
    return Document(
        tuple(segments),
        language=draw(st.sampled_from([None, "en", "de"])),
        duration=at,
        model="m",
        recipe="r",
        source=draw(TEXT),
        complete=draw(st.booleans()),
        metrics={"rounds": 1},
    )


def test_txt_is_a_line_per_segment() -> None:
    assert render_txt(HELLO) == "Hello there.\nFish & <chips>\n"


def test_srt_has_numbered_cues_with_commas() -> None:
    assert render_srt(HELLO) == (
        "1\n00:00:00,100 --> 00:00:01,100\nHello there.\n\n2\n01:00:00,000 --> 01:00:01,000\nFish & <chips>\n"
    )


def test_vtt_is_escaped() -> None:
    assert render_vtt(HELLO) == (
        "WEBVTT\n\n00:00:00.100 --> 00:00:01.100\nHello there.\n\n"
        "01:00:00.000 --> 01:00:01.000\nFish &amp; &lt;chips&gt;\n"
    )


def test_vtt_says_that_it_is_incomplete() -> None:
    text = render_vtt(Document(HELLO.segments, complete=False))
    assert "NOTE This transcript is incomplete." in text
    assert [segment.text for segment in parse_vtt(text).segments] == [" Hello there.", " Fish & <chips>"]


def test_an_arrow_in_a_text_does_not_look_like_a_time() -> None:
    document = Document((TextSegment(0, SAMPLE_RATE, " from a --> b"),))
    assert parse_srt(render_srt(document)).text == "from a -> b"
    assert parse_vtt(render_vtt(document)).text == "from a --> b"


def test_a_cue_stays_for_a_second_at_least() -> None:
    document = Document((TextSegment(16000, 16000, " now"),))
    assert "00:00:01,000 --> 00:00:02,000" in render_srt(document)
    assert "00:00:01.000 --> 00:00:02.000" in render_vtt(document)


def test_tsv_is_in_milliseconds() -> None:
    assert render_tsv(HELLO) == "start\tend\ttext\n100\t1000\tHello there.\n3600000\t3601000\tFish & <chips>\n"


def test_json_carries_everything() -> None:
    data = json.loads(render_json(HELLO))
    assert data["text"] == "Hello there. Fish & <chips>"
    assert data["words"][0] == {"text": " Hello", "start": 0.1, "end": 0.5, "probability": 0.9}
    assert [(segment["id"], segment["words"]) for segment in data["segments"]] == [(0, [0, 2]), (1, [2, 4])]
    assert {key: data[key] for key in ("language", "duration", "model", "recipe", "source", "complete")} == {
        "language": "en",
        "duration": 3602.0,
        "model": "base.en",
        "recipe": "whisper-streaming",
        "source": "talk.wav",
        "complete": True,
    }
    assert data["metrics"] == {"rounds": 3, "first_word_latency_s": None}


def test_json_has_null_for_what_is_no_number() -> None:
    segment = TextSegment(0, 1, " x", scores={"no_speech_prob": float("nan")})
    data = json.loads(render_json(Document((segment,), metrics={"speed": float("inf")})))
    assert data["segments"][0]["no_speech_prob"] is None
    assert data["metrics"]["speed"] is None


def test_an_empty_document_is_valid_in_every_format() -> None:
    for name, render in FORMATS.items():
        assert PARSERS[name](render(Document())).segments == ()


@given(documents())
def test_json_round_trips(document: Document) -> None:
    assert parse_json(render_json(document)) == document
    line = json_line(document)
    assert parse_json(line) == document
    assert line.count("\n") == 1


@given(documents())
def test_jsonl_keeps_words_language_and_duration(document: Document) -> None:
    back = parse_jsonl(render_jsonl(document))
    assert back.words == document.words
    assert (back.language, back.complete) == (document.language, document.complete)
    assert back.duration == document.duration or not document.complete


@given(documents())
@pytest.mark.parametrize("name", ["srt", "vtt", "tsv", "txt"])
def test_text_formats_give_back_what_they_say(name: str, document: Document) -> None:
    render, parse = FORMATS[name], PARSERS[name]
    text = render(document)
    back = parse(text)
    # Once the cues are cut and white space is plain, writing them again changes nothing.
    assert render(back) == text.replace("NOTE This transcript is incomplete.\n\n", "")
    said = "".join("".join(segment.text for segment in back.segments).split())
    expected = "".join(document.text.split())
    assert said == (re.sub("-{2,}>", "->", expected) if name == "srt" else expected)


def test_an_event_stream_without_its_end_is_incomplete() -> None:
    events: list[Event] = [
        Language(0, 0, "de", 0.9),
        Hypothesis(1, 8000, (Word(" guess", 0, 100),)),
        Confirmed(2, 16000, (Word(" said", 0, 100),)),
    ]
    document = parse_jsonl("".join(map(event_line, events)))
    assert (document.text, document.language, document.complete) == ("said", "de", False)
    assert parse_jsonl("".join(map(event_line, [*events, End(3, 20000, 20000)]))).complete


def test_event_lines_are_events() -> None:
    lines = render_jsonl(HELLO).splitlines()
    assert [from_dict(json.loads(line)) for line in lines] == list(document_events(HELLO))
    assert [event.seq for event in document_events(HELLO)] == list(range(len(lines)))


def test_subtitles_come_in_the_shape_that_is_asked_for() -> None:
    words = [Word(f" word{number}", number * 8000, number * 8000 + 8000) for number in range(10)]
    document = Document(segment_words(words))
    narrow = SubtitleOptions(line_width=12, lines=1)
    for name, render in [("srt", render_srt), ("vtt", render_vtt)]:
        assert get_format(name)(document) == render(document)
        assert "word0 word1\n" in get_format(name, narrow)(document) != render(document)
    assert get_format("txt", narrow)(document) == render_txt(document)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(OptionError, match="docx"):
        get_format("docx")
