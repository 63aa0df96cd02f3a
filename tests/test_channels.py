"""Channels that are kept apart: each is heard as if it were alone."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whispertide
from oracle import audio_between
from reference import remembering
from session_steps import PAUSED, TALK, confirmed, exact, said
from session_steps import RECIPE as STREAMING
from sounds import make_wav
from test_session_failures import Flaky
from whispertide.audio.file import load_audio
from whispertide.channels import ChannelSessions, apart_options, in_order
from whispertide.errors import AudioError, OptionError
from whispertide.events import Confirmed, End, Event, of_channel
from whispertide.formats.document import TextSegment
from whispertide.options import DecodeOptions
from whispertide.types import SAMPLE_RATE, FloatArray, OfflineSegment, Span, Word

CLIP = Path(__file__).parent / "clips" / "quiet.flac"
RECIPE = whispertide.get_recipe("tide").replace(framing="bare")


@pytest.fixture(scope="module")
def model() -> whispertide.Transcriber:
    transcriber = whispertide.load("nano.en", precision="fp32", threads=1)
    remembering(transcriber.model)
    return transcriber


@pytest.fixture(scope="module")
def both() -> FloatArray:
    """Two speakers, [n, 2]: the second one says the same, half a second later."""
    said = load_audio(CLIP)[: 5 * SAMPLE_RATE // 2]
    return np.stack([said, np.roll(said, SAMPLE_RATE // 2)], axis=1)


def without_figures(events: list[Event]) -> list[Any]:
    """Events as they are, but for what they cost."""
    return [(type(event), event.seq, event.channel, getattr(event, "words", None)) for event in events]


# --- recordings ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_channel_of_a_recording_is_a_speaker(model: whispertide.Transcriber, both: FloatArray) -> None:
    document = model.transcribe(both, multichannel=True)
    for number in (1, 2):
        alone = model.transcribe(both[:, number - 1])
        assert document.of_speaker(number).text == alone.text != ""
        assert {word.speaker for word in document.of_speaker(number).words} == {number}
    starts = [segment.start for segment in document.segments]
    assert starts == sorted(starts)
    assert (document.duration, document.complete) == (len(both), True)


@pytest.mark.slow
def test_a_file_is_heard_as_its_samples_are(model: whispertide.Transcriber, both: FloatArray, tmp_path: Path) -> None:
    path = tmp_path / "call.wav"
    path.write_bytes(make_wav(both, SAMPLE_RATE, "f32"))
    document = model.transcribe(path, multichannel=True)
    assert document.segments == model.transcribe(both, multichannel=True).segments
    with path.open("rb") as file:
        assert model.transcribe(file, multichannel=True).segments == document.segments


def test_segments_are_in_the_order_of_their_times_and_numbered_anew() -> None:
    def segment(start: int) -> OfflineSegment:
        words = (Word(" so", start, start + 5),)
        return OfflineSegment(7, Span(start, start + 5), " so", (), words, 0, 1, 0, 0, "en")

    found = in_order([[segment(0), segment(20)], [segment(10)]])
    assert [(one.id, one.span.start, one.words[0].speaker) for one in found] == [(0, 0, 1), (1, 10, 2), (2, 20, 1)]


def test_a_segment_without_words_has_its_speaker_too() -> None:
    """Marks that were joined to the word before leave nothing of the last segment but its text."""
    alone = OfflineSegment(0, Span(5, 9), " ...", (), (), 0, 1, 0, 0, "en")
    (found,) = in_order([[], [alone]])
    assert TextSegment.of(found).speaker == 2
    assert (found.text, found.words) == (" ...", (Word(" ...", 5, 9, speaker=2),))


@pytest.mark.parametrize(
    ("audio", "told"),
    [
        (np.zeros(16_000, np.float32), r"\[n, channels\].*got shape \[16000\]"),
        (np.zeros((16_000, 1), np.float32), "2 to 64 channels"),
        (np.zeros((2, 16_000), np.float32), "2 to 64 channels"),  # turned round
        (np.zeros((9, 2), np.int32), "int32"),
        ([np.zeros((9, 2), np.float32)], "got blocks of samples"),
        (CLIP, "quiet.flac: expected two channels or more, to keep them apart; it has one"),
    ],
)
def test_audio_without_channels_to_keep_apart(model: whispertide.Transcriber, audio: Any, told: str) -> None:
    with pytest.raises(AudioError, match=told):
        model.transcribe(audio, multichannel=True)


def test_channels_are_speakers_so_no_voices_are_told_apart(model: whispertide.Transcriber) -> None:
    with pytest.raises(OptionError, match="got both"):
        model.transcribe(CLIP, multichannel=True, options=DecodeOptions(speakers=2))
    with pytest.raises(OptionError, match="channels"):
        model.channel_sessions(1)
    assert apart_options(DecodeOptions(word_timestamps=False)).word_timestamps, "words carry the number"


# --- streams ---------------------------------------------------------------------------------------------------------


def test_each_channel_of_a_stream_has_a_session_of_its_own(model: whispertide.Transcriber, both: FloatArray) -> None:
    blocks = np.array_split(both, 8)
    events = list(model.stream(blocks, RECIPE, channels=2))
    for number in (1, 2):
        alone = model.stream([block[:, number - 1] for block in blocks], RECIPE)
        expected = without_figures([of_channel(event, number) for event in alone])
        assert without_figures([event for event in events if event.channel == number]) == expected
    assert {word.speaker for event in events if isinstance(event, Confirmed) for word in event.words} == {1, 2}

    async def streamed() -> list[Event]:
        async def source() -> AsyncIterator[FloatArray]:
            for block in blocks:
                yield block

        return [event async for event in model.astream(source(), RECIPE, channels=2)]

    assert without_figures(asyncio.run(streamed())) == without_figures(events)


def test_a_number_of_channels_that_changes_ends_the_stream(model: whispertide.Transcriber) -> None:
    def blocks() -> Iterator[FloatArray]:
        yield np.zeros((1600, 2), np.float32)
        yield np.zeros((1600, 3), np.float32)

    events = list[Event]()
    with pytest.raises(AudioError, match=r"expected samples of shape \[n, 2\].*got \[1600, 3\]"):
        events.extend(model.stream(blocks(), RECIPE, channels=2))
    ends = [event for event in events if isinstance(event, End)]
    assert [(end.channel, end.duration) for end in ends] == [(1, 1600), (2, 1600)]
    with pytest.raises(AudioError, match=r"got \[1600\]"):
        list(model.stream([np.zeros(1600, np.float32)], RECIPE, channels=2))
    with pytest.raises(AudioError, match="got list"):  # as of a session without channels
        list(model.stream([[[0.0, 0.0]]], RECIPE, channels=2))  # type: ignore[list-item]


def test_sessions_are_flushed_forgotten_and_closed_together(model: whispertide.Transcriber) -> None:
    sessions = model.channel_sessions(3, RECIPE, vad=False)
    sessions.push(np.zeros((1600, 3), np.float32))
    assert [(event.channel, event.kind) for event in sessions.flush()] == [(n, "turn_end") for n in (1, 2, 3)]
    sessions.forget()
    assert sessions.received == 1600
    assert [event.channel for event in sessions.finish() if isinstance(event, End)] == [1, 2, 3]
    sessions.close()
    assert all(session.ended for session in sessions.sessions)


@pytest.mark.parametrize("failing", ["push", "flush", "finish"])
def test_a_round_that_fails_in_a_channel_loses_nothing_of_any(failing: str) -> None:
    """What the others have said by then comes with the next call, and that goes on where the failed one stopped."""
    words = exact(PAUSED)
    executors = [Flaky(words), Flaky(words), Flaky(words)]
    sessions = ChannelSessions([whispertide.Session(STREAMING, each) for each in executors])
    events = list[Event]()

    def told(call: Callable[[], list[Event]]) -> None:
        if call.__name__ == failing:
            executors[1].fail_in = {executors[1].calls + 1}
            with pytest.raises(RuntimeError):
                call()
            call = sessions.drain if failing == "push" else call
        events.extend(call())

    def push() -> list[Event]:
        samples = audio_between(sessions.received, sessions.received + SAMPLE_RATE)
        return sessions.push(np.stack([samples] * 3, axis=1))

    for _ in range(4):
        told(push)
        assert len({session.received for session in sessions.sessions}) == 1
    if failing == "flush":
        told(sessions.flush)
    told(sessions.finish)
    for number in (1, 2, 3):
        own = [event for event in events if event.channel == number]
        assert [event.seq for event in own] == list(range(len(own)))
        assert confirmed(own) == said(TALK)
        assert isinstance(own[-1], End)
