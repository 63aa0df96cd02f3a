"""Speech to text for LiveKit Agents.

    session = AgentSession(stt=STT(url="ws://127.0.0.1:8000"), ...)

A confirmed word never changes, so each confirmed piece is a final transcript, while somebody still speaks; what may
change is an interim one. A pause that ends a turn (the server's voice gate) is an end of speech.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from livekit import rtc
from livekit.agents import (
    DEFAULT_API_CONNECT_OPTIONS,
    NOT_GIVEN,
    APIConnectionError,
    APIConnectOptions,
    APIError,
    APIStatusError,
    NotGivenOr,
    stt,
    utils,
)
from livekit.agents.types import TimedString

from whispertide_agents.session import Session, SessionError

_RATE = 16_000  # what the models hear
_Kind = stt.SpeechEventType


class STT(stt.STT):  # type: ignore[misc, unused-ignore]
    """A server: each stream is a session there, and comes back to it when the connection breaks."""

    def __init__(
        self,
        *,
        url: str = "ws://127.0.0.1:8000",
        api_key: str = "",
        model: str | None = None,
        language: str | None = None,
        prompt: str | None = None,
        recipe: str | None = None,
    ) -> None:
        """Leave open what should be the server's default; without a language there it is detected."""
        super().__init__(
            capabilities=stt.STTCapabilities(
                streaming=True, interim_results=True, aligned_transcript="word", manual_flush=True
            )
        )
        self._url = url
        self._api_key = api_key
        self._settings = {"model": model, "language": language, "prompt": prompt, "recipe": recipe}

    @property
    def model(self) -> str:
        return self._settings["model"] or "unknown"

    @property
    def provider(self) -> str:
        return "whispertide"

    def stream(
        self,
        *,
        language: NotGivenOr[str] = NOT_GIVEN,
        conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS,
    ) -> "SpeechStream":
        """Open a stream, in another language if one is given."""
        return SpeechStream(self, self._chosen(language), conn_options)

    async def _recognize_impl(
        self, buffer: utils.AudioBuffer, *, language: NotGivenOr[str] = NOT_GIVEN, conn_options: APIConnectOptions
    ) -> stt.SpeechEvent:
        """Transcribe a whole recording, as live."""
        whole = rtc.combine_audio_frames(buffer)
        heard = _Heard(self._chosen(language).get("language"))
        session = self._open(self._chosen(language), whole.sample_rate, conn_options)
        words: list[Mapping[str, Any]] = []
        try:
            session.send(_mono(whole))
            session.finish()
            async for message in session:
                heard.note(message)
                if message["type"] == "confirmed":
                    words += message["words"]
        except SessionError as error:
            raise _failure(error) from error
        finally:
            await session.aclose()
        return stt.SpeechEvent(_Kind.FINAL_TRANSCRIPT, heard.request, [heard.data(words)])

    def _chosen(self, language: NotGivenOr[str]) -> dict[str, Any]:
        chosen = {name: value for name, value in self._settings.items() if value is not None}
        return {**chosen, "language": language} if utils.is_given(language) else chosen

    def _open(self, settings: Mapping[str, Any], rate: int, conn_options: APIConnectOptions) -> Session:
        return Session(self._url, rate=rate, api_key=self._api_key, settings=settings, patience_s=conn_options.timeout)


class SpeechStream(stt.RecognizeStream):  # type: ignore[misc, unused-ignore]
    """One session; another one, which hears what was not confirmed, where LiveKit tries again after a failure."""

    def __init__(self, owner: STT, settings: Mapping[str, Any], conn_options: APIConnectOptions) -> None:
        super().__init__(stt=owner, conn_options=conn_options, sample_rate=_RATE)
        self._owner = owner
        self._settings = settings
        self._conn = conn_options
        self._heard: _Heard | None = None
        self._unheard = b""

    async def _run(self) -> None:
        heard = self._heard = self._heard or _Heard(self._settings.get("language"), self.start_time_offset)
        session = self._owner._open(self._settings, _RATE, self._conn)
        session.send(self._unheard)
        feeding = asyncio.create_task(self._feed(session), name="whispertide feeds")
        try:
            async for message in session:
                for event in heard.events(message):
                    self._event_ch.send_nowait(event)
        except SessionError as error:
            raise _failure(error) from error
        finally:
            await utils.aio.cancel_and_wait(feeding)
            start_s, self._unheard = session.unconfirmed
            heard.go_on_from(start_s)
            await session.aclose()

    async def _feed(self, session: Session) -> None:
        async for item in self._input_ch:
            if isinstance(item, self._FlushSentinel):
                session.flush()
            else:
                session.send(_mono(item))
        session.finish()


class _Heard:
    """What a session said so far, and what follows from it for LiveKit."""

    def __init__(self, language: str | None, offset_s: float = 0.0) -> None:
        self.request = ""
        self._language = "" if language in (None, "auto") else language
        self._offset_s = offset_s
        self._speaking = False
        self._used_s = 0.0

    def go_on_from(self, start_s: float) -> None:
        """Take note that another session follows, which begins at this second of the one before."""
        self._offset_s += start_s
        self._used_s = max(0.0, self._used_s - start_s)

    def note(self, message: Mapping[str, Any]) -> None:
        """Take the session's name and language."""
        if message["type"] == "session":
            self.request = message["session"]
        elif message["type"] == "language":
            self._language = message["language"]

    def events(self, message: Mapping[str, Any]) -> list[stt.SpeechEvent]:
        """Convert one message."""
        self.note(message)
        match message["type"]:
            case "speech_start":
                return self._begin()
            case "hypothesis" if message["words"]:
                return [*self._begin(), self._said(_Kind.INTERIM_TRANSCRIPT, message["words"])]
            case "confirmed" if message["words"]:
                return [*self._begin(), self._said(_Kind.FINAL_TRANSCRIPT, message["words"])]
            case "turn_end" | "end" if not message.get("eager"):
                return [*self._end(), *self._usage(message["at"])]
        return []

    def data(self, words: Sequence[Mapping[str, Any]]) -> stt.SpeechData:
        """The words as LiveKit has them."""
        probabilities = [word.get("probability", 1.0) for word in words]
        return stt.SpeechData(
            language=self._language,
            text="".join(word["text"] for word in words).strip(),
            start_time=words[0]["start"] + self._offset_s if words else 0.0,
            end_time=words[-1]["end"] + self._offset_s if words else 0.0,
            confidence=sum(probabilities) / len(probabilities) if words else 0.0,
            words=[
                TimedString(
                    word["text"].strip(),
                    start_time=word["start"] + self._offset_s,
                    end_time=word["end"] + self._offset_s,
                    start_time_offset=self._offset_s,
                )
                for word in words
            ],
        )

    def _said(self, kind: stt.SpeechEventType, words: Sequence[Mapping[str, Any]]) -> stt.SpeechEvent:
        return stt.SpeechEvent(kind, self.request, [self.data(words)])

    def _begin(self) -> list[stt.SpeechEvent]:
        began, self._speaking = self._speaking, True
        return [] if began else [stt.SpeechEvent(_Kind.START_OF_SPEECH, self.request)]

    def _end(self) -> list[stt.SpeechEvent]:
        spoke, self._speaking = self._speaking, False
        return [stt.SpeechEvent(_Kind.END_OF_SPEECH, self.request)] if spoke else []

    def _usage(self, at_s: float) -> list[stt.SpeechEvent]:
        used_s, self._used_s = at_s - self._used_s, at_s
        if used_s <= 0:
            return []
        usage = stt.RecognitionUsage(audio_duration=used_s)
        return [stt.SpeechEvent(_Kind.RECOGNITION_USAGE, self.request, recognition_usage=usage)]


def _mono(frame: rtc.AudioFrame) -> bytes:
    """The first channel, 16-bit."""
    return bytes(memoryview(frame.data).cast("B") if frame.num_channels == 1 else frame.data[:: frame.num_channels])


def _failure(error: SessionError) -> APIError:
    found: APIError = APIConnectionError(str(error))
    if error.is_lasting:
        found = APIStatusError(str(error), status_code=400, retryable=False)
    return found
