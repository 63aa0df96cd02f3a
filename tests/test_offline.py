"""Long-form transcription by the bundled model, against openai-whisper's `transcribe` on the same weights."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import CLIPS, believe_as_openai, nano, openai_model, openai_timing
from scripted_model import telling
from slow_rows import slow_but
from whispertide.audio.file import load_audio
from whispertide.decoding import longform
from whispertide.decoding.voice import Voice
from whispertide.errors import AudioError, UnknownLanguageError
from whispertide.features import Features, log_mel
from whispertide.offline import Heard, hear, transcribe_blocks, transcribe_heard
from whispertide.options import DecodeOptions
from whispertide.types import HOP_LENGTH, N_FRAMES, N_SAMPLES, SAMPLE_RATE, FloatArray, OfflineSegment, Span

AS_OPENAI: dict[str, Any] = {"suppress_tokens": (-1,), "temperatures": (0.0,)}


@cache
def long_recording() -> FloatArray:
    """71 s of several voices: four windows, one of which begins after a word instead of a timestamp."""
    by_name = {path.stem: load_audio(path) for path in CLIPS}
    return np.concatenate([by_name["river"], by_name["long"]])


def beginning(seconds: int | None = 40) -> FloatArray:
    """Of that; 40 s are two windows."""
    return long_recording()[: None if seconds is None else seconds * SAMPLE_RATE]


@cache
def short_recording() -> FloatArray:
    """One window."""
    return load_audio(next(path for path in CLIPS if path.stem == "river"))


def transcript(samples: FloatArray, **options: Any) -> list[OfflineSegment]:
    extra = {name: options.pop(name) for name in ("progress", "vad") if name in options}
    return list(transcribe_blocks(nano(), [samples], DecodeOptions(**{**AS_OPENAI, **options}), **extra))


def openai_transcript(recording: FloatArray, **options: Any) -> Any:
    import whisper

    openai_timing()
    return whisper.transcribe(openai_model(), recording, fp16=False, language="en", temperature=0.0, **options)


@cache
def ours_with_progress(words: bool) -> tuple[list[OfflineSegment], list[tuple[int, int]]]:
    calls: list[tuple[int, int]] = []
    return transcript(long_recording(), word_timestamps=words, progress=lambda *call: calls.append(call)), calls


def ours_in_full(words: bool) -> list[OfflineSegment]:
    return ours_with_progress(words)[0]


class TestAgainstOpenAI:
    @pytest.fixture(autouse=True)
    def as_the_original(self, monkeypatch: pytest.MonkeyPatch) -> None:
        believe_as_openai(monkeypatch)

    @pytest.mark.slow
    @pytest.mark.parametrize(("words", "prompt", "seconds"), [(True, "", None), (False, "A quiet house.", 40)])
    def test_text_segments_and_words_are_the_same(self, words: bool, prompt: str, seconds: int | None) -> None:
        recording = beginning(seconds)
        options: dict[str, Any] = {"word_timestamps": words, "initial_prompt": prompt or None}
        # as nano.en's generation config says
        transcribed = openai_transcript(recording, condition_on_previous_text=False, **options)
        theirs = [each for each in transcribed["segments"] if each["text"].strip()]
        ours = transcript(recording, word_timestamps=words, prompt=prompt, vad=False)
        assert "".join(each.text for each in ours) == transcribed["text"]
        assert [list(each.tokens) for each in ours] == [each["tokens"] for each in theirs]
        assert ours[-1].span.end > N_SAMPLES
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.span.start / SAMPLE_RATE == pytest.approx(other["start"], abs=0.0201)
            end = min(other["end"], len(recording) / SAMPLE_RATE)
            assert mine.span.end / SAMPLE_RATE == pytest.approx(end, abs=0.0201)
            assert mine.avg_logprob == pytest.approx(other["avg_logprob"], abs=1e-4)
            assert mine.no_speech_prob == pytest.approx(other["no_speech_prob"], abs=1e-6)
            assert mine.window // HOP_LENGTH == other["seek"]
            assert mine.compression_ratio == other["compression_ratio"]
            for word, their_word in zip(mine.words, other.get("words", ()), strict=True):
                assert word.text == their_word["word"]
                assert word.start / SAMPLE_RATE == pytest.approx(their_word["start"], abs=0.0201)
                assert word.end / SAMPLE_RATE == pytest.approx(their_word["end"], abs=0.0201)
                assert word.probability == pytest.approx(their_word["probability"], abs=1e-3)

    @pytest.mark.slow
    def test_text_before_has_the_same_effect(self) -> None:
        recording = beginning()
        options = {"condition_on_previous_text": True, "word_timestamps": False}
        theirs = openai_transcript(recording, **options)
        assert "".join(each.text for each in transcript(recording, vad=False, **options)) == theirs["text"]


class TestCutSentences:
    @pytest.mark.slow
    def test_fewer_words_are_lost_than_by_the_original(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The sentences of a recording that its windows cut."""
        path = next(path for path in CLIPS if path.stem == "long")
        recording, said = load_audio(path), set(path.with_suffix(".txt").read_text().lower().split())

        def found() -> int:
            # Without the gate, which hears again what is left out wherever it is.
            text = "".join(each.text for each in transcript(recording, word_timestamps=False, vad=False))
            return len(said & set(text.lower().split()))

        ours = found()
        monkeypatch.setattr(longform, "CUT_SENTENCE", range(0))
        assert ours > found()


class TestSilenceBeforeSpeech:
    """The bundled model calls a window silent that begins with some seconds of silence."""

    @pytest.mark.slow
    @pytest.mark.parametrize("lead_s", [6, pytest.param(47, marks=pytest.mark.soak)])
    def test_no_sentence_is_lost(self, lead_s: int) -> None:
        said = short_recording()
        quiet = np.random.RandomState(0).standard_normal(lead_s * SAMPLE_RATE).astype(np.float32) * np.float32(1e-4)
        alone, after = transcript(said), transcript(np.concatenate([quiet, said]))
        assert [segment.text.split()[-1] for segment in after] == [segment.text.split()[-1] for segment in alone]
        assert after[0].span.start >= lead_s * SAMPLE_RATE - SAMPLE_RATE // 2

    @pytest.mark.slow
    @pytest.mark.parametrize("pause_s", [8, pytest.param(14, marks=pytest.mark.soak)])
    def test_nor_after_a_long_pause(self, pause_s: int) -> None:
        said = short_recording()
        once = transcript(said)
        twice = transcript(np.concatenate([said, np.zeros(pause_s * SAMPLE_RATE, np.float32), said]))
        assert [segment.text for segment in twice[: len(once)]] == [segment.text for segment in once]
        assert [segment.text.split()[-1] for segment in twice] == [segment.text.split()[-1] for segment in once] * 2

    @pytest.mark.slow
    @pytest.mark.parametrize("lead_s", [pytest.param(4, marks=pytest.mark.soak), 7])
    def test_word_times_rise(self, lead_s: int) -> None:
        """The model closes a text there long before its last word."""
        demo = load_audio(CLIPS[0])
        recording = np.concatenate([np.zeros(lead_s * SAMPLE_RATE, np.float32), demo])
        segments = transcribe_blocks(nano(), [recording], DecodeOptions())
        words = [word for segment in segments for word in segment.words]
        assert all(before.end <= after.start for before, after in pairwise(words))
        texts = [word.text.strip(" .").lower() for word in words]
        assert not any(before == after for before, after in pairwise(texts))

    @pytest.mark.slow
    def test_without_a_gate_the_model_is_believed(self) -> None:
        samples = np.concatenate([np.zeros(8 * SAMPLE_RATE, np.float32), short_recording()])
        features = Features.of([samples], nano().dims.n_mels)
        taken = longform.Transcription(nano(), features, DecodeOptions(**AS_OPENAI), "en", seek=0, end=features.frames)
        assert not taken.next_window()
        assert taken.done


class TestSegments:
    @pytest.mark.slow
    def test_are_numbered_and_inside_the_recording(self) -> None:
        segments = ours_in_full(True)
        assert [each.id for each in segments] == list(range(len(segments)))
        for each in segments:
            assert 0 <= each.span.start < each.span.end <= len(long_recording())
            assert each.text.strip()
            assert "".join(word.text for word in each.words) == each.text
            assert each.language == "en"

    @pytest.mark.slow
    def test_come_as_their_window_is_done(self) -> None:
        windows: list[int] = []
        running = transcribe_blocks(
            nano(), [long_recording()], DecodeOptions(**AS_OPENAI), progress=lambda done, _: windows.append(done)
        )
        first = next(running)
        assert first.id == 0
        assert windows == []  # the next window is not decoded before it is asked for
        assert next(running).id == 1

    @pytest.mark.slow
    def test_progress_rises_to_the_whole(self) -> None:
        _, calls = ours_with_progress(True)
        whole = len(long_recording()) // HOP_LENGTH * HOP_LENGTH
        assert [done for done, _ in calls] == sorted({done for done, _ in calls})
        assert calls[-1] == (whole, whole)
        assert len(calls) >= 3

    @pytest.mark.parametrize("count", [0, 1, HOP_LENGTH - 1])
    def test_no_audio_gives_nothing(self, count: int) -> None:
        assert transcript(np.zeros(count, np.float32)) == []

    @pytest.mark.slow
    def test_very_short_audio_is_no_error(self) -> None:
        for count in (HOP_LENGTH, 3 * HOP_LENGTH, 1000):
            for each in transcript(long_recording()[:count]):
                assert each.span.end <= count

    def test_an_unknown_language_is_refused(self) -> None:
        with pytest.raises(UnknownLanguageError):
            transcript(short_recording(), language="de")


class TestVoiceGate:
    """What nobody says gets no words, and no window either."""

    @pytest.mark.parametrize("kind", slow_but(["silence", "faint noise", "hum", "clicks"], "clicks"))
    def test_without_a_voice_nothing_is_heard(self, kind: str) -> None:
        rng, time = np.random.default_rng(3), np.arange(31 * SAMPLE_RATE) / SAMPLE_RATE  # more than a window
        sounds = {
            "silence": 0 * time,
            "faint noise": 3e-4 * rng.standard_normal(len(time)),
            "hum": 0.1 * np.sin(2 * np.pi * 100 * time),
            "clicks": 0.5 * (rng.random(len(time)) < 1e-4),
        }
        done: list[tuple[int, int]] = []
        model: Any = SimpleNamespace(dims=nano().dims)  # it cannot encode
        options = DecodeOptions(language="en")
        samples = sounds[kind].astype(np.float32)
        assert list(transcribe_blocks(model, [samples], options, progress=lambda *call: done.append(call))) == []
        assert done == [(len(time), len(time))]

    def test_in_less_than_a_second_the_model_is_believed(self) -> None:
        """A gate wants more to tell a single word."""
        with pytest.raises(AttributeError):
            list(transcribe_blocks(SimpleNamespace(dims=nano().dims), [np.zeros(9_000, np.float32)], DecodeOptions()))  # type: ignore[arg-type]

    @pytest.mark.slow
    def test_a_quieter_voice_at_the_end_is_heard(self) -> None:
        """25 dB quieter."""
        by_name = {path.stem: load_audio(path) for path in CLIPS}
        first, second = short_recording(), np.float32(10 ** (-25 / 20)) * by_name["long"][: 6 * SAMPLE_RATE]
        alone = transcript(first)
        both = transcript(np.concatenate([first, np.zeros(SAMPLE_RATE // 2, np.float32), second]))
        assert both[-1].span.end > len(first) + 4 * SAMPLE_RATE
        assert len(both) > len(alone)


@pytest.mark.parametrize(("begins_s", "from_s"), [(40, 39.6), (2, 0)])
def test_the_language_is_that_of_the_first_speech(begins_s: int, from_s: float) -> None:
    """Not of the half minute of silence before it, which sounds like any; a short pause changes nothing."""
    noise = np.random.RandomState(0).standard_normal(4 * SAMPLE_RATE).astype(np.float32)
    features = Features.of([np.zeros(begins_s * SAMPLE_RATE, np.float32), noise], 80)
    model = telling([], language="de")
    heard = Heard(features, Voice((Span(begins_s * SAMPLE_RATE, features.samples),)))
    assert list(transcribe_heard(model, heard, DecodeOptions())) == []  # type: ignore[arg-type]
    np.testing.assert_array_equal(model.mels[0], features.opening(round(from_s * SAMPLE_RATE / HOP_LENGTH)))


class TestFeatures:
    def test_are_those_of_the_whole_recording(self) -> None:
        samples = long_recording()[: 40 * SAMPLE_RATE]
        whole = log_mel(samples, padding=N_SAMPLES)
        features = Features.of([samples], 80)
        assert features.frames == len(samples) // HOP_LENGTH
        np.testing.assert_allclose(features.window(500, N_FRAMES), whole[:, 500:3500], atol=1e-5)
        np.testing.assert_allclose(features.opening(), whole[:, :N_FRAMES], atol=1e-5)

    def test_the_opening_of_a_short_recording_ends_in_silence(self) -> None:
        samples = long_recording()[:16000]
        expected = log_mel(samples, padding=N_SAMPLES)[:, :N_FRAMES]
        np.testing.assert_allclose(Features.of([samples], 80).opening(), expected, atol=1e-5)

    @settings(max_examples=15)
    @given(st.lists(st.integers(0, 20_000), max_size=6))
    def test_do_not_depend_on_the_blocks(self, cuts: list[int]) -> None:
        samples = long_recording()[:20_000]
        bounds = [0, *sorted(cuts), len(samples)]
        blocks = [samples[start:stop] for start, stop in pairwise(bounds)]
        whole, parts = Features.of([samples], 80), Features.of(blocks, 80)
        assert parts.samples == whole.samples
        np.testing.assert_array_equal(parts.raw, whole.raw)


def test_what_is_to_last_prompts_the_first_window_as_a_prompt_does() -> None:
    heard, options = hear(80, [short_recording()], vad=False), DecodeOptions(**AS_OPENAI)
    prompted = list(transcribe_heard(nano(), heard, replace(options, prompt="A quiet house.")))
    assert list(transcribe_heard(nano(), heard, options, lasting=" A quiet house. ")) == prompted
    assert list(transcribe_heard(nano(), heard, options)) != prompted


@pytest.mark.slow
def test_blocks_and_samples_give_the_same() -> None:
    samples = long_recording()[: 12 * SAMPLE_RATE]
    options = DecodeOptions(**AS_OPENAI)
    blocks = (samples[start : start + 7777] for start in range(0, len(samples), 7777))
    by_blocks = list(transcribe_blocks(nano(), blocks, options))
    assert by_blocks == list(transcribe_blocks(nano(), [samples], options))
    assert by_blocks


def advances(samples: FloatArray, **options: Any) -> list[float]:
    """Seconds by which each window moved on."""
    ends = [0]
    transcript(samples, progress=lambda done, _: ends.append(done), **options)
    return [(after - before) / SAMPLE_RATE for before, after in pairwise(ends)]


class TestHardAudio:
    @pytest.mark.slow
    def test_silence_is_passed_in_few_windows_and_gives_nothing(self) -> None:
        silence = np.zeros(70 * SAMPLE_RATE, np.float32)
        assert transcript(silence) == []
        assert len(advances(silence)) == 1
        assert transcript(silence, vad=False) == []
        assert len(advances(silence, vad=False)) == 3

    @pytest.mark.slow
    def test_noise_cannot_hold_it_up(self) -> None:
        noise = np.random.default_rng(0).normal(0, 0.05, 20 * SAMPLE_RATE).astype(np.float32)
        steps = advances(noise, vad=False)
        assert all(before >= 1 or after >= 1 for before, after in pairwise(steps[:-1]))

    def test_undefined_samples_are_refused(self) -> None:
        samples = long_recording()[:SAMPLE_RATE].copy()
        samples[700] = np.nan
        with pytest.raises(AudioError, match="undefined"):
            transcript(samples)
