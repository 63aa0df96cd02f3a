"""Time warping, filters and Whisper's repairs of word times: by hand, and at random against openai-whisper."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import whispertide.decoding.alignment as alignment_module
from reference import openai_timing
from whispertide.decoding.alignment import (
    SpokenSegment,
    WordTiming,
    alignment_heads,
    chosen_probabilities,
    median_filter,
    merge_punctuation,
    place_words,
    sharpen,
    shorten_at_sentence_ends,
    token_starts,
    typical_duration,
    warp,
    word_timings,
)
from whispertide.decoding.segments import TimedSegment
from whispertide.types import FRAME_SAMPLES, HOP_LENGTH, SAMPLE_RATE, FloatArray, Word, to_samples

EOT = 1000


def path_cost(cost: FloatArray, starts: Any) -> float:
    """What the path costs whose rows begin at `starts`, each lasting until the next one begins.

    A step from one row to the next may be diagonal or straight down: then both rows have the column.
    """
    rows, columns = cost.shape
    best = np.inf
    bounds = [*starts.tolist(), columns]
    for pattern in range(2 ** (rows - 1)):  # does row i end before, or at, the column where row i + 1 begins?
        total, valid = 0.0, True
        for row in range(rows):
            shared = row + 1 < rows and bool(pattern >> row & 1)
            end = bounds[row + 1] + shared
            valid &= end > bounds[row]
            total += float(cost[row, bounds[row] : end].sum())
        if valid:
            best = min(best, total)
    return best


def exhaustive(cost: FloatArray) -> float:
    """The cheapest path from corner to corner, by the textbook recurrence."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0
    for row in range(1, rows + 1):
        for column in range(1, columns + 1):
            before = (total[row - 1, column - 1], total[row - 1, column], total[row, column - 1])
            total[row, column] = cost[row - 1, column - 1] + min(before)
    return float(total[-1, -1])


class TestWarp:
    def test_follows_a_clear_diagonal(self) -> None:
        cost = np.ones((4, 12), np.float32)
        for row, (start, stop) in enumerate([(0, 2), (2, 7), (7, 8), (8, 12)]):
            cost[row, start:stop] = -1
        assert warp(cost).tolist() == [0, 2, 7, 8]

    def test_more_tokens_than_frames(self) -> None:
        starts = warp(np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32))
        assert starts[0] == 0
        assert starts.max() <= 2
        assert (np.diff(starts) >= 0).all()

    @settings(max_examples=60, deadline=None)
    @given(seed=st.integers(0, 10_000), rows=st.integers(1, 6), columns=st.integers(1, 12))
    def test_is_the_cheapest_path(self, seed: int, rows: int, columns: int) -> None:
        cost = np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)
        starts = warp(cost)
        assert starts[0] == 0
        assert path_cost(cost, starts) == pytest.approx(exhaustive(cost), abs=1e-4)

    def test_equals_openai_whisper(self) -> None:
        timing = openai_timing()
        rng = np.random.default_rng(7)
        for rows, columns in [(1, 1), (1, 9), (9, 1), (5, 40), (40, 5), (60, 700), (110, 1500)]:
            scores = rng.normal(size=(rows, columns)).astype(np.float32)
            text, frames = timing.dtw_cpu(-scores.astype(np.float64))
            begins = np.pad(np.diff(text), (1, 0), constant_values=1).astype(bool)
            np.testing.assert_array_equal(token_starts(scores), frames[begins])


class TestMedianFilter:
    def test_mirrors_at_the_ends(self) -> None:
        values = np.array([[9, 1, 2, 3, 4, 5, 0, 7]], np.float32)
        assert median_filter(values).tolist() == [[2, 2, 3, 3, 3, 3, 4, 4]]

    def test_leaves_a_short_axis(self) -> None:
        values = np.array([[3, 1, 2]], np.float32)
        assert median_filter(values).tolist() == [[3, 1, 2]]

    def test_equals_openai_whisper(self) -> None:
        torch, timing = pytest.importorskip("torch"), openai_timing()
        rng = np.random.default_rng(3)
        for shape in [(2, 3, 4), (3, 40, 100), (1, 1, 7)]:
            values = rng.normal(size=shape).astype(np.float32)
            theirs = timing.median_filter(torch.from_numpy(values), 7).numpy()
            np.testing.assert_array_equal(median_filter(values), theirs)


class TestSharpen:
    def test_equals_openai_whisper(self) -> None:
        torch, timing = pytest.importorskip("torch"), openai_timing()
        scores = torch.from_numpy(np.random.default_rng(5).normal(0, 3, (4, 20, 300)).astype(np.float32))
        crop = 170
        weights = scores[..., :crop].softmax(-1)
        deviation, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
        theirs = timing.median_filter((weights - mean) / deviation, 7).mean(axis=0).numpy()
        attention = scores.softmax(-1).numpy()[..., :crop]  # what the graph returns, cropped
        np.testing.assert_allclose(sharpen(attention), theirs, atol=1e-4)

    def test_frames_that_nobody_prefers_say_nothing(self) -> None:
        attention = np.full((2, 5, 20), 0.05, np.float32)
        assert not sharpen(attention).any()
        assert not sharpen(np.zeros((2, 5, 20), np.float32)).any()


def test_probabilities_of_the_chosen_tokens() -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])) + 3.0
    assert chosen_probabilities(logits.astype(np.float32), [1, 2]).tolist() == pytest.approx([0.25, 0.8], rel=1e-5)


def test_a_word_lasts_until_the_next_one_begins() -> None:
    timings = word_timings([" so", " it"], [[1], [2, 3]], np.array([0, 4, 6, 9]), np.array([0.5, 0.2, 0.4], np.float32))
    assert [(each.text, each.start, each.end) for each in timings] == [
        (" so", 0, 4 * FRAME_SAMPLES),
        (" it", 4 * FRAME_SAMPLES, 9 * FRAME_SAMPLES),
    ]
    assert [each.probability for each in timings] == pytest.approx([0.5, 0.3])


def model_with(heads: tuple[tuple[int, int], ...]) -> Any:
    return SimpleNamespace(
        generation=SimpleNamespace(alignment_heads=heads), dims=SimpleNamespace(n_text_layer=5, n_text_head=2)
    )


def test_alignment_heads_are_the_checkpoints_or_those_of_the_later_half() -> None:
    assert alignment_heads(model_with(((1, 1), (0, 0)))) == ((1, 1), (0, 0))
    assert alignment_heads(model_with(())) == tuple((layer, head) for layer in (2, 3, 4) for head in (0, 1))


def timing(text: str, start: int = 0, end: int = 10, tokens: tuple[int, ...] = (1,)) -> WordTiming:
    """Times in encoder frames."""
    return WordTiming(text, tokens, start * FRAME_SAMPLES, end * FRAME_SAMPLES, 0.5)


class TestMergePunctuation:
    def test_closing_marks_join_the_word_before(self) -> None:
        merged = merge_punctuation([timing(" well", 0, 10), timing(",", 10, 12), timing('"', 12, 13)])
        assert [each.text for each in merged] == [' well,"']
        assert merged[0].end == 10 * FRAME_SAMPLES
        assert merged[0].tokens == (1, 1, 1)

    def test_opening_marks_join_the_word_behind(self) -> None:
        merged = merge_punctuation([timing(" (", 0, 3), timing('"', 3, 4), timing(" yes", 4, 9)])
        assert [each.text for each in merged] == [' ("', " yes"]  # the mark without a space closes
        merged = merge_punctuation([timing(' "', 0, 3), timing(" yes", 3, 9)])
        assert [(each.text, each.start) for each in merged] == [(' " yes', 3 * FRAME_SAMPLES)]

    def test_nothing_to_merge(self) -> None:
        assert merge_punctuation([]) == []
        assert len(merge_punctuation([timing(" a"), timing(" b")])) == 2


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
    shortened, tolerance = alignment_module._shortened_after_pause, alignment_module.SEGMENT_TOLERANCE
    everywhere, in_segments, after_pause = nudges

    def nudged(words: list[Word], typical: int, last_speech: int) -> list[Word]:
        return shortened(words, max(typical + after_pause, 0), last_speech)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment_module, "typical_duration", lambda timings: typical_duration(timings) + everywhere)
        patch.setattr(alignment_module, "SEGMENT_TOLERANCE", tolerance + in_segments)
        patch.setattr(alignment_module, "_shortened_after_pause", nudged)
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

    @settings(max_examples=200, deadline=None)
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
