"""Where somebody speaks, and what that says of a window's text."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from whispertide.decoding.voice import AROUND, LEAD, PAUSE, REST, UNHEARD, Voice
from whispertide.types import SAMPLE_RATE, Span, Word

_LENGTHS = st.lists(st.integers(1, 4 * SAMPLE_RATE), min_size=2, max_size=12)
SECOND = SAMPLE_RATE


def voice(*spoken: tuple[float, float]) -> Voice:
    return Voice(tuple(Span(round(start * SECOND), round(end * SECOND)) for start, end in spoken))


@st.composite
def voices(draw: st.DrawFn) -> Voice:
    """Pauses and speech in turn."""
    edges = list(accumulate(draw(_LENGTHS)))
    return Voice(tuple(map(Span, edges[::2], edges[1::2])))


@given(voices(), st.integers(0, 60 * SECOND), st.integers(0, 60 * SECOND))
def test_the_parts_between_two_samples_are_what_is_spoken_there(spoken: Voice, start: int, end: int) -> None:
    parts = list(spoken.within(start, end))
    assert all(start <= part.start < part.end <= end for part in parts)
    whole = sum(max(0, min(span.end, end) - max(span.start, start)) for span in spoken.spans)
    assert spoken.amount(start, end) == sum(map(len, parts)) == whole


@given(voices(), st.integers(0, 60 * SECOND))
def test_nothing_but_pauses_and_the_ends_of_words_is_passed_over(spoken: Voice, sample: int) -> None:
    start = spoken.next_start(sample)
    if start is None:
        assert spoken.amount(sample, 1_000 * SECOND) < REST
    else:
        assert start == sample or start - sample > PAUSE
        assert spoken.amount(sample, start) < REST
        assert spoken.amount(start, 1_000 * SECOND) > 0


@given(voices(), st.integers(0, 30 * SECOND), st.integers(1, 30 * SECOND))
def test_a_window_ends_in_a_pause_or_where_it_has_to(spoken: Voice, start: int, length: int) -> None:
    end = spoken.end_before_pause(start, start + length)
    assert start < end <= start + length
    if end < start + length:
        assert spoken.amount(end, min(end + PAUSE - AROUND, start + length)) == 0


def test_a_window_goes_on_over_a_short_pause() -> None:
    spoken = voice((1, 3), (5, 7), (9.5, 12))
    assert spoken.end_before_pause(0, 30 * SECOND) == 7 * SECOND + AROUND
    assert spoken.end_before_pause(0, 8 * SECOND) == 8 * SECOND
    assert spoken.next_start(7 * SECOND) == round(9.5 * SECOND) - AROUND


@given(voices(), st.integers(1, 9 * SECOND), st.integers(0, 30 * SECOND), st.integers(1, 30 * SECOND))
def test_a_pause_comes_after_so_much_voice(spoken: Voice, least: int, start: int, length: int) -> None:
    end = start + length
    pause = spoken.pause_after(least, start, end)
    if pause is None:
        *before, _ = [*spoken.within(start, end), Span(end, end)]
        assert sum(map(len, before[:-1])) < least
    else:
        assert start < pause < end
        assert spoken.amount(start, pause) >= least
        assert spoken.amount(pause, end) > 0
        assert not any(span.start < pause < span.end for span in spoken.spans)


def test_speech_without_a_word_is_found_before_between_and_not_after_the_words() -> None:
    spoken = voice((0, 10))
    second = Span(4 * SECOND, 5 * SECOND)
    assert spoken.unheard([second], 0) == Span(0, 4 * SECOND)
    assert spoken.unheard([second], 4 * SECOND - UNHEARD + 1) is None
    assert spoken.unheard([second, Span(8 * SECOND, 9 * SECOND)], 3 * SECOND) == Span(5 * SECOND, 8 * SECOND)
    assert voice((0, 5), (8, 10)).unheard([second, Span(8 * SECOND, 9 * SECOND)], 3 * SECOND) is None


def test_words_next_to_speech_may_have_been_said() -> None:
    spoken = voice((4, 5))
    assert spoken.is_spoken(Span(5 * SECOND + AROUND - 1, 7 * SECOND))
    assert not spoken.is_spoken(Span(5 * SECOND + AROUND, 7 * SECOND))


def test_what_is_shown_of_a_recording_is_without_long_pauses() -> None:
    voice = Voice((Span(5 * SAMPLE_RATE, 6 * SAMPLE_RATE), Span(7 * SAMPLE_RATE, 8 * SAMPLE_RATE)))
    assert voice.shown(8 * SAMPLE_RATE) == 3 * SAMPLE_RATE + AROUND
    assert voice.shown(20 * SAMPLE_RATE) == 3 * SAMPLE_RATE + 2 * AROUND
    assert Voice(()).shown(SAMPLE_RATE) == 0


def test_a_word_that_lasts_from_a_pause_into_speech_begins_with_that() -> None:
    """A gate is right to a tenth of a second; what else lies in a pause is no word's beginning."""
    spoken = voice((2, 4), (6, 8))
    words = {
        (1.6, 2.5): 1.9,  # the first of a window, which begins before somebody speaks
        (1.95, 2.5): 1.95,
        (2.5, 3.0): 2.5,
        (3.95, 6.3): 5.9,  # it took the pause before it
        (3.5, 6.3): 3.5,  # it took the pause after it
        (4.5, 5.0): 4.5,  # nothing is known of it
    }
    begun = spoken.begun([Word(" a", round(start * SECOND), round(end * SECOND)) for start, end in words])
    assert [word.start_s for word in begun] == list(words.values())
    assert [word.end_s for word in begun] == [end for _, end in words]
    assert LEAD == SECOND // 10
