"""The answers to transcription requests, in the formats of OpenAI's REST interface.

A translation that was asked for is a field of its own in the formats of JSON. In `text`, `srt` and `vtt` it is the
answer itself, as these have no place for two texts.
"""

import contextlib
import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from whispertide.checkpoint.languages import LANGUAGES
from whispertide.formats.document import Document, OtherText, TextSegment
from whispertide.formats.files import get_format, named_others
from whispertide.options import Task
from whispertide.server.protocols import messages
from whispertide.server.transcription_form import DIARIZED, TranscriptionRequest
from whispertide.server.uploads import TranscriptionJob, join_text
from whispertide.types import HOP_LENGTH, OfflineSegment, seconds, to_samples


def render(
    transcription: TranscriptionRequest,
    job: TranscriptionJob,
    segments: Sequence[OfflineSegment],
    task: Task,
    others: Sequence[OtherText] = (),
    problems: Sequence[str] = (),
) -> Response:
    """Write the answer. `others` are translations and corrections, `problems` what went wrong with them."""
    text, headers = join_text(segments), transcription.headers(job.warning, *problems)
    match transcription.format:
        case "json":
            whole: dict[str, Any] = {"text": text, "usage": usage(job)}
        case "verbose_json":
            whole = _verbose(transcription, job, segments, task)
        case "diarized_json":
            parts = [diarized(segment) for segment in segments]
            whole = {"task": task, "duration": job.duration_s, "text": text, "segments": parts, "usage": usage(job)}
        case _:
            return _plain(transcription, job, segments, others, headers)
    return JSONResponse({**whole, **made_of(others, transcription.format)}, headers=headers)


def made_of(others: Sequence[OtherText], form: str) -> dict[str, Any]:
    """The fields of translations and corrections, whose voices are called as those of segments are."""
    return named_others(others, messages.letter if form == DIARIZED else int)


def _plain(
    transcription: TranscriptionRequest,
    job: TranscriptionJob,
    segments: Sequence[OfflineSegment],
    others: Sequence[OtherText],
    headers: dict[str, str],
) -> Response:
    """An answer that is a single text: the transcript, or what was to be made of it."""
    document = Document(tuple(map(TextSegment.of, segments)), duration=job.samples)
    if transcription.translation is not None:
        document = replace(document, others=tuple(others)).other(transcription.translation.to)
    if transcription.format == "text":
        return PlainTextResponse(document.text + "\n", headers=headers)
    kind = "text/vtt" if transcription.format == "vtt" else "application/x-subrip"
    return Response(get_format(transcription.format)(document), media_type=kind, headers=headers)


def _verbose(
    transcription: TranscriptionRequest, job: TranscriptionJob, segments: Sequence[OfflineSegment], task: Task
) -> dict[str, Any]:
    detected = segments[0].language if segments else None
    # The language of the text, which the interface has always, also where nobody can tell.
    language = "en" if task == "translate" else job.transcriber.language_of(transcription.options, detected) or "en"
    answer: dict[str, Any] = {
        "task": task,
        "language": LANGUAGES.get(language, language),
        "duration": job.duration_s,
        "text": join_text(segments),
        "usage": usage(job),
    }
    if "word" in transcription.granularities:
        answer["words"] = [
            {"word": word.text.strip(), "start": seconds(word.start), "end": seconds(word.end), **_voice(word.speaker)}
            for segment in segments
            for word in segment.words
        ]
    if "segment" in transcription.granularities:
        answer["segments"] = [_segment(item) for item in segments]
    return answer


def _voice(speaker: int | None) -> dict[str, int]:
    """The field of a voice, from 1, which OpenAI's words do not have; none where nobody asked, or nobody knows."""
    return {} if speaker is None else {"speaker": speaker}


def diarized(item: OfflineSegment) -> dict[str, Any]:
    """A segment of one voice, called by a letter as there; "" where nobody could tell whose it is."""
    speaker = item.words[0].speaker if item.words else None
    return {
        "type": "transcript.text.segment",
        "id": f"seg_{item.id:03d}",
        "start": seconds(item.span.start),
        "end": seconds(item.span.end),
        "text": item.text,
        "speaker": "" if speaker is None else messages.letter(speaker),
    }


def _segment(item: OfflineSegment) -> dict[str, Any]:
    return {
        "id": item.id,
        "seek": item.window // HOP_LENGTH,  # in mel frames, as openai/whisper counts
        "start": seconds(item.span.start),
        "end": seconds(item.span.end),
        "text": item.text,
        "tokens": list(item.tokens),
        "temperature": item.temperature,
        "avg_logprob": _finite(item.avg_logprob),
        "compression_ratio": _finite(item.compression_ratio),
        "no_speech_prob": _finite(item.no_speech_prob),
    }


def _finite(value: float) -> float:
    """Replace numbers that JSON does not have: clients expect a number."""
    return value if math.isfinite(value) else 0.0


def usage(job: TranscriptionJob) -> dict[str, Any]:
    """What is charged for there: whole seconds of audio."""
    return {"type": "duration", "seconds": -(-job.samples // to_samples(1))}


def sse(data: Mapping[str, Any]) -> str:
    """A message of a streamed answer."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


class StreamedAnswer(StreamingResponse):
    """An answer that keeps the file open until it is sent, or cannot be."""

    def __init__(
        self, content: AsyncIterator[str], headers: Mapping[str, str], held: contextlib.AsyncExitStack
    ) -> None:
        super().__init__(content, media_type="text/event-stream", headers={"cache-control": "no-store", **headers})
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            await super().__call__(scope, receive, send)
