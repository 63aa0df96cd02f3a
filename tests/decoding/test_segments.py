from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from whispertide.decoding.segments import Segmentation, TimedSegment, split_segments
from whispertide.types import FRAME_SAMPLES

BEGIN = 100
DURATION = 1000 * FRAME_SAMPLES


def at(frame: int) -> int:
    return BEGIN + frame


def cut(*tokens: int) -> Segmentation:
    return split_segments(tokens, BEGIN, DURATION)


def spans(segmentation: Segmentation) -> list[tuple[int, int]]:
    return [(each.start // FRAME_SAMPLES, each.end // FRAME_SAMPLES) for each in segmentation.segments]


def test_pairs_of_timestamps_cut_and_the_rest_is_left_for_the_next_window() -> None:
    found = cut(at(0), 1, 2, at(50), at(60), 3, at(90), at(90), 4)
    assert spans(found) == [(0, 50), (60, 90)]
    assert [each.tokens for each in found.segments] == [(at(0), 1, 2, at(50)), (at(60), 3, at(90))]
    assert found.consumed == 90 * FRAME_SAMPLES
    assert found.ends_in_speech


def test_a_single_timestamp_at_the_end_closes_the_window() -> None:
    found = cut(at(0), 1, at(50), at(60), 3, at(90))
    assert spans(found) == [(0, 50), (60, 90)]
    assert found.consumed == DURATION
    assert not found.ends_in_speech


def test_the_segments_before_one_leave_it_for_the_next_window() -> None:
    found = cut(at(0), 1, at(50), at(60), 3, at(90)).before(1)
    assert spans(found) == [(0, 50)]
    assert found.consumed == 60 * FRAME_SAMPLES
    assert found.ends_in_speech


def test_a_pair_at_the_very_start_closes_an_empty_segment() -> None:
    """The first timestamp of the window counts as one."""
    found = cut(at(0), at(0), 1, at(50), at(50), 2)
    assert [each.tokens for each in found.segments] == [(at(0),), (at(0), 1, at(50))]
    assert spans(found) == [(0, 0), (0, 50)]


def test_one_segment_alone_ends_at_its_timestamp() -> None:
    found = cut(at(2), 1, 2, at(50))
    assert spans(found) == [(0, 50)]
    assert found.consumed == DURATION
    assert not found.ends_in_speech


def test_without_an_end_the_window_is_one_segment() -> None:
    for tokens in [(1, 2, 3), (at(0), 1, 2), (at(40), 1, 2), ()]:
        found = cut(*tokens)
        assert found.segments == (TimedSegment(0, DURATION, tokens),)
        assert found.consumed == DURATION
        assert found.ends_in_speech


def test_shifting_keeps_the_tokens() -> None:
    assert TimedSegment(0, 10, (1,)).shifted(5) == TimedSegment(5, 15, (1,))


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 30)), min_size=1, max_size=8), st.booleans())
def test_closed_segments_keep_all_tokens_in_order(pieces: list[tuple[int, int]], closed: bool) -> None:
    tokens: list[int] = []
    clock = 0
    for pause, length in pieces:
        start, clock = clock + pause, clock + pause + length
        tokens += [at(start), 7, at(clock)]
    if not closed:
        tokens.append(at(clock))
    found = cut(*tokens)
    assert [token for each in found.segments for token in each.tokens] == tokens[: None if closed else -1]
    assert all(before.end <= after.start for before, after in pairwise(found.segments))
    assert found.consumed == (DURATION if closed else clock * FRAME_SAMPLES)
