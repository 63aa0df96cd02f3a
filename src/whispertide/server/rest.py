"""OpenAI's REST interface: whole files by HTTP, with its response formats, its streaming and its errors.

Source: the API reference of `POST /v1/audio/transcriptions` and the client package `openai`. The file's name is never
used for anything.
"""

import asyncio
import contextlib
import errno
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from whispertide.errors import AudioError, CheckpointNotFoundError, OptionError, WhispertideError
from whispertide.formats.document import OtherText
from whispertide.options import MOST_CHANNELS, Task
from whispertide.server.addresses import party_of
from whispertide.server.bodies import limit_body
from whispertide.server.http_error import HttpError
from whispertide.server.hub import Hub
from whispertide.server.protocols import base
from whispertide.server.transcription_answers import StreamedAnswer, diarized, made_of, render, sse, usage
from whispertide.server.transcription_form import DIARIZED, OVERHEAD, TranscriptionRequest, read_form, read_request
from whispertide.server.uploads import BusyError, TooLongError, TranscriptionJob, Uploads, join_text
from whispertide.translation.recordings import RecordingTranslation
from whispertide.types import OfflineSegment

log = logging.getLogger("whispertide.server")

T = TypeVar("T")

_POLL_S = 0.05  # how often it is looked for translations


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

    async def transcription(self, task: Task, request: Request) -> Response:
        """`POST /v1/audio/transcriptions`, and `…/translations` into English, by a multilingual model."""
        if self.hub.draining:
            raise _stopping()
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(self._count_file())
            form = await self._receive_form(request)
            stack.push_async_callback(form.close)
            try:
                transcription = read_request(form, task, self.hub)
            except (OptionError, base.ProtocolError, CheckpointNotFoundError) as error:
                raise HttpError(400, str(error)) from error
            model, limit_s = self.hub.models[transcription.model], self.hub.options.limits.upload_s
            about = (model, transcription.file, transcription.options, limit_s)
            job = TranscriptionJob(*about, multichannel=transcription.multichannel)
            await self._result_of(self.uploads.check(job, _party(request)), request)
            running = self.uploads.run(job, _party(request))
            stack.push_async_callback(running.aclose)
            translation = self._translation(transcription)
            if translation is not None:
                stack.callback(translation.close)
                running = _translated(running, translation)
                stack.push_async_callback(running.aclose)
            if transcription.stream:
                # Before the answer begins, so that its status can still say what is wrong with the file.
                first = await self._result_of(_next_segment(running), request)
                streamed = self._stream(transcription, job, first, running, translation)
                # The file is read while the answer is sent.
                return StreamedAnswer(streamed, transcription.headers(), stack.pop_all())
            segments = await self._result_of(_all_segments(running), request)
            others, problems = await self._result_of(_finished(translation, job), request)
            self.hub.metrics.uploads.labels("done").inc()
            # In a thread: where lines of subtitles break is weighed over all words, which takes seconds for hours.
            return await asyncio.to_thread(render, transcription, job, segments, task, others, problems)

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
        receive = limit_body(request.receive, limits.upload + OVERHEAD, limits.stall_s, expected)
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
        translation: RecordingTranslation | None,
    ) -> AsyncIterator[str]:
        """Stream the answer, from the first segment on; None: there is none."""
        segments: list[OfflineSegment] = []
        try:
            while segment is not None:
                # Clients join the pieces as they are, so only the first loses its leading space.
                text = segment.text if segments else segment.text.lstrip()
                segments.append(segment)
                yield sse({"type": "transcript.text.delta", "delta": text})
                if transcription.format == DIARIZED:
                    yield sse(diarized(segment))
                segment = await self._result_of(_next_segment(running))
            others, problems = await self._result_of(_finished(translation, job))
        except HttpError as error:
            # The answer has begun, so its status can no longer say that it failed.
            yield sse({"type": "error", **error.body})
            return
        self.hub.metrics.uploads.labels("done").inc()
        more = {"warning": text} if (text := transcription.warning(job.warning, *problems)) else {}
        made = made_of(others, transcription.format)
        whole = {"text": join_text(segments), "usage": usage(job), **made, **more}
        yield sse({"type": "transcript.text.done", **whole})

    def _translation(self, transcription: TranscriptionRequest) -> RecordingTranslation | None:
        """Begin what is to be made of the sentences; None: nothing."""
        wanted, translator = transcription.translation, self.hub.translations.translator
        if wanted is None or translator is None:  # which `read_request` has refused
            return None
        options = transcription.options
        known = self.hub.models[transcription.model].language_of(options, None)
        channels = MOST_CHANNELS if transcription.multichannel else 0
        return RecordingTranslation(translator, wanted, known, options.task, private=True, channels=channels)

    def _error_of(self, error: BaseException) -> HttpError:
        """The answer to an error: one of the audio is the client's, any other ours."""
        self.hub.metrics.uploads.labels("refused" if isinstance(error, BusyError) else "failed").inc()
        match error:
            case BusyError():
                return HttpError(429, str(error), {"retry-after": "10"})
            case TooLongError():
                return HttpError(413, str(error))
            case AudioError():
                return HttpError(400, str(error), code="audio")
            case OptionError():
                return HttpError(400, str(error))
            case WhispertideError():
                log.error("upload failed", extra={"problem": str(error)})
                return HttpError(500, str(error))
        log.error("upload failed", exc_info=error)
        return HttpError(500, "the server made a mistake with this file")


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "whispertide"}


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


async def _translated(
    running: AsyncGenerator[OfflineSegment, None], translation: RecordingTranslation
) -> AsyncGenerator[OfflineSegment, None]:
    """Pass segments on, and hand them over to be translated."""
    async for segment in running:
        translation.add(segment)
        # No thread waits: a slow translator would soon have all that there are.
        while not translation.has_room:
            await asyncio.sleep(_POLL_S)
        yield segment


async def _finished(
    translation: RecordingTranslation | None, job: TranscriptionJob
) -> tuple[tuple[OtherText, ...], tuple[str, ...]]:
    """Wait for the last translations."""
    if translation is None:
        return (), ()
    translation.end(job.samples)
    while not translation.is_done:
        await asyncio.sleep(_POLL_S)
    return translation.made


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
