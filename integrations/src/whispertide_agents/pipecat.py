"""A speech-to-text service for Pipecat.

    stt = WhispertideSTTService(url="ws://127.0.0.1:8000")
    pipeline = Pipeline([transport.input(), stt, ...])

A confirmed word never changes, so each confirmed piece is a `TranscriptionFrame`, while somebody still speaks; what may
change is an `InterimTranscriptionFrame`. At the end of speech (Pipecat's voice detector) the rest is asked for at once,
and is `finalized`.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    InterimTranscriptionFrame,
    TranscriptionFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessorSetup
from pipecat.services.settings import NOT_GIVEN, NotGiven, STTSettings
from pipecat.services.stt_latency import DEFAULT_TTFS_P99
from pipecat.services.stt_service import STTService
from pipecat.transcriptions.language import Language
from pipecat.utils.time import time_now_iso8601

from whispertide_agents.session import Session, SessionError

_LAST_WORDS_S = 5.0  # to wait for them when the pipeline ends


@dataclass
class WhispertideSTTSettings(STTSettings):  # type: ignore[misc, unused-ignore]
    """Settings that may change while the pipeline runs; `extra` are other fields of the native protocol's `start`."""

    prompt: str | NotGiven | None = field(default_factory=lambda: NOT_GIVEN)
    recipe: str | NotGiven | None = field(default_factory=lambda: NOT_GIVEN)


class WhispertideSTTService(STTService):  # type: ignore[misc, unused-ignore]
    """Streams to one session of a server, and comes back to it when the connection breaks."""

    Settings = WhispertideSTTSettings

    def __init__(
        self,
        *,
        url: str = "ws://127.0.0.1:8000",
        api_key: str = "",
        sample_rate: int | None = None,
        settings: WhispertideSTTSettings | None = None,
        ttfs_p99_latency: float | None = DEFAULT_TTFS_P99,
        **others: Any,
    ) -> None:
        """`others` are for `STTService`. What the settings leave open is the server's default."""
        chosen = WhispertideSTTSettings(model=None, language=None, prompt=None, recipe=None)
        if settings is not None:
            chosen.apply_update(settings)
        super().__init__(sample_rate=sample_rate, settings=chosen, ttfs_p99_latency=ttfs_p99_latency, **others)
        self._url = url
        self._api_key = api_key
        self._session: Session | None = None
        self._reading: asyncio.Task[None] | None = None
        self._failed = False  # the session, for good
        self._flushes = 0  # that are not answered
        self._held = ""  # confirmed since the first of them
        self._language: Language | None = None

    def language_to_service_language(self, language: Language) -> str:
        """Without the region: Whisper knows none."""
        return str(language.value).split("-")[0]

    def can_generate_metrics(self) -> bool:
        return True

    async def setup(self, setup: FrameProcessorSetup) -> None:
        """Connect, while the pipeline starts."""
        await super().setup(setup)
        self._connect()

    async def stop(self, frame: EndFrame) -> None:
        """End the session: the last words come before the frame goes on."""
        await super().stop(frame)
        if self._session is not None and self._reading is not None:
            self._session.finish()
            await asyncio.wait((self._reading,), timeout=_LAST_WORDS_S)
        await self._disconnect()

    async def cancel(self, frame: CancelFrame) -> None:
        await super().cancel(frame)
        await self._disconnect()

    async def cleanup(self) -> None:
        await super().cleanup()
        await self._disconnect()

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        """Send audio; words come when they are known. After a failure Pipecat has none for us, until it says that the
        service is usable again: then another session hears it.
        """
        if self._failed:
            await self._do_reconnect()
        if self._session is not None:
            self._session.send(audio)
        yield None

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Ask for the rest at the end of speech."""
        await super().process_frame(frame, direction)
        if isinstance(frame, VADUserStoppedSpeakingFrame) and self._session is not None:
            self.request_finalize()
            self._flushes += 1
            self._session.flush()

    async def _update_settings(self, delta: STTSettings) -> dict[str, Any]:
        changed: dict[str, Any] = await super()._update_settings(delta)
        if changed:
            await self._request_reconnect()  # once nobody speaks
        return changed

    async def _do_reconnect(self) -> None:
        await self._disconnect()
        self._connect()

    # --- the session -------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        chosen = self._settings
        named = {name: getattr(chosen, name) for name in ("model", "language", "prompt", "recipe")}
        settings = {name: value for name, value in {**named, **chosen.extra}.items() if value is not None}
        self._flushes, self._held, self._failed = 0, "", False
        self._session = Session(self._url, rate=self.sample_rate, api_key=self._api_key, settings=settings)
        self._reading = self.create_task(self._read(self._session), name="whispertide")

    async def _disconnect(self) -> None:
        session, reading = self._session, self._reading
        self._session = self._reading = None
        if session is None:
            return
        await session.aclose()
        if reading is not None:
            await self.cancel_task(reading)
        await self._call_event_handler("on_disconnected")

    async def _read(self, session: Session) -> None:
        try:
            async for message in session:
                await self._take(message)
        except SessionError as error:
            await self._call_event_handler("on_connection_error", str(error))
            await self.push_error(error_msg=str(error), exception=error, force_treat_as_permanent=True)
            self._failed = True

    async def _take(self, message: Mapping[str, Any]) -> None:
        match message["type"]:
            case "session":
                await self._call_event_handler("on_connected")
            case "language":
                self._language = _known(message["language"])
            case "hypothesis" if message["words"]:
                text = _text(message["words"])
                await self.push_frame(InterimTranscriptionFrame(text, *self._about, result=message))
            case "confirmed" if self._flushes:
                self._held += "".join(word["text"] for word in message["words"])
            case "confirmed":
                await self._say(_text(message["words"]), message)
            case "flushed":
                await self._finalized(message)

    async def _finalized(self, message: Mapping[str, Any]) -> None:
        """All words up to the end of speech are here, unless speech ended again meanwhile. Where all were said before,
        nothing is left to be marked.
        """
        self._flushes = max(0, self._flushes - 1)
        if self._flushes:
            return
        held, self._held = self._held.strip(), ""
        if held:
            self.confirm_finalize()
            await self._say(held, message)
        else:
            await self.stop_ttfb_metrics()
            await self._cancel_ttfb_timeout()

    async def _say(self, text: str, message: Mapping[str, Any]) -> None:
        await self.emit_stt_usage_metrics()
        await self.push_frame(TranscriptionFrame(text, *self._about, result=message))

    @property
    def _about(self) -> tuple[str, str, Language | None]:
        """Who spoke, the time, and the language."""
        return self._user_id, time_now_iso8601(), self._language or _known(self._settings.language)


def _text(words: Sequence[Mapping[str, Any]]) -> str:
    return "".join(word["text"] for word in words).strip()


def _known(code: str | None) -> Language | None:
    try:
        return Language(code)
    except ValueError:
        return None
