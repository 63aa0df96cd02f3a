"""Where a window that was heard whole is cut."""

from whispertide.methods.agreement.whole_window import HeardSegment, segment_cut
from whispertide.types import SAMPLE_RATE, Span

S = SAMPLE_RATE


def segments(*ends: float) -> list[HeardSegment]:
    return [HeardSegment(Span(0, round(end * S)), ()) for end in ends]


def test_the_cut_is_at_the_end_of_the_last_segment_but_one() -> None:
    assert segment_cut(segments(4, 9, 14), last_time=10 * S) == 9 * S
    assert segment_cut(segments(4, 9), last_time=10 * S) == 4 * S
    assert segment_cut(segments(4, 9, 14), last_time=9 * S) == 9 * S


def test_segments_that_end_after_the_confirmed_words_are_passed_over() -> None:
    assert segment_cut(segments(4, 9, 14), last_time=8 * S) == 4 * S
    assert segment_cut(segments(4, 9, 11, 14), last_time=5 * S) == 4 * S


def test_there_is_no_segment_to_cut_at() -> None:
    assert segment_cut(segments(), last_time=S) is None
    assert segment_cut(segments(4), last_time=10 * S) is None
    assert segment_cut(segments(4, 9), last_time=3 * S) is None
    assert segment_cut(segments(4, 9, 14), last_time=3 * S) is None
