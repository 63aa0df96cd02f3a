"""Hush words: files, what goes after a window, and that nothing is heard in it."""

import io
import json
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import nano, own_nano
from slow_rows import slow_but
from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.decoding.segments import TimedSegment
from whispertide.decoding.token_words import WordTiming
from whispertide.decoding.word_repairs import within
from whispertide.errors import CheckpointError, CheckpointNotFoundError, OptionError
from whispertide.events import Confirmed, Event
from whispertide.features import Features, raw_log_mel
from whispertide.methods.agreement.whole_window import WholeWindow
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.methods.short.hush import HushWord, suffix_for
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.recipes.assembly import executor_key, make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import parse_overrides
from whispertide.session import Session
from whispertide.streaming.framing import BARE, Hush
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.schedule import Recorded
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import HOP_LENGTH, N_FRAMES, N_SAMPLES, SAMPLE_RATE, FloatArray, Span, Word

CLIPS = Path(__file__).parents[2] / "clips"
HALF = SAMPLE_RATE // 2
GREEDY = DecodeOptions(temperatures=(0.0,), beam=1)


def noise(count: int = HALF, level: float = 0.3, seed: int = 0) -> FloatArray:
    return (level * np.random.default_rng(seed).standard_normal(count)).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> WhisperModel:
    return nano()


@pytest.fixture(scope="module")
def clip() -> FloatArray:
    return load_audio(CLIPS / "quiet.flac")


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    word = HushWord(noise(level=0.8), "a" * 64, {"held_out": 0.5, "epochs": [50, 100]})
    word.save(tmp_path / "hush-0.5s.npz")
    back = HushWord.load(tmp_path / "hush-0.5s.npz")
    np.testing.assert_array_equal(back.samples, word.samples)
    assert np.abs(back.samples).max() > 1, "samples beyond full scale are kept"
    assert (back.content_hash, back.report, back.seconds) == (word.content_hash, word.report, 0.5)


def test_the_published_format_is_read(tmp_path: Path) -> None:
    """One sample a line, as `numpy.savetxt` writes them."""
    samples = noise(16_000, 0.9)
    np.savetxt(tmp_path / "base_1s_avg.csv", samples)
    word = HushWord.load(tmp_path / "base_1s_avg.csv")
    np.testing.assert_allclose(word.samples, samples, rtol=1e-6)
    assert (word.seconds, word.content_hash) == (1.0, "")


def csv(*lines: object) -> bytes:
    return "\n".join(map(str, lines)).encode()


def npz(**changes: Any) -> bytes:
    fields: dict[str, Any] = {"format": 1, "samples": noise(), "content_hash": "", "report": "{}"} | changes
    buffer = io.BytesIO()
    np.savez(buffer, **{name: value for name, value in fields.items() if value is not None})
    return buffer.getvalue()


DAMAGED = {
    "a word in a line": ("x.csv", csv(*noise()[:900], "hello"), "one sample in line 901; got 'hello'"),
    "two samples in a line": ("x.csv", csv("0.1,0.2"), "one sample in line 1"),
    "nothing": ("x.csv", b"", "0.1 to 5 s"),
    "too short": ("x.csv", csv(*[0.1] * 100), r"shape \(100,\)"),
    "too long": ("x.csv", csv(*[0.1] * 80_001), r"shape \(80001,\)"),
    "not a number": ("x.csv", csv(*[0.1] * 8000, "nan"), "got 1 that are not finite, or louder"),
    "infinite": ("x.csv", csv(*[0.1] * 8000, "inf"), "got 1 that are not finite, or louder"),
    "one number": ("x.csv", csv(*[0.1] * 8000), "all are one number"),
    "silence": ("x.npz", npz(samples=np.zeros(8000, np.float32)), "all are one number"),
    "16-bit numbers": ("x.csv", csv(*[4000] * 8000), "louder"),
    "no text": ("x.csv", b"\xff\xfe\x00", "cannot be read"),
    "something else": ("x.npz", npz(samples=None), r"samples \[any\]; .* holds nothing"),
    "in two rows": ("x.npz", npz(samples=np.zeros((2, 8000), np.float32)), r"holds samples \[2, 8000\]"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_what_is_no_hush_word_is_refused(case: str, tmp_path: Path) -> None:
    name, content, message = DAMAGED[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as raised:
        HushWord.load(tmp_path / name)
    assert str(tmp_path / name) in str(raised.value)


# --- which one is used ------------------------------------------------------------------------------------------------


@pytest.fixture
def own_model(tmp_path: Path) -> WhisperModel:
    return load_model(str(own_nano(tmp_path / "mine")), EngineOptions(precision="fp32", threads=1))


def test_the_hush_word_next_to_the_checkpoint_is_found(own_model: WhisperModel, tmp_path: Path) -> None:
    recipe = get_recipe("whisper-streaming").replace(framing="hush")
    with pytest.raises(CheckpointNotFoundError) as raised:
        make_executor(own_model, recipe)
    assert f"`whispertide train hush --model {tmp_path / 'mine'} --seconds 0.5`" in str(raised.value)
    samples = noise()
    HushWord(samples, own_model.content_hash).save(tmp_path / "mine" / "hush-0.5s.npz")
    serial = make_executor(own_model, recipe)
    single = make_executor(own_model, get_recipe("tide").replace(framing="hush"))
    assert isinstance(serial, SerialExecutor)
    assert isinstance(single, SerialExecutor)
    for executor in (serial, single):
        assert executor.resources.suffix is not None
        np.testing.assert_array_equal(executor.resources.suffix, samples)
    with pytest.raises(CheckpointNotFoundError, match=r"hush-0\.25s\.npz"):
        make_executor(own_model, recipe.replace(hush_s=0.25))


def test_one_of_another_model_is_used_with_a_warning(model: WhisperModel) -> None:
    other = HushWord(noise(), "b" * 64)
    with pytest.warns(UserWarning, match="trained for another checkpoint"):
        assert suffix_for(model, 0.5, other) is other.samples
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        suffix_for(model, 0.5, HushWord(noise(), model.content_hash))


def test_one_that_says_of_no_model_is_used_with_a_warning(model: WhisperModel) -> None:
    with pytest.warns(UserWarning, match="trained for a checkpoint that its file does not name"):
        suffix_for(model, 0.5, HushWord(noise()))


def test_what_never_ends_is_not_read(tmp_path: Path) -> None:
    for name in ("word.csv", "word.npz"):
        (tmp_path / name).symlink_to("/dev/zero")
        with pytest.raises(CheckpointError, match=r"hush word|CSV of samples"):
            HushWord.load(tmp_path / name)


@pytest.mark.parametrize("name", ["word.csv", "word.npz"])
def test_a_file_that_is_far_too_large_is_not_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 32)  # which takes no place on the disk
    monkeypatch.setattr(Path, "open", None)
    with pytest.raises(CheckpointError, match=r"hush word|CSV of samples"):
        HushWord.load(tmp_path / name)


def test_lengths_must_agree(model: WhisperModel) -> None:
    with pytest.raises(OptionError, match=r"of 0\.5 s \(hush_s\); got one of 1 s"):
        suffix_for(model, 0.5, HushWord(noise(16_000)))


def test_recipes_know_the_framing() -> None:
    base = get_recipe("tide")
    hushed = parse_overrides(base, ["framing=hush", "hush_s=1"])
    assert hushed.framing == Hush(hush_s=1.0)
    assert executor_key(hushed) != executor_key(hushed.replace(hush_s=0.5))
    assert not base.has("hush_s"), "the length belongs to this framing alone"
    with pytest.raises(OptionError, match="hush_s between"):
        hushed.replace(hush_s=6.0)


# --- after the window -------------------------------------------------------------------------------------------------


@given(count=st.integers(160, 30_000), length=st.integers(1600, 16_000), seed=st.integers(0, 50))
def test_the_samples_are_appended_as_they_are(count: int, length: int, seed: int) -> None:
    """The frames are those of speech and hush word in one recording."""
    speech, suffix = noise(count, 0.2, seed), noise(length, 0.2, seed + 1)
    features = Features.of([speech[: count // 3], speech[count // 3 :]], 80, suffix)
    mel = features.followed(0, features.frames)
    whole = raw_log_mel(np.concatenate([speech, suffix]), 80)[:, :-2]  # without frames that see the mirror
    ours = 4 * mel[:, : whole.shape[1]] - 4
    np.testing.assert_allclose(ours, np.maximum(whole, features.peak - 8), atol=1e-4)
    assert mel.shape[1] == (count + length) // HOP_LENGTH
    assert features.frames == count // HOP_LENGTH


@pytest.mark.parametrize("gain_db", [0, -20, -40])
def test_the_floor_is_that_of_the_speech(clip: FloatArray, gain_db: int) -> None:
    """However quiet the speech next to a loud hush word, its frames are the same as alone (ALGORITHMS B1)."""
    speech = (clip * 10 ** (gain_db / 20)).astype(np.float32)
    alone, followed = Features.of([speech], 80), Features.of([speech], 80, noise(level=1.0))
    untouched = alone.frames - 3  # the last few see the hush word
    assert followed.peak == alone.peak
    np.testing.assert_array_equal(
        followed.followed(0, followed.frames)[:, :untouched], alone.window(0, alone.frames)[:, :untouched]
    )
    assert followed.followed(0, followed.frames)[:, alone.frames + 3 :].max() > alone.window(0, alone.frames).max()


def test_only_a_window_that_reaches_the_end_and_has_room_gets_it() -> None:
    features = Features.of([noise(2 * N_SAMPLES // 3), noise(N_SAMPLES)], 80, noise())
    assert features.followed(0, N_FRAMES).shape[1] == N_FRAMES
    rest = features.frames - N_FRAMES
    assert features.followed(N_FRAMES, rest).shape[1] == rest + 50
    for start, expected in ((features.frames - 2950, 3000), (features.frames - 2951, 2951)):
        assert features.followed(start, features.frames - start).shape[1] == expected
    np.testing.assert_array_equal(features.followed(100, 200), features.window(100, 200))


# --- nothing is heard in it -------------------------------------------------------------------------------------------


def test_words_in_the_hush_word_are_left_out() -> None:
    def timing(text: str, tokens: tuple[int, ...], start: int, end: int) -> WordTiming:
        return WordTiming(text, tokens, start, end, 0.5)

    timings = [timing(" a", (1,), 0, 90), timing(" b", (2, 3), 90, 120), timing(" c", (4,), 100, 130)]
    segments = [TimedSegment(0, 90, (99, 1, 99)), TimedSegment(90, 130, (99, 2, 3, 4, 99))]
    kept, shorter = within(timings, segments, 100, eot=50)
    assert [(word.text, word.end) for word in kept] == [(" a", 90), (" b", 100)]
    assert [segment.tokens for segment in shorter] == [(99, 1, 99), (99, 2, 3, 99)]
    assert within(timings, segments, 200, eot=50) == (timings, segments)
    assert [segment.tokens for segment in within(timings, segments, 0, eot=50)[1]] == [(99, 99), (99, 99)]


@pytest.mark.parametrize("kind", slow_but(["whole", "single"], "single"))
def test_speech_in_the_suffix_is_not_emitted(model: WhisperModel, kind: str) -> None:
    """The worst hush word there can be: it speaks."""
    clip = load_audio(CLIPS / "winter.flac")
    count = len(clip) // 2 // 320 * 320
    speech, suffix = clip[:count], clip[count : count + 5 * SAMPLE_RATE]
    hearing = WholeWindow() if kind == "whole" else SinglePass()
    executor = SerialExecutor(RoundResources(model, BARE, suffix))
    plan = RoundPlan(0, Span(32_000, 32_000 + count), hearing, is_last=True)
    result: Any = executor.run(plan, speech, GREEDY).heard
    whole: Any = (
        SerialExecutor(RoundResources(model, BARE))
        .run(RoundPlan(0, Span(0, len(clip)), hearing, is_last=True), clip, GREEDY)
        .heard
    )
    assert 0 < len(result.words) < len(whole.words)
    assert all(plan.window.start <= word.start < word.end <= plan.window.end for word in result.words)
    said = [getattr(word, "word", word).text for word in result.words]
    assert model.tokenizer.decode(result.tokens).split() == [text for word in said for text in word.split()]


@pytest.mark.parametrize("word_timestamps", slow_but([True, False], True))
def test_offline_neither_with_word_times_nor_without(model: WhisperModel, word_timestamps: bool) -> None:
    clip = load_audio(CLIPS / "winter.flac")
    count = len(clip) // 2 // 320 * 320
    transcriber = Transcriber(model, hush=HushWord(clip[count : count + 5 * SAMPLE_RATE], model.content_hash))
    options = replace(GREEDY, word_timestamps=word_timestamps)
    half, whole = (
        [
            word
            for segment in transcriber.transcribe_segments(audio, framing=framing, options=options)
            for word in segment.text.split()
        ]
        for audio, framing in ((clip[:count], "hush"), (clip, "bare"))
    )
    assert 0 < len(half) <= 0.7 * len(whole)


def test_those_of_the_bundled_model_are_its_own(model: WhisperModel) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for length in (0.25, 0.5, 1.0):
            samples = suffix_for(model, length)
            assert len(samples) == round(length * SAMPLE_RATE)


@pytest.mark.parametrize("count", slow_but([1, 159, 160, 320, 1000, 4801, N_SAMPLES - 100, N_SAMPLES], 1, 160, 4801))
def test_windows_of_any_length_are_no_error(model: WhisperModel, count: int) -> None:
    audio = noise(count, 0.01)
    executor = SerialExecutor(RoundResources(model, BARE, noise()))
    for hearing in (WholeWindow(), SinglePass(max_tokens=3)):
        plan = RoundPlan(0, Span(0, count), hearing, is_last=True)
        result = executor.run(plan, audio, DecodeOptions(temperatures=(0.0,), max_tokens=3))
        heard: Any = result.heard
        assert heard is None or all(word.end <= count for word in heard.words)


def test_a_whole_recording_may_be_framed_so(model: WhisperModel, clip: FloatArray) -> None:
    word = HushWord(noise(level=0.01), model.content_hash)
    transcriber = Transcriber(model, hush=word)
    segments = list(transcriber.transcribe_segments(clip, framing="hush", options=GREEDY))
    assert segments
    assert all(word.end <= len(clip) for segment in segments for word in segment.words)
    with pytest.raises(OptionError, match="hush; got 'silence'"):
        transcriber.transcribe_segments(clip, framing="silence")


# --- streams ----------------------------------------------------------------------------------------------------------


def streamed(session: Session, audio: FloatArray, sizes: list[int]) -> list[Event]:
    events: list[Event] = []
    at = 0
    while at < len(audio):
        for size in sizes:
            events += session.push(audio[at : at + size])
            at += size
    return events + session.finish()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["whisper-streaming", "tide"])
def test_confirmed_text_is_append_only_and_does_not_depend_on_portions(
    model: WhisperModel, clip: FloatArray, name: str
) -> None:
    recipe = parse_overrides(get_recipe(name), ["framing=hush", "search=greedy"])
    executor = make_executor(model, recipe, hush=HushWord(noise(level=0.05), model.content_hash))
    rounds = tuple(range(SAMPLE_RATE, len(clip), SAMPLE_RATE))

    def run(sizes: list[int]) -> tuple[Word, ...]:
        session = Session(recipe, executor, options=GREEDY, schedule=Recorded(rounds))
        events = streamed(session, clip, sizes)
        confirmations = [event.words for event in events if isinstance(event, Confirmed)]
        assert tuple(word for words in confirmations for word in words) == tuple(session.transcript.words)
        return tuple(session.transcript.words)

    transcript = run([len(clip)])
    assert transcript
    assert all(word.end <= len(clip) for word in transcript)
    assert all(a.start <= b.start for a, b in pairwise(transcript))

    @settings(max_examples=3)
    @given(sizes=st.lists(st.integers(3_000, 40_000), min_size=1, max_size=5))
    def chunked(sizes: list[int]) -> None:
        assert run(sizes) == transcript

    chunked()


def test_the_report_is_plain_data(tmp_path: Path) -> None:
    HushWord(noise(), "", {"a": (1, 2)}).save(tmp_path / "x.npz")
    assert json.loads(json.dumps(dict(HushWord.load(tmp_path / "x.npz").report))) == {"a": [1, 2]}
