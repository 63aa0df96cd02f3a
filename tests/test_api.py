"""The public face, on the bundled model and the shortest clips."""

import asyncio
import itertools
import os
import random
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import whispertide
from oracle import Oracle, audio_between, speech
from reference import remembering
from sounds import make_wav, silence
from test_session_failures import Flaky
from whispertide.audio.file import decode_blocks, load_audio
from whispertide.checkpoint import Checkpoint
from whispertide.errors import (
    AudioError,
    CheckpointNotFoundError,
    OptionError,
    UnknownLanguageError,
    UnknownRecipeError,
)
from whispertide.events import Confirmed, End, Event, to_dict
from whispertide.options import DecodeOptions
from whispertide.recipes.assembly import make_executor
from whispertide.streaming.schedule import Recorded
from whispertide.types import SAMPLE_RATE, FloatArray

CLIP = Path(__file__).parent / "clips" / "quiet.flac"
FAST = whispertide.get_recipe("whisper-streaming").replace(search="greedy")
ONCE = DecodeOptions(temperatures=(0.0,))


@pytest.fixture(scope="module")
def model() -> whispertide.Transcriber:
    transcriber = whispertide.load("nano.en", precision="fp32", threads=1)
    remembering(transcriber.model)
    return transcriber


def unstamped(events: list[Event]) -> list[dict[str, object]]:
    """Events without the figures that differ from run to run."""
    return [{key: value for key, value in to_dict(event).items() if key != "stats"} for event in events]


def confirmed_text(events: list[Event]) -> str:
    return "".join(word.text for event in events if isinstance(event, Confirmed) for word in event.words)


def test_a_model_tells_what_loads_it_again_from_anywhere(
    model: whispertide.Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert model.source == model.name
    monkeypatch.setattr(Checkpoint, "place", Path("mine"))
    assert model.source == str(Path.cwd() / "mine")


@pytest.mark.slow
def test_every_way_to_hand_over_a_recording_gives_the_same(model: whispertide.Transcriber) -> None:
    text = model.transcribe(CLIP).text
    assert "best time of" in text
    samples = load_audio(CLIP)
    assert model.transcribe(str(CLIP)).text == text
    assert model.transcribe(samples).text == text
    assert model.transcribe(samples[at : at + 1000] for at in range(0, len(samples), 1000)).text == text
    with CLIP.open("rb") as file:
        assert model.transcribe(file).text == text


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.int16, np.float64])
def test_samples_of_other_types_are_the_same_recording(model: whispertide.Transcriber, kind: type[np.number]) -> None:
    audio = load_audio(CLIP)[: 5 * SAMPLE_RATE // 2]
    other = (audio * (32768 if kind is np.int16 else 1)).astype(kind)
    text = model.transcribe(audio).text
    assert len(text.split()) > 2
    assert model.transcribe(other).text == text
    assert model.transcribe(iter([other[:25_000], other[25_000:]])).text == text


def test_a_temporary_file_is_a_file(model: whispertide.Transcriber) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"no audio")
        file.seek(0)
        wrapped: Any = file  # of no type that typeshed calls a file, but everybody else does
        with pytest.raises(AudioError, match="not audio"):
            model.transcribe(wrapped)


@pytest.mark.slow
def test_audio_that_breaks_off_is_transcribed_as_far_as_it_goes(model: whispertide.Transcriber) -> None:
    audio = load_audio(CLIP)

    def broken() -> Iterator[FloatArray]:
        yield audio
        raise AudioError("cut off")

    segments = model.transcribe_segments(broken())
    assert next(segments).text.strip()
    with pytest.raises(AudioError, match="cut off"):
        list(segments)
    with pytest.warns(UserWarning, match="cut off"):
        document = model.transcribe(broken())
    whole = model.transcribe(audio)
    assert (document.text, document.complete, document.duration) == (whole.text, False, len(audio))
    assert whole.complete
    with pytest.raises(AudioError, match="empty"):
        model.transcribe(np.zeros(0, np.float32))


@pytest.mark.parametrize("channels", [None, 2])
def test_what_was_confirmed_before_a_round_failed_comes_before_the_error(
    model: whispertide.Transcriber, monkeypatch: pytest.MonkeyPatch, channels: int | None
) -> None:
    """Two rounds are due in one portion; the first confirms words, and the second fails."""
    words = speech(("one", 0.5, 0.9), ("two", 1.0, 1.4), ("three", 2.0, 2.4), ("four", 3.0, 3.4))
    boundaries = Recorded((SAMPLE_RATE, 2 * SAMPLE_RATE, 3 * SAMPLE_RATE))

    def opened(*_: Any, **__: Any) -> whispertide.Session:
        failing = Flaky(Oracle(words, jitter=0), {3})
        return whispertide.Session(FAST, failing, schedule=boundaries)

    monkeypatch.setattr(model, "session", opened)
    whole = audio_between(0, 4 * SAMPLE_RATE)
    block = whole if channels is None else np.stack([whole] * channels, axis=1)

    async def source() -> AsyncIterator[FloatArray]:
        yield block

    async def astreamed(events: list[Event]) -> None:
        async for event in model.astream(source(), channels=channels):
            events += [event]

    events, others = list[Event](), list[Event]()
    with pytest.raises(RuntimeError, match="the graph broke"):
        events.extend(model.stream([block], channels=channels))
    with pytest.raises(RuntimeError, match="the graph broke"):
        asyncio.run(astreamed(others))
    assert confirmed_text(events).lower().split()[0].strip(",.!") == "one"
    assert events == others


def test_tokens_that_the_model_has_not_are_refused_before_any_audio(model: whispertide.Transcriber) -> None:
    wrong = DecodeOptions(suppress_tokens=(-1, model.dims.n_vocab))
    for call in (model.session, lambda options: model.transcribe(CLIP, options=options)):
        with pytest.raises(OptionError, match=f"expected tokens to suppress from 0 to {model.dims.n_vocab - 1}"):
            call(options=wrong)
    session = model.session(options=DecodeOptions(suppress_tokens=(-1, 7)))
    with pytest.raises(OptionError, match="expected tokens to suppress"):
        session.configure(suppress_tokens=[10**9])
    assert session.options.suppress_tokens == (-1, 7)


def test_executors_of_old_settings_are_forgotten(model: whispertide.Transcriber) -> None:
    made = [model.session(FAST.replace(framing="zeros", zeros_s=tenths / 10)).executor for tenths in range(40)]
    assert model.session(FAST.replace(framing="zeros", zeros_s=3.9)).executor is made[-1]
    assert model.session(FAST.replace(framing="zeros", zeros_s=0.8)).executor is made[8]  # 32 are kept
    assert model.session(FAST.replace(framing="zeros", zeros_s=0.9)).executor is made[9]
    assert model.session(FAST.replace(framing="zeros", zeros_s=0.7)).executor is not made[7]


def test_samples_that_are_none_are_refused(model: whispertide.Transcriber) -> None:
    with pytest.raises(AudioError, match="int32"):
        model.transcribe(np.zeros(16_000, np.int32))
    with pytest.raises(AudioError, match="mono"):
        model.transcribe(np.zeros((2, 16_000), np.float32))


def test_a_document_has_words_inside_the_recording(model: whispertide.Transcriber) -> None:
    document = model.transcribe(CLIP)
    assert document.language == "en"
    assert document.model == "nano.en"
    assert document.duration == len(load_audio(CLIP)) > document.segments[-1].end
    assert "".join(word.text for word in document.words).strip() == document.text
    assert all(0 <= word.start <= word.end <= len(load_audio(CLIP)) for word in document.words)


@pytest.mark.slow
def test_a_recording_whose_name_is_no_text_becomes_a_document_that_can_be_written(
    model: whispertide.Transcriber, tmp_path: Path
) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.wav")
    path.write_bytes(make_wav(silence(0.5), SAMPLE_RATE))
    document = model.transcribe(path)
    assert document.source.endswith("caf\ufffd.wav")
    assert whispertide.get_format("json")(document).encode()


def test_a_document_becomes_a_file_of_any_format(model: whispertide.Transcriber) -> None:
    document = model.transcribe(CLIP)
    assert whispertide.get_format("txt")(document).split() == document.text.split()
    one_line = whispertide.get_format("srt", whispertide.SubtitleOptions(line_width=20, lines=1))(document)
    assert all(len(line) <= 20 for line in one_line.splitlines() if "-->" not in line)
    assert all(hasattr(whispertide, name) for name in whispertide.__all__)


@pytest.mark.slow
def test_stream_and_session_say_the_same(model: whispertide.Transcriber) -> None:
    blocks = list(decode_blocks(CLIP, block=1600))
    streamed = list(model.stream(blocks, FAST))
    session = model.session(FAST)
    pushed = [event for block in blocks for event in session.push(block)] + session.finish()
    assert unstamped(streamed) == unstamped(pushed)
    assert isinstance(streamed[-1], End)
    assert confirmed_text(streamed).strip() == session.transcript.text != ""


@pytest.mark.slow
def test_astream_says_the_same_and_leaves_the_loop_free(model: whispertide.Transcriber) -> None:
    blocks = list(decode_blocks(CLIP, block=1600))

    async def source() -> AsyncIterator[FloatArray]:
        for block in blocks:
            yield block

    async def run() -> tuple[list[Event], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.005)

        ticking = asyncio.create_task(tick())
        events = [event async for event in model.astream(source(), FAST)]
        ticking.cancel()
        return events, ticks

    events, ticks = asyncio.run(run())
    assert unstamped(events) == unstamped(list(model.stream(blocks, FAST)))
    assert ticks > 5


@pytest.mark.slow
@pytest.mark.parametrize("live", [False, True])
def test_a_stream_keeps_nothing_of_what_it_has_told(
    model: whispertide.Transcriber, monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    """Or one of days would fill the memory: nobody can ask for it."""
    opened: list[whispertide.Session] = []
    session = model.session

    def noted(*values: Any, **settings: Any) -> whispertide.Session:
        opened.append(session(*values, **settings))
        return opened[-1]

    async def source() -> AsyncIterator[FloatArray]:
        for block in decode_blocks(CLIP, block=1600):
            yield block

    async def astreamed() -> int:
        return len([event async for event in model.astream(source(), FAST, live=live)])

    monkeypatch.setattr(model, "session", noted)
    assert list(model.stream(decode_blocks(CLIP, block=1600), FAST, live=live))
    assert asyncio.run(astreamed())
    # Without it there is a boundary for each second of the clip; the last rounds are those of `finish`.
    assert [len(one.boundaries) for one in opened] == [0, 0]


def test_threads_that_open_sessions_share_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, made = whispertide.load("nano.en", precision="fp32", threads=1), list[Any]()

    def slowly(*values: Any, **settings: Any) -> Any:
        time.sleep(0.05)
        made.append(make_executor(*values, **settings))
        return made[-1]

    monkeypatch.setattr("whispertide.recipes.assembly.make_executor", slowly)
    with ThreadPoolExecutor(4) as pool:
        sessions = list(pool.map(model.session, [FAST] * 4))
    assert [session.executor for session in sessions] == made * 4


@pytest.mark.slow
def test_sessions_and_recordings_in_threads_say_what_they_say_alone() -> None:
    model, recipe = whispertide.load("nano.en", precision="fp32", threads=1), FAST.replace(framing="bare")

    def streamed(_: int) -> list[dict[str, object]]:
        return unstamped(list(model.stream(decode_blocks(CLIP, block=1600), recipe, options=ONCE)))

    events, text = streamed(0), model.transcribe(CLIP, options=ONCE).text
    with ThreadPoolExecutor(4) as pool:
        texts = [pool.submit(model.transcribe, CLIP, options=ONCE) for _ in range(2)]
        assert list(pool.map(streamed, range(2))) == [events] * 2
        assert [one.result().text for one in texts] == [text] * 2


@pytest.mark.slow
def test_the_speed_of_the_machine_does_not_matter_unless_audio_is_live(
    model: whispertide.Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine whose clock leaps by up to a quarter of a second whenever it is asked."""

    def said(seed: int, *, live: bool = False) -> list[dict[str, object]]:
        leaps, now = random.Random(seed), itertools.accumulate(iter(lambda: leaps.random() / 4, None))
        with monkeypatch.context() as patch:
            patch.setattr(time, "perf_counter", lambda: next(now))
            return unstamped(list(model.stream(decode_blocks(CLIP, block=1600), live=live)))

    once = said(0)
    assert said(1) == said(2) == once
    assert said(1, live=True) != once


@pytest.mark.parametrize("changes", [{"language": "xx"}, {"language": "de", "step_s": 2.0}, {"task": "translate"}])
def test_what_the_model_cannot_write_is_refused_at_once(
    model: whispertide.Transcriber, changes: dict[str, Any]
) -> None:
    session = model.session(FAST)
    before = session.recipe, session.options
    with pytest.raises(OptionError):
        session.configure(**changes)
    assert (session.recipe, session.options) == before
    session.configure(language="English")
    assert session.options.language == "en"
    session.configure(language="auto")
    assert session.options.language is None


@pytest.mark.slow
def test_a_language_may_be_a_tag_or_left_open(model: whispertide.Transcriber) -> None:
    for language, code in [("en-US", "en"), ("auto", None)]:
        assert model.session(FAST, options=DecodeOptions(language=language)).options.language == code
        assert next(model.transcribe_segments(CLIP, options=DecodeOptions(language=language))).language == "en"


def test_the_language_of_a_recording_is_asked_for_or_heard_or_the_only_one(model: whispertide.Transcriber) -> None:
    empty = model.transcribe(np.zeros(SAMPLE_RATE, np.float32))
    assert (empty.segments, empty.language) == ((), "en")
    several: Any = SimpleNamespace(dims=SimpleNamespace(is_multilingual=True))
    multilingual = whispertide.Transcriber(several)
    assert multilingual.language_of(DecodeOptions(language="German"), "fr") == "de"
    assert multilingual.language_of(DecodeOptions(language="auto"), "fr") == "fr"
    assert multilingual.language_of(DecodeOptions(), None) is None


def test_a_session_that_is_to_translate_needs_a_model_that_can(model: whispertide.Transcriber) -> None:
    with pytest.raises(OptionError, match="cannot translate"):
        model.session(FAST, options=DecodeOptions(task="translate"))
    with pytest.raises(OptionError, match="cannot translate"):
        model.transcribe(CLIP, options=DecodeOptions(task="translate"))


def nothing_said() -> Iterator[FloatArray]:
    rng = np.random.default_rng(0)
    yield np.zeros(10 * SAMPLE_RATE, np.float32)
    yield (0.01 * rng.standard_normal(10 * SAMPLE_RATE)).astype(np.float32)
    yield (0.05 * np.sin(np.arange(10 * SAMPLE_RATE) * 2 * np.pi * 50 / SAMPLE_RATE)).astype(np.float32)


@pytest.mark.parametrize("samples", nothing_said(), ids=["silence", "white noise", "mains hum"])
def test_silence_says_nothing_and_is_not_kept(model: whispertide.Transcriber, samples: FloatArray) -> None:
    session = model.session()
    events = [event for at in range(0, len(samples), 1600) for event in session.push(samples[at : at + 1600])]
    assert session.buffered < 2 * SAMPLE_RATE
    events += session.finish()
    assert [event.kind for event in events] == ["end"]


def test_what_is_wrong_is_said_before_any_audio(model: whispertide.Transcriber) -> None:
    with pytest.raises(UnknownRecipeError, match="whisper-streaming"):
        model.session("tsunami")
    with pytest.raises(UnknownLanguageError):
        model.session(options=whispertide.DecodeOptions(language="de"))


def test_a_recipe_for_streams_needs_an_adapter(tmp_path: Path) -> None:
    recipe = whispertide.get_recipe("whisperrt")
    assert whispertide.load("nano.en", precision="fp32").can_stream(recipe)
    bare = tmp_path / "bare"
    shutil.copytree(Path(whispertide.__file__).parent / "bundled" / "nano.en", bare)
    (bare / "causal.npz").unlink()
    model = whispertide.load(str(bare), precision="fp32")
    assert not model.can_stream(recipe)
    with pytest.raises(CheckpointNotFoundError, match="whispertide train causal"):
        model.session(recipe)
