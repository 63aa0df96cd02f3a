"""Raw PCM, from pipes and in any portions."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoded_audio import check_tone, collect, pipe
from sounds import tone
from whispertide.audio.file import pcm_blocks
from whispertide.errors import AudioError, TruncatedAudioError
from whispertide.types import SAMPLE_RATE


@given(
    sizes=st.lists(st.integers(1, 700), max_size=30),
    rate=st.sampled_from([8_000, 16_000, 44_100]),
    block=st.sampled_from([1, 160, 5000]),
)
def test_pcm_in_any_portions_and_blocks(sizes: list[int], rate: int, block: int) -> None:
    data = np.round(tone(0.2, rate) * 32767).astype("<i2").tobytes()
    whole = np.concatenate(list(pcm_blocks(pipe(data), rate)))
    blocks = list(pcm_blocks(pipe(data, sizes), rate, block=block))
    assert {len(item) for item in blocks[:-1]} <= {block}
    assert np.array_equal(np.concatenate(blocks), whole)
    assert len(whole) == pytest.approx(0.2 * SAMPLE_RATE, abs=1)


def test_pcm_of_two_float_channels() -> None:
    stereo = np.stack([tone(0.5), np.zeros(8000, np.float32)], axis=1)
    blocks = pcm_blocks(pipe(stereo.astype("<f4").tobytes()), SAMPLE_RATE, channels=2, sample_format="f32le")
    check_tone(np.concatenate(list(blocks)), 0.5, level=0.25)


def test_pcm_gives_what_has_arrived_without_waiting_for_more() -> None:
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as reader, open(write_end, "wb", buffering=0) as writer:
        blocks = pcm_blocks(reader, SAMPLE_RATE, block=100)
        writer.write(bytes(200))
        assert len(next(blocks)) == 100  # and the writer is still there
        writer.write(bytes(402))
        assert [len(next(blocks)) for _ in range(2)] == [100, 100]
        writer.close()
        assert [len(block) for block in blocks] == [1]


def test_pcm_that_ends_inside_a_sample_is_an_error_after_everything_whole() -> None:
    data = np.round(tone(0.1) * 32767).astype("<i2").tobytes()
    samples, error = collect(pcm_blocks(pipe(data + b"\7"), SAMPLE_RATE, block=1000))
    assert len(samples) == 1600
    assert isinstance(error, TruncatedAudioError)
    assert "expected a multiple of 2 bytes (1 x s16le), got 1 more" in str(error)


def test_pcm_that_ends_inside_its_first_sample_is_no_audio() -> None:
    samples, error = collect(pcm_blocks(pipe(b"\7"), SAMPLE_RATE))
    assert len(samples) == 0
    assert isinstance(error, AudioError)
    assert not isinstance(error, TruncatedAudioError)


def test_pcm_of_nothing_is_nothing() -> None:
    assert list(pcm_blocks(pipe(b""), 8_000)) == []


def test_pcm_floats_that_are_no_numbers_are_reported() -> None:
    data = np.array([0.5, np.nan, 0.25], "<f4").tobytes()
    with pytest.warns(UserWarning, match="1 samples were not numbers"):
        samples, _ = collect(pcm_blocks(pipe(data), SAMPLE_RATE, sample_format="f32le"))
    assert samples.tolist() == [0.5, 0.0, 0.25]
