import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.sounds import tone
from whispertide.audio.pcm import SAMPLE_FORMATS, PcmDecoder, to_float, to_int16
from whispertide.errors import OptionError
from whispertide.types import SAMPLE_RATE, FloatArray

TYPES = {"u8": "u1", "s16le": "<i2", "s32le": "<i4", "f32le": "<f4"}


def decode(data: bytes, cuts: list[int], rate: int, channels: int, sample_format: str) -> FloatArray:
    decoder = PcmDecoder(rate, channels=channels, sample_format=sample_format)
    edges = [0, *sorted(cuts), len(data)]
    parts = [decoder.feed(data[a:b]) for a, b in itertools.pairwise(edges)]
    return np.concatenate([*parts, decoder.flush()])


@pytest.mark.parametrize(
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


@settings(max_examples=40, deadline=None)
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
    assert len(decoder.feed(b"\0" * 7)) == 1
    assert decoder.leftover == 3
    assert len(decoder.feed(b"\0")) == 1
    assert decoder.leftover == 0


def test_floats_that_are_no_numbers_are_counted() -> None:
    decoder = PcmDecoder(SAMPLE_RATE, sample_format="f32le")
    out = decoder.feed(np.array([0.5, np.nan, -np.inf], "<f4").tobytes())
    assert out.tolist() == [0.5, 0.0, 0.0]
    assert decoder.replaced == 2


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(OptionError, match="u8, s16le, s32le, f32le; got 'mp3'"):
        PcmDecoder(SAMPLE_RATE, sample_format="mp3")
