"""Whisper's repairs of word times: by hand, and at random against openai-whisper."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from reference import openai_timing
from whispertide.decoding import word_repairs
from whispertide.decoding.segments import TimedSegment
from whispertide.decoding.word_repairs import (
    SpokenSegment,
    in_order,
    place_words,
    shorten_at_sentence_ends,
    typical_duration,
    within,
)
from whispertide.types import FRAME_SAMPLES, HOP_LENGTH, SAMPLE_RATE, Word, to_samples
from word_timing import timing

EOT = 1000


class TestDurations:
    def test_the_typical_word_is_the_median_of_those_that_last(self) -> None:
        words = [timing(" a", 0, 4), timing(" b", 4, 4), timing(" c", 4, 10)]
        assert typical_duration(words) == 5 * FRAME_SAMPLES
        assert typical_duration([]) == 0

    def test_it_is_bounded(self) -> None:
        assert typical_duration([timing(" a", 0, 100)]) == to_samples(0.7)

    def test_no_lingering_next_to_the_end_of_a_sentence(self) -> None:
        longest = 10 * FRAME_SAMPLES
        words = [timing(" a", 0, 5), timing(".", 5, 50), timing(" b", 50, 90), timing(" c", 90, 150)]
        shortened = shorten_at_sentence_ends(words, longest)
        assert [(each.start // FRAME_SAMPLES, each.end // FRAME_SAMPLES) for each in shortened] == [
            (0, 5),
            (5, 15),
            (80, 90),
            (90, 150),
        ]


def place_at(words: Any, segments: Any, offset: int, last: int, nudges: tuple[int, int, int]) -> list[SpokenSegment]:
    """`place_words`, offset and last in mel frames, with its three thresholds moved by `nudges` samples."""
    shortened, tolerance = word_repairs._shortened_after_pause, word_repairs.SEGMENT_TOLERANCE
    everywhere, in_segments, after_pause = nudges

    def nudged(words: list[Word], typical: int, last_speech: int) -> list[Word]:
        return shortened(words, max(typical + after_pause, 0), last_speech)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_repairs, "typical_duration", lambda timings: typical_duration(timings) + everywhere)
        patch.setattr(word_repairs, "SEGMENT_TOLERANCE", tolerance + in_segments)
        patch.setattr(word_repairs, "_shortened_after_pause", nudged)
        return place_words(words, segments, eot=EOT, offset=offset * HOP_LENGTH, last_speech=last * HOP_LENGTH)


NUDGES = [(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]


def same_times(left: list[SpokenSegment], right: list[SpokenSegment], within: int) -> bool:
    def times(placed: list[SpokenSegment]) -> list[int]:
        segments = [time for each in placed for time in (each.span.start, each.span.end)]
        return segments + [time for each in placed for word in each.words for time in (word.start, word.end)]

    return all(abs(mine - other) <= within for mine, other in zip(times(left), times(right), strict=True))


class TestPlaceWords:
    def test_words_go_to_the_segment_of_their_tokens(self) -> None:
        segments = [TimedSegment(0, 6400, (EOT + 1, 1, 2, EOT + 20)), TimedSegment(6400, 12800, (3,))]
        words = [timing(" a", 0, 10, (1, 2)), timing(" b", 22, 35, (3,))]
        placed = place_words(words, segments, eot=EOT, offset=16000, last_speech=16000)
        assert [[word.text for word in each.words] for each in placed] == [[" a"], [" b"]]
        assert placed[0].words[0] == Word(" a", 16000, 16000 + 3200, 0.5)
        assert placed[0].span.start == 16000
        assert placed[1].span.end == placed[1].words[-1].end == 16000 + 35 * FRAME_SAMPLES

    def test_a_segment_without_words_keeps_its_times(self) -> None:
        placed = place_words([], [TimedSegment(320, 640, ())], eot=EOT, offset=160)
        assert (placed[0].span.start, placed[0].span.end, placed[0].words) == (480, 800, ())

    @pytest.mark.slow
    @quick(50)
    @given(data=st.data())
    def test_equals_openai_whisper(self, data: st.DataObject) -> None:
        theirs = openai_timing()
        texts = [" so", " it", "'s", ".", ",", ' "', " (", "!", " goes", "?"]
        clock, words = 0, []
        for text in data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=14)):
            start = clock
            clock += data.draw(st.sampled_from([0, 3, 8, 15, 16, 40, 90, 200]))
            size = data.draw(st.integers(1, 2))
            words.append(timing(text, start, clock, tuple(range(size))))
        segments, left, offset = [], list(words), data.draw(st.integers(0, 5000))
        while left:
            count = data.draw(st.integers(1, len(left)))
            part, left = left[:count], left[count:]
            begin = data.draw(st.integers(0, 1400))
            end = begin + data.draw(st.integers(0, 300))
            tokens = (EOT + 1, *(token for word in part for token in word.tokens), EOT + 2)
            segments.append(TimedSegment(begin * FRAME_SAMPLES, end * FRAME_SAMPLES, tokens))
        last = data.draw(st.integers(0, 3000))

        ours, *nearly = (place_at(words, segments, offset, last, nudges) for nudges in NUDGES)
        # Where a comparison is a tie, the original decides by the rounding noise of its float seconds.
        assume(all(same_times(ours, each, within=8) for each in nearly))
        as_dicts: Any = [
            {
                "seek": offset,
                "start": (offset * HOP_LENGTH + each.start) / SAMPLE_RATE,
                "end": (offset * HOP_LENGTH + each.end) / SAMPLE_RATE,
                "tokens": list(each.tokens),
            }
            for each in segments
        ]
        alignment = [
            theirs.WordTiming(
                each.text, list(each.tokens), each.start / SAMPLE_RATE, each.end / SAMPLE_RATE, each.probability
            )
            for each in words
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(theirs, "find_alignment", lambda *args, **kwargs: alignment)
            theirs.add_word_timestamps(
                segments=as_dicts,
                model=None,
                tokenizer=SimpleNamespace(eot=EOT),
                mel=None,
                num_frames=3000,
                last_speech_timestamp=last / 100,
            )
        for mine, other in zip(ours, as_dicts, strict=True):
            assert [word.text for word in mine.words] == [word["word"] for word in other["words"]]
            mine_times = [time for word in mine.words for time in (word.start, word.end)]
            other_times = [time for word in other["words"] for time in (word["start"], word["end"])]
            np.testing.assert_allclose(np.array(mine_times) / SAMPLE_RATE, other_times, atol=0.0051)
            assert mine.span.start / SAMPLE_RATE == pytest.approx(other["start"], abs=0.0051)
            assert mine.span.end / SAMPLE_RATE == pytest.approx(max(other["end"], other["start"]), abs=0.0051)


# --- repairs, by hand: times in encoder frames ------------------------------------------------------------------------

Times = tuple[float, float]


def repaired(
    words: list[Times], segment: Times, *, offset: int = 0, last_speech: float = 0
) -> tuple[Times, list[Times]]:
    """Times of a segment and its words after the repairs."""
    timings = [timing(f" {place}", int(start), int(end), (place,)) for place, (start, end) in enumerate(words)]
    start, end = (round(time * FRAME_SAMPLES) for time in segment)
    (placed,) = place_words(
        timings,
        [TimedSegment(start, end, tuple(range(len(words))))],
        eot=EOT,
        offset=offset * FRAME_SAMPLES,
        last_speech=round(last_speech * FRAME_SAMPLES),
    )
    times = [(word.start / FRAME_SAMPLES, word.end / FRAME_SAMPLES) for word in placed.words]
    return (placed.span.start / FRAME_SAMPLES, placed.span.end / FRAME_SAMPLES), times


def after(end: int, count: int = 3) -> list[Times]:
    """Some words of the typical ten frames."""
    return [(end + 10 * place, end + 10 * place + 10) for place in range(count)]


class TestRepairs:
    @each_row(
        ("words", "last_speech", "expected"),
        [
            ([(0, 50)], 0, [(30, 50)]),
            ([(0, 50)], 9.9, [(30, 50)]),
            ([(0, 50)], 10, [(0, 50)]),  # speech was less than four words ago
            ([(30, 50)], 0, [(30, 50)]),  # two words long
            ([(29, 50)], 0, [(30, 50)]),
            ([(100, 110), (110, 141)], 0, [(101, 121), (121, 141)]),
            ([(100, 110), (110, 140)], 0, [(100, 110), (110, 140)]),  # four words long together
            ([(100, 121), (121, 141)], 0, [(101, 121), (121, 141)]),
            ([(100, 122), (122, 143)], 0, [(103, 123), (123, 143)]),
        ],
    )
    def test_after_a_pause_the_first_two_words_are_no_longer_than_two(
        self, words: list[Times], last_speech: float, expected: list[Times]
    ) -> None:
        end = int(words[-1][1])
        everything = [*words, *after(end, 5)]
        span, times = repaired(everything, (words[0][0], end + 50), last_speech=last_speech)
        assert times == [*expected, *after(end, 5)]
        assert span == (expected[0][0], end + 50)

    def test_a_lone_word_after_a_pause(self) -> None:
        assert repaired([(0, 200)], (0, 200)) == ((130, 200), [(130, 200)])
        assert repaired([(200, 210), (210, 360)], (200, 360)) == ((220, 360), [(220, 290), (290, 360)])

    @each_row(
        ("start", "span", "word"),
        [(36, 36, 36), (35, 10, 10), (40, 40, 36), (45, 45, 36), (46, 10, 10), (5, 10, 10)],
    )
    def test_a_segment_that_starts_within_its_first_word_cuts_it(self, start: int, span: int, word: int) -> None:
        """Only where they disagree by more than half a second; the word keeps its usual length."""
        words: list[Times] = [(10, 46), *after(46)]
        assert repaired(words, (start, 76), last_speech=46) == ((span, 76), [(word, 46), *after(46)])

    def test_no_word_begins_before_the_audio(self) -> None:
        later: list[Times] = [(26 + 35 * place, 61 + 35 * place) for place in range(3)]
        just_within = 25 + 1 / FRAME_SAMPLES
        assert repaired([(0, 26), *later], (just_within, 131)) == ((just_within, 131), [(0, 26), *later])

    @each_row(
        ("end", "span", "word"),
        [(114, 114, 114), (115, 140, 140), (105, 105, 110), (101, 101, 110), (100, 140, 140), (150, 140, 140)],
    )
    def test_a_segment_that_ends_within_its_last_word_cuts_it(self, end: int, span: int, word: int) -> None:
        words: list[Times] = [(70, 80), (80, 90), (90, 100)]
        assert repaired([*words, (100, 140)], (70, end), last_speech=70) == ((70, span), [*words, (100, word)])

    def test_no_segment_ends_before_it_starts(self) -> None:
        assert repaired([(10, 146)], (120, 112), last_speech=100) == ((120, 120), [(111, 146)])
        assert repaired([], (40, 30)) == ((40, 40), [])

    def test_the_pause_counts_from_the_last_segment_with_words(self) -> None:
        words = [timing(" a", 0, 10, (0,)), timing(" b", 10, 60, (1, 2))]
        words += [timing(" c", int(start), int(end), (3,)) for start, end in after(60)]
        segments = [
            TimedSegment(start * FRAME_SAMPLES, end * FRAME_SAMPLES, tokens)
            for start, end, tokens in [(0, 10, (EOT, 0, EOT + 1)), (10, 59, (EOT,)), (10, 90, (1, 2, 3, 3, 3))]
        ]
        first, empty, last = place_words(words, segments, eot=EOT, last_speech=60 * FRAME_SAMPLES)
        assert [word.text for word in first.words] == [" a"]
        pair = place_words(words, [replace(segments[0], tokens=(0, 1, 2)), *segments[1:]], eot=EOT)
        assert [len(each.words) for each in pair] == [2, 0, 3]
        assert (empty.words, empty.span.end) == ((), 59 * FRAME_SAMPLES)
        assert [word.text for word in last.words] == [" b", " c", " c", " c"]
        assert last.words[0].start == 40 * FRAME_SAMPLES
        assert [each.tokens for each in (first, empty, last)] == [segment.tokens for segment in segments]

    def test_words_next_to_the_end_of_a_sentence_are_at_most_two_long(self) -> None:
        words = [timing(" a", 0, 10), timing(".", 10, 31), timing(" b", 31, 41), timing(" c", 41, 51)]
        (placed,) = place_words(words, [TimedSegment(0, 51 * FRAME_SAMPLES, (1, 1, 1, 1))], eot=EOT)
        assert [word.text for word in placed.words] == [" a.", " b", " c"]
        b_after = [timing(" a", 0, 10), timing(".", 10, 20), timing(" b", 20, 41), timing(" c", 41, 51)]
        (placed,) = place_words(b_after, [TimedSegment(0, 51 * FRAME_SAMPLES, (1, 1, 1, 1))], eot=EOT)
        assert placed.words[1].start == 21 * FRAME_SAMPLES

    def test_the_first_word_has_none_before_it(self) -> None:
        words = [timing("!", 0, 50), timing(" a", 50, 55), timing(" b", 55, 95), timing("?", 95, 99)]
        assert shorten_at_sentence_ends(words, 10 * FRAME_SAMPLES) == words


def test_words_do_not_overlap_where_one_is_made_longer() -> None:
    """As long as a typical word, 0.7 s at most, which is beyond the next word, or beyond the end of the recording."""
    words = [timing(f" {start}", start, end) for start, end in [(0, 35), (35, 70), (70, 105), (105, 133), (133, 161)]]
    segments = [
        TimedSegment(start * FRAME_SAMPLES, end * FRAME_SAMPLES, (1,) * count)
        for start, end, count in [(0, 107, 4), (133, 135, 1)]
    ]
    placed = place_words(words, segments, eot=EOT)
    assert [word.end // FRAME_SAMPLES for each in placed for word in each.words][3:] == [140, 168]
    ordered = in_order(placed, 165 * FRAME_SAMPLES)
    times = [(word.start // FRAME_SAMPLES, word.end // FRAME_SAMPLES) for each in ordered for word in each.words]
    assert times == [(0, 35), (35, 70), (70, 105), (105, 140), (140, 165)]
    assert [each.span for each in ordered] == [each.span for each in placed]


class TestWithin:
    SEGMENTS = (TimedSegment(0, 5, (EOT, 1, 2, EOT + 1)), TimedSegment(5, 9, (EOT + 1, 3, 4, 5, EOT + 2)))

    def cut(self, limit: int) -> tuple[list[tuple[str, float]], list[tuple[int, ...]]]:
        words = [timing(" a", 0, 10, (1, 2)), timing(" b", 10, 20, (3,)), timing(" c", 20, 30, (4, 5))]
        kept, segments = within(words, self.SEGMENTS, limit * FRAME_SAMPLES, eot=EOT)
        assert [(each.start, each.end) for each in segments] == [(0, 5), (5, 9)]
        return [(word.text, word.end / FRAME_SAMPLES) for word in kept], [segment.tokens for segment in segments]

    def test_all_within(self) -> None:
        assert self.cut(25) == ([(" a", 10), (" b", 20), (" c", 25)], [each.tokens for each in self.SEGMENTS])

    @pytest.mark.parametrize(("limit", "end"), [(20, 20), (15, 15), (11, 11)])
    def test_what_begins_later_goes_with_its_tokens(self, limit: int, end: int) -> None:
        left = [(EOT, 1, 2, EOT + 1), (EOT + 1, 3, EOT + 2)]
        assert self.cut(limit) == ([(" a", 10), (" b", end)], left)

    def test_timestamps_stay(self) -> None:
        assert self.cut(0) == ([], [(EOT, EOT + 1), (EOT + 1, EOT + 2)])
