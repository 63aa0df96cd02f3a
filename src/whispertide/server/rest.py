"""OpenAI's REST interface: whole files by HTTP, with its response formats, its streaming and its errors.

Source: the API reference of `POST /v1/audio/transcriptions` and the client package `openai`. The file's name is never
used for anything.
"""

import asyncio
import contextlib
import errno
import json
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from whispertide.api import text_segment
from whispertide.checkpoint.languages import LANGUAGES
from whispertide.decoding.longform import OfflineSegment
from whispertide.errors import AudioError, CheckpointNotFoundError, OptionError, WhispertideError
from whispertide.formats.document import Document
from whispertide.formats.files import get_format
from whispertide.options import ANY_SPEAKERS, MOST_SPEAKERS, DecodeOptions, Task, check_choice, check_range
from whispertide.server.addresses import party_of
from whispertide.server.bodies import limit_body
from whispertide.server.bounds import check_prompt
from whispertide.server.defaults import choose_model
from whispertide.server.http_error import HttpError
from whispertide.server.hub import Hub
from whispertide.server.protocols import base, messages
from whispertide.server.transcription_form import LISTS, read_form, read_lists, read_temperatures
from whispertide.server.uploads import BusyError, TooLongError, TranscriptionJob, Uploads, join_text
from whispertide.speakers.embedding import find_embedding
from whispertide.types import HOP_LENGTH, seconds, to_samples

log = logging.getLogger("whispertide.server")

T = TypeVar("T")

_DIARIZED = "diarized_json"
FORMATS = ("json", "text", "srt", "verbose_json", "vtt", _DIARIZED)
_GRANULARITIES = ("word", "segment")
_LISTED = ("timestamp_granularities[]", "timestamp_granularities")
_KNOWN = {
    *("file", "model", "language", "prompt", "response_format", "temperature", "stream", "speakers", *_LISTED),
    *(name + many for name in LISTS for many in ("", "[]")),
}
_OVERHEAD = 2**16  # of a multipart body next to the file


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """A checked request. `ignored` are its unknown fields."""

    file: BinaryIO
    model: str
    format: str
    granularities: frozenset[str]
    stream: bool
    options: DecodeOptions
    ignored: tuple[str, ...] = ()

    def headers(self, warning: str = "") -> dict[str, str]:
        """Headers of the answer: its model and its warning, in ASCII."""
        warned = {"x-whispertide-warning": json.dumps(text)} if (text := self.warning(warning)) else {}
        return {"x-whispertide-model": quote(self.model, safe="/@:+, "), **warned}

    def warning(self, warning: str = "") -> str:
        """The warning for the client: fields without effect, and the `warning` of the audio."""
        names = [messages.abbreviate(name) for name in self.ignored]
        return "; ".join(filter(None, (messages.warning(names), warning)))


class Rest:
    """The endpoints. They expect that the caller was admitted."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.uploads = Uploads(hub.options.limits.offline, hub.options.work.uploads)

    async def models(self, request: Request) -> Response:
        """`GET /v1/models` and `GET /v1/models/{model}`."""
        name = request.path_params.get("model")
        known = [_model(info.name) for info in self.hub.info.models]
        if name is None:
            return JSONResponse({"object": "list", "data": known})
        found = [entry for entry in known if entry["id"] == name]
        if not found:
            raise HttpError(404, f"expected one of the models served; got {name!r}")
        return JSONResponse(found[0])

    async def transcriptions(self, request: Request) -> Response:
        """`POST /v1/audio/transcriptions`."""
        return await self._answer(request, "transcribe")

    async def translations(self, request: Request) -> Response:
        """`POST /v1/audio/translations`: into English, by a multilingual model."""
        return await self._answer(request, "translate")

    async def _answer(self, request: Request, task: Task) -> Response:
        if self.hub.draining:
            raise _stopping()
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(self._count_file())
            form = await self._receive_form(request)
            stack.push_async_callback(form.close)
            try:
                transcription = self._parse(form, task)
            except (OptionError, base.ProtocolError, CheckpointNotFoundError) as error:
                raise HttpError(400, str(error)) from error
            model, limit_s = self.hub.models[transcription.model], self.hub.options.limits.upload_s
            job = TranscriptionJob(model, transcription.file, transcription.options, limit_s)
            await self._result_of(self.uploads.check(job, _party(request)), request)
            running = self.uploads.run(job, _party(request))
            stack.push_async_callback(running.aclose)
            if transcription.stream:
                # Before the answer begins, so that its status can still say what is wrong with the file.
                first = await self._result_of(_next_segment(running), request)
                streamed = self._stream(transcription, job, first, running)
                # The file is read while the answer is sent.
                return _StreamedAnswer(streamed, transcription.headers(), stack.pop_all())
            segments = await self._result_of(_all_segments(running), request)
            self.hub.metrics.uploads.labels("done").inc()
            # In a thread: where lines of subtitles break is weighed over all words, which takes seconds for hours.
            return await asyncio.to_thread(_render, transcription, job, segments, task)

    @contextlib.contextmanager
    def _count_file(self) -> Iterator[None]:
        """Count a file while it is on its way."""
        self.hub.files += 1
        try:
            yield
        finally:
            self.hub.files -= 1

    async def _receive_form(self, request: Request) -> FormData:
        """Receive the form with the file. Raises `HttpError`."""
        limits = self.hub.options.limits
        expected = f"a file of at most {limits.upload} bytes"
        receive = limit_body(request.receive, limits.upload + _OVERHEAD, limits.stall_s, expected)
        try:
            with self.uploads.receiving(_party(request)):
                return await self._in_time(read_form(request, receive))
        except BusyError as error:
            raise self._error_of(error) from error
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            log.error("no room for uploads", extra={"problem": str(error)})
            headers = {"retry-after": "60"}
            raise HttpError(507, "the server has no room for the file at present; try later", headers) from error
        except (MultiPartException, ValueError) as error:
            # starlette's errors of forms have their text in `message`.
            reason = getattr(error, "message", error)
            raise HttpError(400, f"expected a multipart form with a file; {reason}") from error

    async def _result_of(self, work: Coroutine[Any, Any, T], request: Request | None = None) -> T:
        """Wait for the work on a file. Every failure becomes an `HttpError`."""
        try:
            return await self._in_time(work, request)
        except HttpError:
            raise
        except Exception as error:
            raise self._error_of(error) from error

    async def _in_time(self, work: Coroutine[Any, Any, T], request: Request | None = None) -> T:
        """Wait for the work and return its result. Raises its errors.

        It is given up, with an `HttpError`, where the server waits no longer, and where the client of `request` leaves.
        """
        task, over = asyncio.create_task(work), asyncio.create_task(self.hub.over.wait())
        left = [] if request is None else [asyncio.create_task(_disconnected(request))]
        try:
            await asyncio.wait((task, over, *left), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if over.done():
                self.hub.metrics.uploads.labels("stopped").inc()
                raise _stopping()
            self.hub.metrics.uploads.labels("left").inc()
            raise HttpError(400, "expected the client to wait for the answer; it left")
        finally:
            await _cancel((task, over, *left))
            # An error that is raised here has this frame. If that had the task, which has the error, all that the work
            # had in its frames would stay.
            del task

    async def _stream(
        self,
        transcription: TranscriptionRequest,
        job: TranscriptionJob,
        segment: OfflineSegment | None,
        running: AsyncGenerator[OfflineSegment, None],
    ) -> AsyncIterator[str]:
        """Stream the answer, from the first segment on; None: there is none."""
        segments: list[OfflineSegment] = []
        try:
            while segment is not None:
                # Clients join the pieces as they are, so only the first loses its leading space.
                text = segment.text if segments else segment.text.lstrip()
                segments.append(segment)
                yield _sse({"type": "transcript.text.delta", "delta": text})
                if transcription.format == _DIARIZED:
                    yield _sse(_diarized(segment))
                segment = await self._result_of(_next_segment(running))
        except HttpError as error:
            # The answer has begun, so its status can no longer say that it failed.
            yield _sse({"type": "error", **error.body})
            return
        self.hub.metrics.uploads.labels("done").inc()
        warning = {"warning": text} if (text := transcription.warning(job.warning)) else {}
        yield _sse({"type": "transcript.text.done", "text": join_text(segments), "usage": _usage(job), **warning})

    def _error_of(self, error: BaseException) -> HttpError:
        """The answer to an error: one of the audio is the client's, any other ours."""
        self.hub.metrics.uploads.labels("refused" if isinstance(error, BusyError) else "failed").inc()
        match error:
            case BusyError():
                return HttpError(429, str(error), {"retry-after": "10"})
            case TooLongError():
                return HttpError(413, str(error))
            case AudioError() | OptionError():
                return HttpError(400, str(error))
            case WhispertideError():
                log.error("upload failed", extra={"problem": str(error)})
                return HttpError(500, str(error))
        log.error("upload failed", exc_info=error)
        return HttpError(500, "the server made a mistake with this file")

    def _parse(self, form: FormData, task: Task) -> TranscriptionRequest:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise OptionError("expected the field `file` to be a file; got none")
        texts = {key: value for key, value in form.items() if isinstance(value, str)}
        format_ = texts.get("response_format", "json") or "json"
        check_choice("response_format", format_, FORMATS)
        lists = [value for key in _LISTED for value in form.getlist(key)]
        granularities = frozenset(value for value in lists if isinstance(value, str)) or frozenset({"segment"})
        if not granularities <= set(_GRANULARITIES):
            raise OptionError(f"expected timestamp_granularities among {', '.join(_GRANULARITIES)}; got others")
        several = read_lists(form)
        # Clients name OpenAI's models, so any other name means none.
        asked = base.Settings(
            model=texts.get("model"),
            language=texts.get("language") or None,
            task=task,
            prompt=texts.get("prompt", ""),
            languages=several["languages"],
            keyterms=several["keyterms"],
            speakers=_speakers(texts, format_),
        )
        model, settings = choose_model(self.hub.info.models, asked, self.hub.options.text)
        check_prompt(settings.prompt)
        options = replace(
            settings.options,
            temperatures=read_temperatures(texts),
            word_timestamps="word" in granularities or format_ in ("srt", "vtt"),
        )
        if options.speakers:
            find_embedding()  # for its error
        if task == "translate" and not model.translates:
            raise OptionError("an English-only model cannot translate; serve a multilingual model such as 'base'")
        if options.language is not None:  # for its error
            self.hub.models[model.name].tokenizer.language(options.language)
        stream, ignored = messages.switch(texts, "stream"), tuple(sorted(form.keys() - _KNOWN))
        return TranscriptionRequest(file.file, model.name, format_, granularities, stream, options, ignored)


def _speakers(texts: Mapping[str, str], form: str) -> int | None:
    """How many voices are to be told apart: as many as there are for the format that has them; None: nobody says."""
    usual = ANY_SPEAKERS if form == _DIARIZED else None
    if not texts.get("speakers"):
        return usual
    most = messages.whole(texts, "speakers", 0)
    check_range("speakers", most, 1 if form == _DIARIZED else 0, MOST_SPEAKERS)
    return most


def _stopping() -> HttpError:
    return HttpError(503, "the server is stopping; try again in a moment", {"retry-after": "5"})


def _party(request: Request) -> str:
    """The party that a request counts for: its key, or its address."""
    address = request.client.host if request.client else ""
    return getattr(request.state, "owner", "") or party_of(address)


async def _cancel(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _next_segment(running: AsyncGenerator[OfflineSegment, None]) -> OfflineSegment | None:
    return await anext(running, None)


async def _all_segments(running: AsyncGenerator[OfflineSegment, None]) -> list[OfflineSegment]:
    return [segment async for segment in running]


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


# --- answers ---------------------------------------------------------------------------------------------------------


def _render(
    transcription: TranscriptionRequest, job: TranscriptionJob, segments: Sequence[OfflineSegment], task: Task
) -> Response:
    text, headers = join_text(segments), transcription.headers(job.warning)
    match transcription.format:
        case "json":
            return JSONResponse({"text": text, "usage": _usage(job)}, headers=headers)
        case "verbose_json":
            return JSONResponse(_verbose(transcription, job, segments, task), headers=headers)
        case "diarized_json":
            parts = [_diarized(segment) for segment in segments]
            whole = {"task": task, "duration": job.duration_s, "text": text, "segments": parts, "usage": _usage(job)}
            return JSONResponse(whole, headers=headers)
        case "text":
            return PlainTextResponse(text + "\n", headers=headers)
    document = Document(tuple(map(text_segment, segments)), duration=job.samples)
    kind = "text/vtt" if transcription.format == "vtt" else "application/x-subrip"
    return Response(get_format(transcription.format)(document), media_type=kind, headers=headers)


def _verbose(
    transcription: TranscriptionRequest, job: TranscriptionJob, segments: Sequence[OfflineSegment], task: Task
) -> dict[str, Any]:
    detected = segments[0].language if segments else None
    # The interface has a language always, also where nobody can tell.
    language = job.transcriber.language_of(transcription.options, detected) or "en"
    answer: dict[str, Any] = {
        "task": task,
        "language": LANGUAGES.get(language, language),
        "duration": job.duration_s,
        "text": join_text(segments),
        "usage": _usage(job),
    }
    if "word" in transcription.granularities:
        answer["words"] = [
            {"word": word.text.strip(), "start": seconds(word.start), "end": seconds(word.end)}
            for segment in segments
            for word in segment.words
        ]
    if "segment" in transcription.granularities:
        answer["segments"] = [_segment(item) for item in segments]
    return answer


def _diarized(item: OfflineSegment) -> dict[str, Any]:
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


def _usage(job: TranscriptionJob) -> dict[str, Any]:
    return {"type": "duration", "seconds": -(-job.samples // to_samples(1))}


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "whispertide"}


def _sse(data: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


class _StreamedAnswer(StreamingResponse):
    """An answer that keeps the file open until it is sent, or cannot be."""

    def __init__(
        self, content: AsyncIterator[str], headers: Mapping[str, str], held: contextlib.AsyncExitStack
    ) -> None:
        super().__init__(content, media_type="text/event-stream", headers={"cache-control": "no-store", **headers})
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            await super().__call__(scope, receive, send)
