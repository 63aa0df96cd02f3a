"""When each word was said: time warping over the cross-attention of the alignment heads, then Whisper's repairs.

One decoder run over `sot ... no_timestamps, text ..., eot` gives the attention; row k of it belongs to the query that
*predicts* text token k. Times are in samples. `locate_words` needs a model; the rest is arithmetic on its outcome.
Source: openai/whisper, timing.py (`find_alignment`, `merge_punctuations`, `add_word_timestamps`). DTW here takes the
cheapest step always; the original, on an exact tie between its first two choices, takes the third even if it is dearer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from whispertide.decoding.search import DecodeRequest
from whispertide.decoding.segments import TimedSegment
from whispertide.model.engine import required
from whispertide.options import Task
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, FloatArray, IntArray, Span, Word

if TYPE_CHECKING:
    from whispertide.model.engine import Encoded
    from whispertide.model.whisper import WhisperModel

MEDIAN_WIDTH = 7  # encoder frames
_REACH = MEDIAN_WIDTH // 2
# Compare-exchanges that bring the median of seven to the middle (J. L. Smith, Xcell 23, 1996). Done on whole arrays
# this is seven times faster than a partial sort along an axis of seven; few rows at once stay in the processor's cache.
_MEDIAN_NETWORK = (
    *((0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6)),
    *((2, 3), (3, 6), (4, 5), (1, 4), (1, 3), (3, 4)),
)
_ROWS_AT_ONCE = 16
LONGEST_TYPICAL_WORD = SAMPLE_RATE * 7 // 10  # 0.7 s, as in openai/whisper
SEGMENT_TOLERANCE = SAMPLE_RATE // 2  # a word may disagree with its segment's timestamps by this much
SENTENCE_ENDS = ".。!！?？"
PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"


@dataclass(frozen=True, slots=True)
class WordTiming:
    """A word, its tokens, where it lies (samples from the window's start), and the mean probability of its tokens."""

    text: str
    tokens: tuple[int, ...]
    start: int
    end: int
    probability: float

    @property
    def duration(self) -> int:
        """Samples from start to end."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SpokenSegment:
    """A segment with its words, in absolute samples. `span` is corrected by the words' times."""

    span: Span
    words: tuple[Word, ...]
    tokens: tuple[int, ...]


# --- the model's part -------------------------------------------------------------------------------------------------


def locate_words(
    model: WhisperModel,
    encoded: Encoded,
    text_tokens: Sequence[int],
    *,
    language: str | None = None,
    task: Task = "transcribe",
    frames: int | None = None,
) -> list[WordTiming]:
    """Where each word of `text_tokens` (no special tokens) lies in the window.

    `frames` is how many encoder frames hold real audio (None = all valid ones). Text beyond the text context is left
    out.
    """
    tokenizer = model.tokenizer
    start = tokenizer.sot_sequence(language, task, False)
    # One place is for the end of text.
    text = list(text_tokens)[: model.dims.n_text_ctx - len(start) - 1]
    frames = encoded.valid_frames if frames is None else min(frames, encoded.valid_frames)
    if not text or frames < 1:
        return []
    first = len(start) - 1  # the query at no_timestamps predicts the first text token
    output = model.decoder(encoded, heads=model.alignment_heads).run(
        DecodeRequest(
            tokens=np.array([[*start, *text, tokenizer.eot]], dtype=np.int64),
            logits_at=tuple(range(first, first + len(text))),
            need="logits",
        )
    )
    # Among text tokens alone, as in the original: what end of text and timestamps would get is shared out.
    probabilities = chosen_probabilities(required(output.logits, "logits")[0, :, : tokenizer.eot], text)
    sharpened = sharpen(required(output.attention, "attention")[:, 0, :, :frames], first)
    # Up to the query that predicts the end of text: where that begins the last word ends. What the end of text itself
    # predicts is about no audio.
    starts = token_starts(sharpened[:-1])
    words, word_tokens = tokenizer.split_to_word_tokens([*text, tokenizer.eot], language)
    return word_timings(words[:-1], word_tokens[:-1], starts, probabilities)


def chosen_probabilities(logits: FloatArray, chosen: Sequence[int]) -> FloatArray:
    """Softmax of logits [n, vocab], read at one chosen id per row: [n]."""
    peak = logits.max(axis=-1)
    total = np.exp(logits - peak[:, None]).sum(axis=-1)
    return np.asarray(np.exp(logits[np.arange(len(chosen)), list(chosen)] - peak) / total, dtype=np.float32)


# --- from attention to times ------------------------------------------------------------------------------------------


def sharpen(attention: FloatArray, first: int = 0) -> FloatArray:
    """Attention [heads, tokens, frames] -> [tokens - first, frames]: what each token from `first` on attends to more
    than other tokens do.

    Rows are made to sum to one over the given frames, then standardised over all tokens, smoothed by a median over
    time, and averaged over the heads. A frame that all tokens attend to alike says nothing and becomes 0.
    """
    # What attends to padding is not among the given frames, so a row may sum to less than one.
    weights = attention / np.maximum(attention.sum(axis=-1, keepdims=True), np.finfo(np.float32).tiny)
    mean = weights.mean(axis=-2, keepdims=True)
    centred, spread = weights[:, first:] - mean, weights.std(axis=-2, keepdims=True, mean=mean)
    scores = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    return np.asarray(median_filter(scores).mean(axis=0), dtype=np.float32)


def median_filter(values: FloatArray) -> FloatArray:
    """Running median of seven over the last axis, mirrored at the ends; an axis of three or fewer is left as it is."""
    length = values.shape[-1]
    if length <= _REACH:
        return values
    rows = values.reshape(-1, length)
    result = np.empty_like(rows)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        # By hand: `np.pad` takes longer than the median of a short window.
        padded = np.concatenate([some[:, _REACH:0:-1], some, some[:, -2 : -_REACH - 2 : -1]], axis=1)
        lanes = [padded[:, shift : shift + length] for shift in range(MEDIAN_WIDTH)]
        for low, high in _MEDIAN_NETWORK:
            # Both from the old values: assigned one after the other, the second would see the first.
            lanes[low], lanes[high] = np.minimum(lanes[low], lanes[high]), np.maximum(lanes[low], lanes[high])
        result[first : first + _ROWS_AT_ONCE] = lanes[_REACH]
    return result.reshape(values.shape)


def token_starts(scores: FloatArray) -> IntArray:
    """The frame at which each row's stretch of the best monotonic path begins; scores [rows, frames] -> [rows]."""
    return warp(-scores)


def warp(cost: FloatArray) -> IntArray:
    """Dynamic time warping: the first column of each row's stretch on the cheapest path from corner to corner.

    cost [rows, columns] -> [rows]. Steps: diagonal, down, right; equal costs prefer right, then down.
    """
    total = _accumulated(cost)
    right, down, diagonal = total[1:, :-1], total[:-1, 1:], total[:-1, :-1]
    by_right = (right <= down) & (right <= diagonal)
    by_down = ~by_right & (down <= diagonal)
    steps = np.where(by_right, _RIGHT, np.where(by_down, _DOWN, _DIAGONAL)).astype(np.uint8)
    rows, columns = cost.shape
    # The path is walked cell by cell, and bytes are indexed faster than an array.
    flat = steps.tobytes()
    starts = np.zeros(rows, dtype=np.int64)
    row, column = rows - 1, columns - 1
    # The first row's stretch begins where the path does: in column 0.
    while row > 0:
        # In the first column there is no other way.
        step = flat[row * columns + column] if column > 0 else _DOWN
        if step == _RIGHT:
            column -= 1
            continue
        starts[row] = column
        row -= 1
        column -= step == _DIAGONAL
    return starts


_DIAGONAL, _DOWN, _RIGHT = 0, 1, 2


def _accumulated(cost: FloatArray) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Cost of the cheapest path to every cell, [rows + 1, columns + 1] with an infinite border.

    A row at a time: going right from column k to j costs the difference of the row's running sums, so the best way to
    enter a row is a running minimum of (cost of entering at k - sum before k).
    """
    rows, columns = cost.shape
    # In double precision, because running sums are taken away from each other.
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    sums = cost.astype(np.float64).cumsum(axis=1)
    for row in range(rows):
        above = total[row]
        # From the row above: diagonally, or straight down.
        entry = np.minimum(above[:-1], above[1:])
        entry[1:] -= sums[row, :-1]
        np.minimum.accumulate(entry, out=entry)
        np.add(entry, sums[row], out=total[row + 1, 1:])
    return total


def word_timings(
    words: Sequence[str], word_tokens: Sequence[Sequence[int]], starts: IntArray, probabilities: FloatArray
) -> list[WordTiming]:
    """Group tokens into words: a word lasts from its first token's start to the next word's.

    starts [tokens + 1] in frames, the last one being where the end of text begins; probabilities [tokens].
    """
    timings = []
    done = 0
    for text, tokens in zip(words, word_tokens, strict=True):
        stop = done + len(tokens)
        timings.append(
            WordTiming(
                text,
                tuple(tokens),
                start=int(starts[done]) * FRAME_SAMPLES,
                end=int(starts[stop]) * FRAME_SAMPLES,
                probability=float(probabilities[done:stop].mean()),
            )
        )
        done = stop
    return timings


# --- Whisper's repairs ------------------------------------------------------------------------------------------------


def typical_duration(timings: Sequence[WordTiming]) -> int:
    """The median length of the words that have one, in samples; at most 0.7 s, and 0 without words."""
    durations = [timing.duration for timing in timings if timing.duration]
    return min(LONGEST_TYPICAL_WORD, int(np.median(durations))) if durations else 0


def shorten_at_sentence_ends(timings: Sequence[WordTiming], longest: int) -> list[WordTiming]:
    """Attention lingers in pauses: next to the end of a sentence no word lasts longer than `longest` samples."""
    timings = list(timings)
    if not any(timing.duration for timing in timings):
        return timings
    for place in range(1, len(timings)):
        timing = timings[place]
        if timing.duration <= longest:
            continue
        if timing.text in SENTENCE_ENDS:
            timings[place] = replace(timing, end=timing.start + longest)
        elif timings[place - 1].text in SENTENCE_ENDS:
            timings[place] = replace(timing, start=timing.end - longest)
    return timings


def merge_punctuation(timings: Sequence[WordTiming]) -> list[WordTiming]:
    """Join opening marks to the word after them and closing marks to the word before, keeping the words' times.

    A mark that was joined is no word any more; its tokens go with the word.
    """
    merged: list[WordTiming] = []
    # From the end, so that several opening marks in a row all join the word after them.
    for timing in reversed(timings):
        opening = timing.text.startswith(" ") and timing.text.strip() in PREPENDED
        if opening and merged:
            merged[-1] = _joined(timing, merged[-1], times_of=merged[-1])
        else:
            merged.append(timing)
    merged.reverse()
    closed: list[WordTiming] = []
    for timing in merged:
        if closed and not closed[-1].text.endswith(" ") and timing.text in APPENDED:
            closed[-1] = _joined(closed[-1], timing, times_of=closed[-1])
        else:
            closed.append(timing)
    return closed


def _joined(left: WordTiming, right: WordTiming, times_of: WordTiming) -> WordTiming:
    return replace(times_of, text=left.text + right.text, tokens=left.tokens + right.tokens)


def within(
    timings: Sequence[WordTiming], segments: Sequence[TimedSegment], limit: int, *, eot: int
) -> tuple[list[WordTiming], list[TimedSegment]]:
    """Without the words that begin at sample `limit` of the window or later, nor their tokens; the others end there."""
    kept = [replace(timing, end=min(timing.end, limit)) for timing in timings if timing.start < limit]
    if len(kept) == len(timings):
        return kept, list(segments)
    left, shorter = sum(len(timing.tokens) for timing in kept), []
    for segment in segments:
        shorter.append(replace(segment, tokens=_opening(segment.tokens, left, eot)))
        left -= sum(token < eot for token in segment.tokens)
    return kept, shorter


def _opening(tokens: Sequence[int], count: int, eot: int) -> tuple[int, ...]:
    """The first `count` text tokens, and all timestamps: so a segment keeps its place where its last words go."""
    kept = []
    for token in tokens:
        if token >= eot or count > 0:
            kept.append(token)
        count -= token < eot
    return tuple(kept)


def place_words(
    timings: Sequence[WordTiming],
    segments: Sequence[TimedSegment],
    *,
    eot: int,
    offset: int = 0,
    last_speech: int = 0,
    until: int | None = None,
) -> list[SpokenSegment]:
    """Give each segment its words, with all repairs, in absolute samples.

    timings   of the text of all `segments` together, relative to the window
    segments  relative to the window too, in order
    offset    absolute sample of the window's start
    last_speech   absolute sample where speech before these segments ended
    until     sample from the window's start; words that begin there or later are left out
    """
    typical = typical_duration(timings)
    # Two typical words, as in openai/whisper (`add_word_timestamps`, max_duration).
    merged = merge_punctuation(shorten_at_sentence_ends(timings, 2 * typical))
    placed = []
    next_word = 0
    for segment in segments:
        count = sum(token < eot for token in segment.tokens)
        first, taken = next_word, 0
        # Counted in tokens: joined punctuation has left fewer words than there were.
        while next_word < len(merged) and taken < count:
            taken += len(merged[next_word].tokens)
            next_word += 1
        words = [
            Word(timing.text, offset + timing.start, offset + timing.end, timing.probability)
            for timing in merged[first:next_word]
        ]
        spoken = _fitted(segment.shifted(offset), words, typical, last_speech)
        if words:
            last_speech = spoken.span.end
        if words and until is not None:
            sizes = [len(timing.tokens) for timing in merged[first:next_word]]
            spoken = _ended(spoken, sizes, offset + until, longest=2 * typical, eot=eot)
        placed.append(spoken)
    return placed


def _ended(segment: SpokenSegment, sizes: Sequence[int], until: int, *, longest: int, eot: int) -> SpokenSegment:
    """A segment without the words that begin at a sample or later; `sizes` is how many tokens each of its words has.

    Beyond that sample the last word goes on for as long as words do, `longest`, but does not linger.
    """
    words = [word for word in segment.words if word.start < until]
    end = segment.span.start
    if words:
        last = words[-1]
        end = min(last.end, max(until, last.start + longest))
        words[-1] = replace(last, end=end)
    tokens = _opening(segment.tokens, sum(sizes[: len(words)]), eot)
    return SpokenSegment(Span(segment.span.start, end), tuple(words), tokens)


def _fitted(segment: TimedSegment, words: list[Word], typical: int, last_speech: int) -> SpokenSegment:
    """Reconcile a segment's timestamps with its words' times; `typical` is a word's usual length."""
    start, end = segment.start, segment.end
    if not words:
        return SpokenSegment(Span(start, max(start, end)), (), segment.tokens)
    words = _shortened_after_pause(words, typical, last_speech)
    first = words[0]
    # A word that begins long before its segment: attention lingered in the pause before it, and the timestamp is right.
    # Everywhere else the words are, which are known to a frame.
    if start < first.end and start - SEGMENT_TOLERANCE > first.start:
        words[0] = replace(first, start=max(0, min(first.end - typical, start)))
    else:
        start = first.start
    last = words[-1]
    # The same at the end, where attention lingers in the pause after the last word.
    if end > last.start and end + SEGMENT_TOLERANCE < last.end:
        words[-1] = replace(last, end=max(last.start + typical, end))
    else:
        end = last.end
    return SpokenSegment(Span(start, max(start, end)), tuple(words), segment.tokens)


def _shortened_after_pause(words: list[Word], typical: int, last_speech: int) -> list[Word]:
    """After a pause, neither the first nor the second word lasts longer than two typical ones."""
    longest = 2 * typical
    first, second = words[0], words[1] if len(words) > 1 else None
    is_long = first.end - first.start > longest or (second is not None and second.end - first.start > 2 * longest)
    if first.end - last_speech <= 4 * typical or not is_long:
        return words
    if second is not None and second.end - second.start > longest:
        # Half of an absolute time is odd, but the original's; it only counts in the first seconds of a recording.
        boundary = max(second.end // 2, second.end - longest)
        first, second = replace(first, end=boundary), replace(second, start=boundary)
    first = replace(first, start=max(0, first.end - longest))
    return [first, *([second] if second is not None else []), *words[2:]]
