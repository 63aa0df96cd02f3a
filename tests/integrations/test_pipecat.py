"""The service in a pipeline of Pipecat's own test tools; skipped where Pipecat is not installed (`make agents`)."""

import asyncio
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from served import SILENCE, TEXT, in_thread, keyed, served
from whispertide.server.serving import Server
from whispertide_agents.session import Session

MISSING = "pipecat is not installed: make agents"
KEY = "a-secret-key"


@pytest.fixture(scope="module")
def service() -> ModuleType:
    pytest.importorskip("pipecat", reason=MISSING)
    from whispertide_agents import pipecat

    return pipecat


@pytest.fixture(scope="module")
def frames() -> Any:
    return pytest.importorskip("pipecat.frames.frames", reason=MISSING)


@pytest.fixture(scope="module")
def testing() -> Any:
    return pytest.importorskip("pipecat.tests.utils", reason=MISSING)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with in_thread(served(keyed(KEY))) as (server, _):
        yield server


def run(service: Any, testing: Any, server: Server, talk: Any, **settings: Any) -> list[Any]:
    async def conversation() -> list[Any]:
        stt = service.WhispertideSTTService(
            url=f"http://127.0.0.1:{server.port}", sample_rate=16_000, **{"api_key": KEY, **settings}
        )
        down, up = await testing.run_test(stt, frames_to_send=talk, start_timeout=30)
        return [*down, *up]

    return asyncio.run(conversation())


def said(heard: list[Any], frames: Any) -> list[str]:
    text = " ".join(frame.text for frame in heard if isinstance(frame, frames.TranscriptionFrame))
    return [word.strip(" ,.!").lower() for word in text.split()]


def audio(frames: Any, count: int) -> Iterator[Any]:
    for _ in range(count):
        yield frames.InputAudioRawFrame(audio=SILENCE, sample_rate=16_000, num_channels=1)


def test_every_word_comes_once_and_the_last_of_a_turn_is_final(
    service: Any, testing: Any, frames: Any, server: Server
) -> None:
    def talk() -> Iterator[Any]:
        yield from audio(frames, 4)
        yield frames.VADUserStoppedSpeakingFrame(stop_secs=0.2)
        yield testing.SleepFrame(sleep=2)
        yield from audio(frames, 7)

    heard = run(service, testing, server, talk())
    assert said(heard, frames) == TEXT, "those after the last pause, too: the pipeline ends after them"
    transcripts = [frame for frame in heard if isinstance(frame, frames.TranscriptionFrame)]
    (final,) = [frame for frame in transcripts if frame.finalized]
    assert final.text.lower().strip(" ,.!").endswith("w4")
    assert any(isinstance(frame, frames.InterimTranscriptionFrame) for frame in heard)
    assert transcripts[0].user_id == ""


class Slow:
    """A session that answers nothing before it was flushed twice. The second turn has words after the first answer."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.flushes = 0

    def send(self, audio: bytes) -> None:
        pass

    def flush(self) -> None:
        self.flushes += 1
        if self.flushes == 2:
            for message in (confirmed(" One"), {"type": "flushed"}, confirmed(" two."), {"type": "flushed"}):
                self.messages.put_nowait(message)

    def finish(self) -> None:
        for message in (confirmed(" Three."), None):
            self.messages.put_nowait(message)

    async def aclose(self) -> None:
        self.messages.put_nowait(None)

    async def __aiter__(self) -> Any:
        while (message := await self.messages.get()) is not None:
            yield message


def confirmed(text: str) -> dict[str, Any]:
    return {"type": "confirmed", "words": [{"text": text}]}


def test_a_second_end_of_speech_before_the_first_is_answered_is_final(
    service: Any, testing: Any, frames: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the first is not: more of what was said is to come."""
    monkeypatch.setattr(service, "Session", Slow)

    def talk() -> Iterator[Any]:
        yield from audio(frames, 1)
        yield frames.VADUserStoppedSpeakingFrame(stop_secs=0.2)
        yield frames.VADUserStartedSpeakingFrame(start_secs=0.2)
        yield frames.VADUserStoppedSpeakingFrame(stop_secs=0.2)
        yield testing.SleepFrame(sleep=0.5)

    heard = run(service, testing, server, talk())
    transcripts = [(one.text, one.finalized) for one in heard if isinstance(one, frames.TranscriptionFrame)]
    assert transcripts == [("One two.", True), ("Three.", False)]


def test_a_key_that_is_refused_is_an_error_of_the_pipeline(
    service: Any, testing: Any, frames: Any, server: Server
) -> None:
    def talk() -> Iterator[Any]:
        yield from audio(frames, 1)
        yield testing.SleepFrame(sleep=1)

    heard = run(service, testing, server, talk(), api_key="another-key")
    (error,) = [frame for frame in heard if isinstance(frame, frames.ErrorFrame)]
    assert "the server answered 401" in error.error


def test_a_server_that_stays_away_makes_the_service_unusable_until_somebody_says_that_it_is_back(
    service: Any, testing: Any, frames: Any, server: Server, monkeypatch: Any
) -> None:
    """So a switch goes to the next service, and audio does not pile up (`FrameProcessor.is_usable`)."""
    monkeypatch.setattr(service, "Session", partial(Session, patience_s=0.0))
    usable: list[bool] = []

    async def conversation() -> list[Any]:
        stt = service.WhispertideSTTService(url="ws://127.0.0.1:9", sample_rate=16_000, api_key=KEY)
        stt.add_event_handler("on_usable_changed", lambda _, is_usable: usable.append(is_usable))

        def talk() -> Iterator[Any]:
            yield from audio(frames, 1)
            yield testing.SleepFrame(sleep=1)
            stt._url = f"ws://127.0.0.1:{server.port}"
            back = asyncio.ensure_future(stt.set_usable(True))
            yield testing.SleepFrame(sleep=0.5)
            assert back.done()
            yield from audio(frames, 11)

        down, _ = await testing.run_test(stt, frames_to_send=talk(), start_timeout=30)
        return list(down)

    heard = asyncio.run(conversation())
    assert usable == [False, True]
    assert said(heard, frames) == TEXT


def test_settings_reach_the_server(service: Any, testing: Any, frames: Any, server: Server, monkeypatch: Any) -> None:
    asked: list[dict[str, Any]] = []
    init = Session.__init__

    def noted(self: Session, url: str, **values: Any) -> None:
        asked.append(dict(values))
        init(self, url, **values)

    monkeypatch.setattr(Session, "__init__", noted)
    language = pytest.importorskip("pipecat.transcriptions.language").Language
    settings = service.WhispertideSTTSettings(language=language.EN_GB, prompt="Names", extra={"vad": True})
    run(service, testing, server, audio(frames, 1), settings=settings)
    assert asked[0]["settings"] == {"language": "en", "prompt": "Names", "vad": True}
    assert asked[0]["rate"] == 16_000
