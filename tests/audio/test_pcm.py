import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from sounds import frequency, loudness, tone
from whispertide.audio.buffer import sanitize, to_float
from whispertide.audio.pcm import SAMPLE_FORMATS, PcmDecoder, StreamingResampler, to_int16
from whispertide.errors import OptionError
from whispertide.types import SAMPLE_RATE, FloatArray

TYPES = {"u8": "u1", "s16le": "<i2", "s32le": "<i4", "f32le": "<f4"}


def decode(data: bytes, cuts: list[int], rate: int, channels: int, sample_format: str) -> FloatArray:
    decoder = PcmDecoder(rate, channels=channels, sample_format=sample_format)
    edges = [0, *sorted(cuts), len(data)]
    parts = [decoder.feed(data[a:b]) for a, b in itertools.pairwise(edges)]
    return np.concatenate([*parts, decoder.flush()])


@each_row(
    ("values", "expected"),
    [
        (np.array([0, 64, 128, 255], "u1"), [-1, -0.5, 0, 127 / 128]),
        (np.array([-32768, -16384, 0, 32767], "<i2"), [-1, -0.5, 0, 32767 / 32768]),
        (np.array([-(2**31), 0, 2**30], "<i4"), [-1, 0, 0.5]),
        (np.array([-(2**63), 2**62], "<i8"), [-1, 0.5]),
        (np.array([-1.5, 0.25], "<f4"), [-1.5, 0.25]),
        (np.array([-1.5, 0.25], "<f8"), [-1.5, 0.25]),
    ],
)
def test_full_scale_is_one(values: np.ndarray, expected: list[float]) -> None:
    samples = to_float(values)
    assert samples.dtype == np.float32
    assert samples.tolist() == pytest.approx(expected)


def test_sixteen_bits_round_half_to_even_and_clip() -> None:
    values = np.array([-3.0, -1.0, -1.5 / 32768, 0.5 / 32768, 2.5 / 32768, 32766.6 / 32768, 32767.4 / 32768, 1.0, 3.0])
    found = to_int16(values.astype(np.float32))
    assert found.dtype == np.int16
    assert found.tolist() == [-32768, -32768, -2, 0, 2, 32767, 32767, 32767, 32767]


def test_sixteen_bits_survive_the_way_to_float_and_back() -> None:
    values = np.arange(-32768, 32768).astype(np.int16)
    assert np.array_equal(to_int16(to_float(values)), values)


@pytest.mark.parametrize("sample_format", SAMPLE_FORMATS)
def test_every_format_decodes(sample_format: str) -> None:
    kind = np.dtype(TYPES[sample_format])
    samples = tone(0.2)
    if kind.kind == "f":
        data = samples.astype(kind)
    else:
        data = np.round(samples * (2.0 ** (8 * kind.itemsize - 1) - 1) + (128 if kind.kind == "u" else 0)).astype(kind)
    out = decode(data.tobytes(), [], SAMPLE_RATE, 1, sample_format)
    assert np.abs(out - samples).max() < (0.01 if kind.itemsize == 1 else 1e-4)


@given(
    data=st.binary(max_size=2000),
    cuts=st.lists(st.integers(0, 2000), max_size=20),
    rate=st.sampled_from([8_000, 16_000, 48_000]),
    channels=st.integers(1, 3),
    sample_format=st.sampled_from(["u8", "s16le", "s32le"]),
)
def test_portions_do_not_change_the_result(
    data: bytes, cuts: list[int], rate: int, channels: int, sample_format: str
) -> None:
    split = decode(data, cuts, rate, channels, sample_format)
    assert np.array_equal(split, decode(data, [], rate, channels, sample_format))


def test_bytes_of_an_unfinished_sample_are_left_over() -> None:
    decoder = PcmDecoder(SAMPLE_RATE, channels=2)
    assert decoder.bytes_per_frame == 4
    got = [decoder.feed(b"\0" * 7)]
    assert decoder.leftover == 3
    got.append(decoder.feed(b"\0"))
    assert decoder.leftover == 0
    assert len(np.concatenate([*got, decoder.flush()])) == 2


def test_floats_that_are_no_numbers_are_counted() -> None:
    decoder = PcmDecoder(SAMPLE_RATE, sample_format="f32le")
    out = decoder.feed(np.array([0.5, np.nan, -np.inf], "<f4").tobytes())
    assert out.tolist() == [0.5, 0.0, 0.0]
    assert decoder.replaced == 2


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(OptionError, match="u8, s16le, s32le, f32le; got 'mp3'"):
        PcmDecoder(SAMPLE_RATE, sample_format="mp3")


def resample(samples: FloatArray, rate: int, channels: int, cuts: list[int] | None = None) -> FloatArray:
    resampler = StreamingResampler(rate, channels)
    parts = [resampler.push(part) for part in np.split(samples, sorted(cuts or []))]
    return np.concatenate([*parts, resampler.flush()])


@each_row("rate", [1_000, 8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000, 192_000, 768_000])
def test_keeps_length_pitch_and_level(rate: int) -> None:
    out = resample(tone(2.0, rate, 220.0), rate, 1)
    assert abs(len(out) - 2 * SAMPLE_RATE) <= 1
    assert frequency(out) == pytest.approx(220.0, abs=1.0)
    assert loudness(out[1000:-1000]) == pytest.approx(0.5 / np.sqrt(2), rel=0.01)


def test_output_is_aligned_with_the_input() -> None:
    out = resample(tone(1.0, 48_000, 300.0), 48_000, 1)
    expected = tone(1.0, SAMPLE_RATE, 300.0)
    assert np.abs(out[800:-800] - expected[800:-800]).max() < 1e-3


def test_removes_what_lies_above_the_new_band() -> None:
    out = resample(tone(1.0, 48_000, 12_000.0), 48_000, 1)
    assert loudness(out[1000:-1000]) < 1e-4


@given(
    rate=st.sampled_from([8_000, 11_025, 16_000, 44_100, 48_000, 192_000]),
    channels=st.integers(1, 3),
    cuts=st.lists(st.integers(0, 3000), max_size=12),
    seed=st.integers(0, 99),
)
def test_portions_do_not_change_what_is_resampled(rate: int, channels: int, cuts: list[int], seed: int) -> None:
    samples = np.random.default_rng(seed).standard_normal((3000, channels)).astype(np.float32)
    assert np.array_equal(resample(samples, rate, channels, cuts), resample(samples, rate, channels))


def test_sixteen_kilohertz_passes_through_unchanged() -> None:
    samples = tone(0.3) * 3  # beyond full scale: kept
    resampler = StreamingResampler(SAMPLE_RATE)
    assert np.array_equal(resampler.push(samples), samples)
    assert len(resampler.flush()) == 0


def test_channels_are_mixed_by_their_mean() -> None:
    stereo = np.stack([tone(0.1), -tone(0.1, freq=880)], axis=1)
    assert np.allclose(resample(stereo, SAMPLE_RATE, 2), (stereo[:, 0] + stereo[:, 1]) / 2)


@pytest.mark.parametrize("residue", [0.0, 0.02])
def test_channels_of_opposite_phase_do_not_cancel(residue: float) -> None:
    voice = tone(0.5, 44_100)
    resampler = StreamingResampler(44_100, 2)
    out = np.concatenate([resampler.push(np.stack([voice, (residue - 1) * voice], axis=1)), resampler.flush()])
    assert loudness(out[500:-500]) == pytest.approx(0.5 / np.sqrt(2), rel=0.01)
    assert resampler.cancelled_s == pytest.approx(0.5)


@pytest.mark.parametrize("hum", [0.0, 0.01], ids=["hiss", "hiss and hum"])
def test_a_channel_that_is_turned_round_stays_so(hum: float) -> None:
    """Two microphones, one with its poles swapped: words that get quieter, hiss of their own, and hum in both."""
    dice = np.random.default_rng(1)
    voice = tone(2.0) * np.tile(np.linspace(1, 0.1, 3200, dtype=np.float32), 10)
    hiss = dice.normal(0, 0.005, (len(voice), 2)).astype(np.float32)
    stereo = np.stack([voice, -voice], axis=1) + hiss + hum * tone(2.0, freq=50)[:, None]
    heard = resample(stereo, SAMPLE_RATE, 2, [1_000, 7_777])
    assert np.corrcoef(heard, voice)[0, 1] > 0.99
    assert loudness(heard) == pytest.approx(loudness(voice), rel=0.02)


def test_what_runs_along_again_is_turned_back() -> None:
    voice = tone(1.0)
    signs = np.repeat([1, -1, 1], [5_000, 6_000, 5_000]).astype(np.float32)
    heard = resample(np.stack([voice, voice * signs], axis=1), SAMPLE_RATE, 2)
    assert np.allclose(heard[5_120:10_880], voice[5_120:10_880])
    assert np.allclose(heard[11_200:], voice[11_200:])


def test_what_cancels_out_all_the_same_is_taken_from_the_loudest_channel() -> None:
    voice = tone(0.5)
    heard = resample(np.stack([voice, voice, -2 * voice], axis=1), SAMPLE_RATE, 3)
    assert loudness(heard) == pytest.approx(2 * loudness(voice), rel=0.01)


@given(channels=st.integers(2, 8), level=st.floats(0.01, 1.0), noise=st.floats(0, 0.001), seed=st.integers(0, 9))
def test_a_voice_on_one_of_several_channels_is_not_taken_for_a_cancelled_one(
    channels: int, level: float, noise: float, seed: int
) -> None:
    sound = np.random.default_rng(seed).normal(0, noise, (4_000, channels)).astype(np.float32)
    sound[:, seed % channels] += tone(0.25, level=level)
    resampler = StreamingResampler(SAMPLE_RATE, channels)
    out = np.concatenate([resampler.push(sound), resampler.flush()])
    assert resampler.cancelled_s == 0
    assert np.allclose(out, sound.mean(axis=1), atol=1e-6)


def test_the_opposite_phase_of_noise_too_faint_to_hear_is_left_alone() -> None:
    hiss = np.full((4_000, 2), [5e-4, -5e-4], np.float32)
    resampler = StreamingResampler(SAMPLE_RATE, 2)
    assert not np.concatenate([resampler.push(hiss), resampler.flush()]).any()
    assert resampler.cancelled_s == 0


@pytest.mark.parametrize("rate", [0, -16_000, 999, 768_001])
def test_impossible_rates_are_refused(rate: int) -> None:
    with pytest.raises(OptionError, match=f"sample rate between 1000 and 768000 Hz; got {rate}"):
        StreamingResampler(rate)


@pytest.mark.parametrize("channels", [0, -1, 65])
def test_impossible_channel_counts_are_refused(channels: int) -> None:
    with pytest.raises(OptionError, match="channels"):
        StreamingResampler(48_000, channels)


@pytest.mark.parametrize("shape", [(10, 3), (10,), (10, 2, 1), ()])
def test_a_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(OptionError, match=r"shape \[n, 2\]"):
        StreamingResampler(48_000, 2).push(np.zeros(shape, np.float32))


def test_sanitize_replaces_and_counts_what_is_no_number() -> None:
    bad = np.array([[0.5, np.nan], [np.inf, -np.inf], [-2.0, 1e30]], np.float32)
    clean, replaced = sanitize(bad)
    assert replaced == 4
    assert clean.tolist() == [[0.5, 0.0], [0.0, 0.0], [-2.0, 0.0]]
    assert np.isnan(bad[0, 1])  # the caller's array is untouched


def test_sanitize_leaves_good_samples_alone() -> None:
    good = np.array([1.5, -1.5, 0.0], np.float32)
    assert sanitize(good) == (good, 0)
    assert sanitize(good)[0] is good
    assert sanitize(good[:0])[1] == 0


def test_one_bad_sample_does_not_spoil_its_neighbours() -> None:
    samples = tone(0.5, 48_000)
    samples[12_000] = np.nan
    resampler = StreamingResampler(48_000)
    out = np.concatenate([resampler.push(samples), resampler.flush()])
    assert resampler.replaced == 1
    assert np.isfinite(out).all()
    assert np.abs(out[:3500] - resample(tone(0.5, 48_000), 48_000, 1)[:3500]).max() < 1e-3


def test_channels_that_are_kept_apart_are_resampled_as_if_alone() -> None:
    sound = np.stack([tone(0.3, 44_100), tone(0.3, 44_100, 880)], axis=1)
    sound[5, 1] = np.nan
    together = PcmDecoder(44_100, channels=2, sample_format="f32le", apart=True)
    data = sound.astype("<f4").tobytes()
    found = np.concatenate([together.feed(data[:999]), together.feed(data[999:]), together.flush()])
    for number in (0, 1):
        alone = PcmDecoder(44_100, sample_format="f32le")
        expected = np.concatenate([alone.feed(sound[:, number].astype("<f4").tobytes()), alone.flush()])
        assert np.array_equal(found[:, number], expected)
    assert (together.replaced, together.cancelled_s) == (1, 0)
