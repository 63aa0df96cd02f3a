"""Frames in a temporary file are read as those of an array are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.spooled_frames import SpooledFrames
from whispertide.types import FloatArray

ALL = np.random.default_rng(0).standard_normal((4, 40)).astype(np.float32)


def spooled(*parts: FloatArray) -> SpooledFrames:
    frames = SpooledFrames(4)
    for part in parts:
        frames.append(part)
    return frames


@given(
    cuts=st.lists(st.integers(0, 40), max_size=4).map(sorted),
    start=st.none() | st.integers(-50, 50),
    stop=st.none() | st.integers(-50, 50),
)
def test_any_portions_and_any_slice_are_those_of_an_array(cuts: list[int], start: int | None, stop: int | None) -> None:
    frames = spooled(*np.split(ALL, cuts, axis=1))
    assert (frames.shape, frames.peak) == (ALL.shape, ALL.max())
    np.testing.assert_array_equal(frames[:, start:stop], ALL[:, start:stop])
    np.testing.assert_array_equal(frames[1:3, start:stop], ALL[1:3, start:stop])


def test_what_is_read_is_a_copy_and_more_may_follow() -> None:
    frames = spooled(ALL[:, :10])
    first = frames[:, :10]
    first[:] = 0
    frames.append(ALL[:, 10:])
    np.testing.assert_array_equal(frames[:, :], ALL)


def test_the_peak_of_nothing_is_below_everything_and_one_that_is_no_number_is_none() -> None:
    assert SpooledFrames(4).peak == -np.inf
    assert np.isnan(spooled(ALL, np.full((4, 1), np.nan, np.float32), ALL).peak)


def test_the_file_is_closed_with_the_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = spooled(ALL)
    file = frames._file
    del frames
    assert file.closed
