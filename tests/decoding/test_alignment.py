"""Time warping, filters and Whisper's repairs of word times: by hand, and at random against openai-whisper."""

from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import whispertide.decoding.alignment as alignment_module
from few_examples import quick
from reference import openai_timing
from whispertide.decoding.alignment import (
    SpokenSegment,
    WordTiming,
    chosen_probabilities,
    locate_words,
    median_filter,
    merge_punctuation,
    place_words,
    sharpen,
    shorten_at_sentence_ends,
    token_starts,
    typical_duration,
    warp,
    within,
    word_timings,
)
from whispertide.decoding.search import DecodeOutput, DecodeRequest
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


def timing(text: str, start: int = 0, end: int = 10, tokens: tuple[int, ...] = (1,)) -> WordTiming:
    """Times in encoder frames."""
    return WordTiming(text, tokens, start * FRAME_SAMPLES, end * FRAME_SAMPLES, 0.5)


class TestMergePunctuation:
    def test_closing_marks_join_the_word_before(self) -> None:
        merged = merge_punctuation([timing(" well", 0, 10), timing(",", 10, 12), timing('"', 12, 13)])
        assert [each.text for each in merged] == [' well,"']
        assert merged[0].end == 10 * FRAME_SAMPLES
        assert merged[0].tokens == (1, 1, 1)

    def test_opening_marks_join_the_word_after(self) -> None:
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


def textbook_starts(cost: FloatArray) -> list[int]:
    """Time warping cell by cell, and the way back: right before down before diagonal where costs are equal."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0
    for row, column in np.ndindex(rows, columns):
        before = (total[row, column], total[row, column + 1], total[row + 1, column])
        total[row + 1, column + 1] = cost[row, column] + min(before)
    starts, row, column = [0] * rows, rows, columns
    while row > 1:
        ways = {(row, column - 1): 2, (row - 1, column): 1, (row - 1, column - 1): 0}
        next_row, column_before = min(ways, key=lambda cell: (total[cell], -ways[cell]))
        if next_row < row:
            starts[row - 1] = column - 1
        row, column = next_row, column_before
    return starts


def test_warping_is_that_of_the_textbook_on_ties_too() -> None:
    rng = np.random.default_rng(11)
    for _ in range(60):
        cost = rng.integers(-2, 3, size=rng.integers(1, 7, size=2)).astype(np.float32)
        assert warp(cost).tolist() == textbook_starts(cost)
        assert token_starts(-cost).tolist() == textbook_starts(cost)
    assert warp(np.zeros((3, 4), np.float32)).tolist() == [0, 0, 0]
    assert warp(np.array([[0, 0], [1, 1], [9, 0]], np.float32)).tolist() == [0, 1, 1]  # down before diagonal


@pytest.mark.parametrize("shape", [(1, 1, 7), (2, 3, 4), (5, 8, 40), (17, 9), (3, 2, 3)])
def test_the_running_median_of_seven_one_by_one(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    expected = values.copy()
    if shape[-1] > 3:
        padded = np.pad(values, [(0, 0)] * (len(shape) - 1) + [(3, 3)], mode="reflect")
        for place in range(shape[-1]):
            expected[..., place] = np.median(padded[..., place : place + 7], axis=-1)
    np.testing.assert_array_equal(median_filter(values), expected)


def test_sharpened_attention_head_by_head() -> None:
    attention = np.random.default_rng(5).gamma(0.3, size=(3, 5, 30)).astype(np.float32)
    attention[:, :, 20] = 0.5 * attention.sum(axis=-1)  # where all look alike
    heads = []
    for head in attention:
        shares = head / head.sum(axis=1)[:, None]
        spread = shares.std(axis=0)
        heads.append(median_filter((shares - shares.mean(axis=0)) / np.maximum(spread, 1e-9)))
    sharpened = sharpen(attention)
    np.testing.assert_allclose(sharpened, np.mean(heads, axis=0), atol=1e-4)
    assert np.array_equal(sharpen(attention, 2), sharpened[2:]), "all rows count, whichever are asked for"
    assert sharpened.dtype == np.float32
    assert chosen_probabilities(np.zeros((1, 2), np.float32), [0]).dtype == np.float32


# --- the model's part, scripted ---------------------------------------------------------------------------------------


class Letters:
    """A tokenizer of one letter per token; the capital ones begin words. Token 30 ends the text."""

    eot = 30
    asked: tuple[Any, ...] = ()

    def sot_sequence(self, language: str | None, task: str, timestamps: bool) -> tuple[int, ...]:
        self.asked = (language, task, timestamps)
        return (31, 32, 33)

    def split_to_word_tokens(self, tokens: list[int], language: str | None) -> tuple[list[str], list[list[int]]]:
        assert language == self.asked[0]
        words: list[list[int]] = []
        for token in tokens:
            if token < 10 or token == self.eot:
                words.append([])
            words[-1].append(token)
        return ["".join(chr(97 + token) for token in word) for word in words], words


@dataclass
class Attentive:
    """A model of two heads whose token k of the text attends to the frame `frames[k]`; `said` are their shares."""

    frames: list[int]
    width: int = 60
    n_text_ctx: int = 20
    encoded: Any = None
    heads: Any = None
    request: DecodeRequest | None = None

    def __post_init__(self) -> None:
        self.tokenizer = Letters()
        self.alignment_heads = ((1, 0), (3, 1))
        self.dims = SimpleNamespace(n_text_ctx=self.n_text_ctx, n_text_layer=4, n_text_head=2)

    def decoder(self, encoded: Any, heads: Any) -> "Attentive":
        self.encoded, self.heads = encoded, heads
        return self

    def run(self, request: DecodeRequest) -> DecodeOutput:
        self.request = request
        length = request.tokens.shape[1]
        logits = np.zeros((1, len(request.logits_at), 40), np.float32)
        for row, at in enumerate(request.logits_at):
            logits[0, row, request.tokens[0, at + 1]] = np.log(29.0)  # as likely as the rest of the text together
        logits[:, :, 30:] = 50.0  # no text: does not count
        attention = np.full((2, 1, length, self.width), 1e-3, np.float32)
        for place, (first, last) in enumerate(pairwise([*self.frames, self.width])):
            attention[:, 0, 2 + place, first:last] = 1.0
        return DecodeOutput(logits=logits, attention=attention)


def located(model: Any, text: list[int], valid: int = 60, **about: Any) -> list[WordTiming]:
    return locate_words(model, SimpleNamespace(valid_frames=valid), text, **about)  # type: ignore[arg-type]


class TestLocateWords:
    def test_each_word_lasts_from_its_first_token_to_the_next_word(self) -> None:
        model = Attentive([2, 10, 20, 34, 50])
        words = located(model, [1, 11, 2, 12])
        assert [(word.text, word.tokens) for word in words] == [("bl", (1, 11)), ("cm", (2, 12))]
        bounds = [(word.start / FRAME_SAMPLES, word.end / FRAME_SAMPLES) for word in words]
        assert bounds[0][0] == 0
        assert np.abs(np.array(bounds).ravel()[1:] - [20, 20, 50]).max() <= 3
        assert [word.probability for word in words] == pytest.approx([0.5, 0.5], abs=0.01)
        assert model.heads == ((1, 0), (3, 1))
        assert model.encoded.valid_frames == 60
        assert model.tokenizer.asked == (None, "transcribe", False)
        assert model.request is not None
        assert model.request.tokens.dtype == np.int64
        assert model.request.tokens.tolist() == [[31, 32, 33, 1, 11, 2, 12, 30]]
        assert model.request.logits_at == (2, 3, 4, 5)
        assert model.request.need == "logits"

    def test_language_and_task_are_asked_for(self) -> None:
        model = Attentive([0, 20])
        assert len(located(model, [1], language="de", task="translate")) == 1
        assert model.tokenizer.asked == ("de", "translate", False)

    def test_text_beyond_the_context_is_left_out(self) -> None:
        model = Attentive([0] * 5, n_text_ctx=8)
        assert [word.tokens for word in located(model, [1, 2, 3, 4, 5, 6])] == [(1,), (2,), (3,), (4,)]

    @pytest.mark.parametrize(("asked", "valid", "end"), [(None, 60, 50), (None, 30, 29), (30, 60, 29), (60, 30, 29)])
    def test_only_frames_of_real_audio_count(self, asked: int | None, valid: int, end: int) -> None:
        (word,) = located(Attentive([2, 50]), [1], valid, frames=asked)
        assert word.end / FRAME_SAMPLES <= end + 3

    def test_nothing_is_found_in_nothing(self) -> None:
        model = Attentive([0, 0])
        assert located(model, []) == []
        assert located(model, [1], frames=0) == []
        assert model.request is None
        assert len(located(model, [1], frames=1)) == 1


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
    @pytest.mark.parametrize(
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

    @pytest.mark.parametrize(
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

    @pytest.mark.parametrize(
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

    def test_a_mark_after_a_space_is_left_alone(self) -> None:
        assert [each.text for each in merge_punctuation([timing(" a "), timing(",")])] == [" a ", ","]


def test_each_word_has_its_tokens() -> None:
    starts, shares = np.array([0, 4, 6, 9]), np.array([0.5, 0.2, 0.4], np.float32)
    assert [each.tokens for each in word_timings([" so", " it"], [[1], [2, 3]], starts, shares)] == [(1,), (2, 3)]
    with pytest.raises(ValueError, match="zip"):
        word_timings([" so"], [[1], [2, 3]], starts, shares)


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
