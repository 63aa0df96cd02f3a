import json
from pathlib import Path
from typing import Any

import pytest

from whispertide.formats.document import Document, TextSegment
from whispertide.formats.files import get_format
from whispertide.options import WHISPER_JSON
from whispertide.types import SAMPLE_RATE, Word

SCORES = {"avg_logprob": -0.25, "compression_ratio": 1.5, "no_speech_prob": float("nan"), "temperature": 0.2}
WORDS = (Word(" Hello", 30 * SAMPLE_RATE, 30 * SAMPLE_RATE + 8000, 0.5), Word(" you.", 488_000, 496_000, 0.75))
WHOLE = Document(
    (
        TextSegment(0, SAMPLE_RATE, " Well.", (), {**SCORES, "no_speech_prob": 0.1}, (50363, 3894, 13, 50413), 0),
        TextSegment(WORDS[0].start, WORDS[-1].end, " Hello you.", WORDS, SCORES, (50363, 18435), 29 * SAMPLE_RATE),
    ),
    language="en",
)


def rendered(document: Document) -> Any:
    return json.loads(get_format(WHISPER_JSON)(document))


def shape(value: Any) -> Any:
    """The keys of objects, in order, however deep; of lists their first item's."""
    match value:
        case dict():
            return {key: shape(inner) for key, inner in value.items()}
        case [dict() as first, *_]:
            return [shape(first)]
    return None


def test_it_has_the_keys_and_values_of_openai_whisper() -> None:
    whole = rendered(WHOLE)
    assert [*whole] == ["text", "segments", "language"]
    assert (whole["text"], whole["language"]) == (" Well. Hello you.", "en")
    assert whole["segments"][1] == {
        "id": 1,
        "seek": 2900,
        "start": 30.0,
        "end": 31.0,
        "text": " Hello you.",
        "tokens": [50363, 18435],
        "temperature": 0.2,
        "avg_logprob": -0.25,
        "compression_ratio": 1.5,
        "no_speech_prob": None,
        "words": [
            {"word": " Hello", "start": 30.0, "end": 30.5, "probability": 0.5},
            {"word": " you.", "start": 30.5, "end": 31.0, "probability": 0.75},
        ],
    }


def test_a_stream_leaves_empty_what_it_does_not_know() -> None:
    segment = rendered(Document((TextSegment(0, 8000, " Well.", WORDS[:1]),)))["segments"][0]
    assert (segment["seek"], segment["tokens"], segment["avg_logprob"]) == (0, [], None)
    assert segment["words"][0]["word"] == " Hello"


@pytest.mark.slow
def test_the_keys_are_those_of_the_files_that_openai_whisper_writes(tmp_path: Path) -> None:
    from whisper.utils import get_writer

    from reference import CLIPS, nano, openai_model, openai_timing
    from whispertide.api import Transcriber
    from whispertide.audio.file import load_audio

    clip = next(path for path in CLIPS if path.stem == "quiet")
    audio, model, options = load_audio(clip), openai_model(), {"fp16": False, "temperature": 0.0}
    openai_timing()
    result = model.transcribe(audio, language="en", word_timestamps=True, **options)
    get_writer("json", str(tmp_path))(result, str(clip))
    theirs = json.loads((tmp_path / "quiet.json").read_text())
    ours = rendered(Transcriber(nano()).transcribe(audio, vad=False))
    assert theirs["segments"][0]["words"]
    assert shape(ours) == shape(theirs)
    # the order of keys, too
    assert json.dumps(shape(ours)) == json.dumps(shape(theirs))
    assert ours["text"] == theirs["text"]
    assert [segment["seek"] for segment in ours["segments"]] == [segment["seek"] for segment in theirs["segments"]]
