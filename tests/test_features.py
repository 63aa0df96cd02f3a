"""Log-mel against openai-whisper (<= 1e-5), and chunked against whole: equal to the bit."""

import tempfile
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide import features
from whispertide.audio.file import load_audio
from whispertide.errors import AudioError, OutputError
from whispertide.features import (
    RAW_SILENCE,
    Columns,
    Features,
    MelStream,
    log_mel,
    mel_filters,
    normalise,
    padded,
    raw_columns,
    raw_log_mel,
)
from whispertide.types import HOP_LENGTH, N_FRAMES, N_SAMPLES, SAMPLE_RATE, FloatArray

TOLERANCE = 1e-5


def sweep(length: int, seed: int = 0) -> FloatArray:
    """A rising tone in noise with a slow swell, as loud as speech."""
    time = np.arange(length) / SAMPLE_RATE
    noise = np.random.default_rng(seed).standard_normal(length)
    signal = 0.3 * np.sin(2 * np.pi * (100 + 300 * time) * time) * np.sin(time) + 0.01 * noise
    return signal.astype(np.float32)


@pytest.fixture(scope="module")
def speech() -> FloatArray:
    from importlib.resources import as_file, files

    with as_file(files("whispertide") / "bundled" / "audio" / "demo.flac") as path:
        return load_audio(path)


@pytest.mark.slow
@pytest.mark.parametrize("n_mels", [80, 128])
@pytest.mark.parametrize("padding", [0, N_SAMPLES])
def test_equals_openai_whisper(speech: FloatArray, n_mels: int, padding: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """openai-whisper's own code is run in fp64: at fp32 torch's transform is up to 6e-5 off in the quietest cells."""
    import torch
    import whisper

    filters, window = whisper.audio.mel_filters, torch.hann_window
    for samples in (speech, sweep(3 * SAMPLE_RATE + 77), np.zeros(SAMPLE_RATE, np.float32)):
        single = whisper.log_mel_spectrogram(samples, n_mels, padding=padding).numpy()
        with monkeypatch.context() as patch:
            patch.setattr(whisper.audio, "mel_filters", lambda *a: filters(*a).double())
            patch.setattr(torch, "hann_window", lambda length: window(length, dtype=torch.float64))
            double = whisper.log_mel_spectrogram(torch.from_numpy(samples).double(), n_mels, padding=padding).numpy()
        ours = log_mel(samples, n_mels, padding)
        assert ours.shape == double.shape
        assert np.abs(ours - double).max() <= TOLERANCE
        assert np.abs(ours - single).max() <= 10 * TOLERANCE
        assert (np.abs(ours - single) <= TOLERANCE).mean() > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("n_mels", [80, 128])
def test_filters_equal_openai_whispers(n_mels: int) -> None:
    import whisper

    expected = whisper.audio.mel_filters("cpu", n_mels).numpy()
    np.testing.assert_allclose(mel_filters(n_mels), expected, atol=1e-7)


def test_the_window_decides_the_floor() -> None:
    quiet, loud = sweep(SAMPLE_RATE), sweep(SAMPLE_RATE) * 30
    raw = raw_log_mel(quiet, 80)
    alone, next_to_loud = normalise(raw), normalise(raw, float(raw_log_mel(loud, 80).max()))
    assert next_to_loud.min() > alone.min()


@pytest.mark.parametrize("gain", [1.0, 1e-3, 1e-6, 0.0], ids=str)
def test_padding_is_the_silence_that_follows_the_audio(gain: float) -> None:
    """All but the two frames that still see audio are those of zeros behind the samples."""
    samples = sweep(SAMPLE_RATE) * np.float32(gain)
    followed = log_mel(samples, 80, padding=SAMPLE_RATE)
    ours = padded(log_mel(samples, 80), 200)
    assert ours.shape == followed.shape
    np.testing.assert_allclose(ours[:, 102:], followed[:, 102:], atol=1e-6)
    assert padded(ours[:, :0], 10).max() < 0


@given(
    st.lists(st.integers(1, 900), min_size=1, max_size=60),
    st.integers(0, 3),
    st.sampled_from([80, 128]),
)
def test_chunked_equals_whole(chunks: list[int], seed: int, n_mels: int) -> None:
    total = sum(chunks)
    samples = sweep(total, seed)
    stream = MelStream(n_mels)
    position = 0
    for chunk in chunks:
        stream.extend(samples[position : position + chunk])
        position += chunk
    count = (total + HOP_LENGTH // 2) // HOP_LENGTH + 1  # the last ones reach beyond the audio
    np.testing.assert_array_equal(stream.window(0, count), raw_log_mel(samples, n_mels, N_SAMPLES)[:, :count])


def test_cached_frames_do_not_change_as_audio_arrives() -> None:
    samples = sweep(2 * SAMPLE_RATE)
    stream = MelStream(80)
    stream.extend(samples[:SAMPLE_RATE])
    kept = stream.complete_end
    before = stream.window(0, kept)
    stream.extend(samples[SAMPLE_RATE:])
    np.testing.assert_array_equal(stream.window(0, kept), before)


def test_a_stream_counts_its_frames_and_does_not_look_at_them_again() -> None:
    class Unread(list[FloatArray]):
        def __iter__(self) -> Iterator[FloatArray]:
            raise AssertionError("however long a stream is, its next frames cost the same")

    stream, samples = MelStream(80), sweep(SAMPLE_RATE)
    stream._raw = Unread()
    for at in range(0, SAMPLE_RATE, 1600):
        stream.extend(samples[at : at + 1600])
    number, after = stream.followed_by(sweep(800))
    assert stream.complete_end == number == 99
    assert after.shape[1] == 6
    stream._raw = list[FloatArray]([stream._raw[at] for at in range(len(stream._raw))])
    assert sum(part.shape[1] for part in stream._raw) == stream.complete_end


def test_the_frames_of_a_recording_are_copied_once() -> None:
    stream = MelStream(80)
    stream.extend(sweep(20 * SAMPLE_RATE))
    stream.window(0, 1)  # what is computed once and kept does not count
    tracemalloc.start()
    try:
        whole = stream.window(0, 2000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert whole.shape == (80, 2000)
    assert peak < 1.5 * whole.nbytes


def test_a_window_beyond_the_audio_is_silent() -> None:
    stream = MelStream(80)
    stream.extend(sweep(SAMPLE_RATE))
    window = stream.window(0, N_FRAMES)
    assert window.shape == (80, N_FRAMES)
    assert (window[:, 103:] == RAW_SILENCE).all()
    assert (MelStream(80).window(0, 10) == RAW_SILENCE).all()


@given(length=st.integers(0, 4000), first=st.integers(0, 12), count=st.integers(1, 20), seed=st.integers(0, 99))
def test_columns_of_a_stretch_are_those_of_the_stream(length: int, first: int, count: int, seed: int) -> None:
    samples = np.random.default_rng(seed).standard_normal(length).astype(np.float32)
    stream = MelStream(80)
    stream.extend(samples)
    stream.extend(np.zeros(8000, np.float32))
    assert np.array_equal(raw_columns(samples, 80, first, count), stream.window(first, count))


@given(
    windows=st.lists(st.tuples(st.integers(-3, 12), st.integers(0, 9000), st.booleans()), min_size=1, max_size=8),
    seed=st.integers(0, 99),
)
def test_windows_that_share_audio_equal_windows_alone(windows: list[tuple[int, int, bool]], seed: int) -> None:
    """Each begins some encoder frames after the one before (or before it), and may have silence appended."""
    recording = np.random.default_rng(seed).standard_normal(48_000).astype(np.float32)
    known, start = Columns.none(80), 0
    for ahead, length, silent_end in windows:
        start = max(0, start + ahead * 320)
        heard = recording[start : start + length]
        window = np.concatenate([heard, np.zeros(1600 * silent_end, np.float32)])
        raw = known.window(window, start // HOP_LENGTH, len(heard))
        assert np.array_equal(raw, raw_columns(window, 80, 0, len(window) // HOP_LENGTH))
        known = Columns.of_window(raw, start // HOP_LENGTH, len(heard))


def test_what_is_known_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    samples, computed = sweep(2 * SAMPLE_RATE), []
    whole = raw_columns(samples, 80, 0, 200)

    def counted(samples: FloatArray, n_mels: int, first: int, count: int) -> FloatArray:
        computed.append(count)
        return raw_columns(samples, n_mels, first, count)

    known = Columns.of_window(whole[:, :100], 0, SAMPLE_RATE)
    monkeypatch.setattr(features, "raw_columns", counted)
    assert np.array_equal(known.window(samples, 0, len(samples)), whole)
    assert computed == [2, 101], "the mirrored beginning, and what sees audio that is new"


@given(st.integers(0, 60_000), st.lists(st.integers(1, 9000), max_size=12), st.integers(0, 400), st.integers(1, 100))
def test_a_long_recording_is_the_same_in_a_file(length: int, cuts: list[int], start: int, count: int) -> None:
    """Whatever blocks it comes in: every window of it, its opening, and what a hush word makes of its end."""
    samples, hush = sweep(length), sweep(3200, seed=1)
    edges = [0, *sorted(cut for cut in cuts if cut < length), length]
    blocks = [samples[begin:end] for begin, end in pairwise(edges)]
    whole = Features.of([samples], 80, hush)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "MOST_KEPT", 20)
        pieces = Features.of(blocks, 80, hush)
    assert (pieces.frames, pieces.peak, pieces.samples) == (whole.frames, whole.peak, whole.samples)
    for one, other in (
        (pieces.window(start, count), whole.window(start, count)),
        (pieces.followed(start, whole.frames - start), whole.followed(start, whole.frames - start)),
        (pieces.opening(), whole.opening()),
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of all arrays at once, while a recording is read and after that; a minute of frames is 1.9 MB."""
    monkeypatch.setattr(features, "MOST_KEPT", 1000)
    second = sweep(SAMPLE_RATE)
    used = []
    for minutes in (1, 3):
        tracemalloc.start()
        found = Features.of((second for _ in range(60 * minutes)), 80)
        used.append(tracemalloc.get_traced_memory())
        tracemalloc.stop()
        assert found.frames == 6000 * minutes
    assert used[1][0] - used[0][0] < 100_000
    assert used[1][1] - used[0][1] < 100_000


@pytest.mark.parametrize("at", [0, 50_000])
def test_a_sample_that_is_no_number_is_refused_in_a_long_recording(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    monkeypatch.setattr(features, "MOST_KEPT", 20)
    samples = sweep(60_000)
    samples[at] = np.nan
    with pytest.raises(AudioError, match="undefined"):
        Features.of([samples[:30_000], samples[30_000:]], 80)


def test_a_long_recording_that_finds_no_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(features, "MOST_KEPT", 20)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(OutputError, match=r"temporary folder cannot be written: .*TMPDIR"):
        Features.of([sweep(60_000)], 80)


def test_features_with_something_after_the_recording() -> None:
    quiet = np.zeros(SAMPLE_RATE, np.float32)
    plain, hushed = Features.of([quiet], 80), Features.of([quiet], 80, np.ones(1600, np.float32))
    assert (plain.frames, plain.samples, hushed.frames, hushed.samples) == (100, SAMPLE_RATE, 100, SAMPLE_RATE)
    assert plain.followed(0, 100).shape == (80, 100)
    assert hushed.followed(0, 100).shape == (80, 110)
    assert hushed.followed(20, 80).shape == (80, 90)
    assert hushed.followed(0, 99).shape == (80, 99)
    assert plain.opening().shape == (80, 3000)
    full = Features.of([np.zeros(30 * SAMPLE_RATE - 1600, np.float32)], 80, np.ones(1600, np.float32))
    assert full.followed(0, full.frames).shape == (80, 3000)  # just fits
    fuller = Features.of([np.zeros(30 * SAMPLE_RATE - 1440, np.float32)], 80, np.ones(1600, np.float32))
    assert fuller.followed(0, fuller.frames).shape == (80, fuller.frames)
    rng = np.random.default_rng(1)
    loud = Features.of(
        [np.concatenate([rng.normal(0, 0.2, SAMPLE_RATE), np.zeros(SAMPLE_RATE)]).astype(np.float32)], 80
    )
    assert loud.window(150, 50).max() < loud.window(0, 100).max() - 1.5  # the floor is that of the whole recording
    np.testing.assert_array_equal(loud.window(0, 200)[:, 150:], loud.window(150, 50))
    np.testing.assert_array_equal(loud.opening()[:, :200], loud.window(0, 200))
    assert loud.opening()[:, 2000:].max() == loud.window(150, 50).min()
    assert HOP_LENGTH * plain.frames == plain.samples
