import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.audio.buffer import AudioBuffer
from whispertide.errors import AudioError
from whispertide.types import FloatArray


def ramp(start: int, end: int) -> FloatArray:
    return np.arange(start, end, dtype=np.float32)


@given(
    start=st.integers(0, 10**6),
    steps=st.lists(st.tuples(st.integers(0, 30_000), st.floats(0, 1)), max_size=25),
)
def test_samples_keep_their_absolute_index(start: int, steps: list[tuple[int, float]]) -> None:
    buffer = AudioBuffer(start)
    for size, share in steps:
        buffer.append(ramp(buffer.end, buffer.end + size))
        buffer.drop_before(buffer.start + int(share * len(buffer)))
        assert np.array_equal(buffer.read(buffer.start, buffer.end), ramp(buffer.start, buffer.end))
    assert buffer.end == start + sum(size for size, _ in steps)
    assert len(buffer) == buffer.end - buffer.start


def test_reading_outside_says_what_is_there() -> None:
    buffer = AudioBuffer(100)
    buffer.append(ramp(100, 200))
    buffer.drop_before(120)
    for start, end in [(119, 130), (190, 201), (150, 140), (-1, 3)]:
        with pytest.raises(AudioError, match=rf"kept audio 120\.\.200; got {start}\.\.{end}"):
            buffer.read(start, end)
    assert len(buffer.read(120, 120)) == 0


def test_dropping_what_is_gone_does_nothing_and_what_never_came_fails() -> None:
    buffer = AudioBuffer()
    buffer.append(ramp(0, 10))
    buffer.drop_before(5)
    buffer.drop_before(3)
    assert (buffer.start, buffer.end) == (5, 10)
    with pytest.raises(AudioError, match="got 11"):
        buffer.drop_before(11)
    buffer.drop_before(10)
    assert (buffer.start, buffer.end, len(buffer)) == (10, 10, 0)


def test_memory_follows_the_kept_span() -> None:
    buffer = AudioBuffer()
    for _ in range(300):  # five minutes in, ten seconds kept
        buffer.append(np.ones(16_000, np.float32))
        buffer.drop_before(buffer.end - min(len(buffer), 160_000))
        assert buffer._data.nbytes <= 4 * 4 * 176_000
    buffer.append(np.ones(10**6, np.float32))
    buffer.drop_before(buffer.end)
    assert buffer._data.nbytes <= 4 * 16_000


def test_appending_is_amortised() -> None:
    buffer = AudioBuffer()
    arrays = set()
    for _ in range(10_000):
        buffer.append(np.zeros(160, np.float32))
        arrays.add(id(buffer._data))
    assert len(arrays) <= 12


def test_a_copy_is_independent_and_reads_are_copies() -> None:
    buffer = AudioBuffer()
    buffer.append(ramp(0, 10))
    read = buffer.read(0, 10)
    copy = buffer.copy()
    read[:] = -1
    buffer.append(ramp(10, 20))
    buffer.drop_before(8)
    assert (copy.start, copy.end) == (0, 10)
    assert np.array_equal(copy.read(0, 10), ramp(0, 10))
    copy.append(np.full(5, 7, np.float32))
    assert np.array_equal(buffer.read(8, 20), ramp(8, 20))


def test_clear_starts_anew_elsewhere() -> None:
    buffer = AudioBuffer()
    buffer.append(ramp(0, 100_000))
    buffer.clear(500)
    assert (buffer.start, buffer.end) == (500, 500)
    buffer.append(ramp(500, 510))
    assert np.array_equal(buffer.read(500, 510), ramp(500, 510))


def test_a_copy_holds_what_is_kept_and_an_empty_buffer_nothing() -> None:
    """Servers write them down after every round."""
    buffer = AudioBuffer()
    buffer.append(ramp(0, 100_000))
    buffer.drop_before(99_000)
    assert 4_000 <= len(pickle.dumps(buffer.copy())) < 5_000
    assert len(pickle.dumps(AudioBuffer(start=99_000))) < 1_000


def test_the_newest_can_be_taken_back() -> None:
    buffer = AudioBuffer(100)
    buffer.append(ramp(100, 200))
    buffer.drop_before(120)
    buffer.drop_after(150)
    buffer.append(ramp(150, 160))
    assert np.array_equal(buffer.read(120, 160), ramp(120, 160))
    for sample in (119, 161):
        with pytest.raises(AudioError, match=rf"120\.\.160 on; got {sample}"):
            buffer.drop_after(sample)
    buffer.drop_after(120)
    assert (buffer.start, buffer.end, len(buffer)) == (120, 120, 0)
