"""A transcript as JSON in openai-whisper's shape, for programs that read the files of that program.

Source: `transcribe` (transcribe.py) and `WriteJSON` (utils.py) of openai/whisper. Unlike there a segment always has its
words. What only the decoding of a whole recording knows is empty or null in the transcript of a stream.
"""

import json
from typing import Any

from whispertide.formats.document import Document, TextSegment
from whispertide.formats.numbers import json_number
from whispertide.types import HOP_LENGTH

_SCORES = ("temperature", "avg_logprob", "compression_ratio", "no_speech_prob")


def render_whisper_json(document: Document) -> str:
    """Render one indented JSON object: `text`, `segments`, `language`."""
    # With its leading space, as there.
    text = "".join(segment.text for segment in document.segments)
    segments = [_segment(number, segment) for number, segment in enumerate(document.segments)]
    whole = {"text": text, "segments": segments, "language": document.language}
    return json.dumps(whole, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _segment(number: int, segment: TextSegment) -> dict[str, Any]:
    return {
        "id": number,
        "seek": segment.window // HOP_LENGTH,  # in mel frames of 10 ms
        "start": segment.start_s,
        "end": segment.end_s,
        "text": segment.text,
        "tokens": list(segment.tokens),
        **{name: json_number(segment.scores.get(name)) for name in _SCORES},
        "words": [
            {"word": word.text, "start": word.start_s, "end": word.end_s, "probability": word.probability}
            for word in segment.words
        ],
    }
