import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.audio.timeline import Timeline


def test_a_gap_is_filled_once() -> None:
    line = Timeline()
    assert [line.advance(stamp, 0.5) for stamp in (0.0, 0.5, 3.0, 3.5)] == pytest.approx([0, 0, 2.0, 0])
    assert line.at_s == pytest.approx(4.0)


def test_audio_after_the_beginning_of_the_picture() -> None:
    assert Timeline(begin_s=1.4).advance(8.4, 0.02) == pytest.approx(7.0)


def test_without_stamps_there_are_no_gaps() -> None:
    line = Timeline(begin_s=3.0)
    assert [line.advance(None, 0.5) for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("jump", [-3.0, 26.5 * 3600])
def test_a_clock_that_was_set_anew_is_followed_from_there(jump: float) -> None:
    """The stamps of MPEG-TS wrap; joined files begin again at 0."""
    line = Timeline()
    stamps = [0.0, 1.0, 2.0, 3.0, 4.0 + jump, 5.0 + jump, 8.0 + jump]
    assert [line.advance(stamp, 1.0) for stamp in stamps] == pytest.approx([0, 0, 0, 0, 0, 0, 2.0])


def test_audio_that_begins_a_little_after_the_picture_keeps_its_distance() -> None:
    """No rounding is in it: the beginning of the recording is the earliest stamp itself."""
    line = Timeline(begin_s=1.4)
    assert [line.advance(stamp, 0.02) for stamp in (1.46, 1.48, 1.5)] == pytest.approx([0.06, 0, 0])


@given(st.lists(st.floats(-0.04, 0.04), min_size=1, max_size=50))
def test_rounded_stamps_leave_no_gaps(errors: list[float]) -> None:
    line = Timeline(begin_s=errors[0])
    gaps = [line.advance(0.02 * number + error, 0.02) for number, error in enumerate(errors)]
    assert gaps == [0.0] * len(errors)
