"""Whisper's repairs of word times, and the words that each segment gets. Arithmetic on what alignment has found.

Source: openai/whisper, timing.py (`add_word_timestamps`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from whispertide.checkpoint.languages import apart
from whispertide.decoding.segments import TimedSegment
from whispertide.decoding.token_words import WordTiming, merge_punctuation
from whispertide.types import SAMPLE_RATE, Span, Word, clip_times

_LONGEST_TYPICAL_WORD = SAMPLE_RATE * 7 // 10  # 0.7 s, as in openai/whisper
SEGMENT_TOLERANCE = SAMPLE_RATE // 2  # a word may disagree with its segment's timestamps by this much
# Those of openai/whisper: by all of `punctuation.SENTENCE_ENDS` other words would be shortened.
_SENTENCE_ENDS = ".。!！?？"


@dataclass(frozen=True, slots=True)
class SpokenSegment:
    """A segment with its words, in absolute samples. `span` is corrected by the words' times."""

    span: Span
    words: tuple[Word, ...]
    tokens: tuple[int, ...]


def typical_duration(timings: Sequence[WordTiming]) -> int:
    """The median length of the words that have one, in samples; at most 0.7 s, and 0 without words."""
    durations = [timing.duration for timing in timings if timing.duration]
    return min(_LONGEST_TYPICAL_WORD, int(np.median(durations))) if durations else 0


def shorten_at_sentence_ends(timings: Sequence[WordTiming], longest: int) -> list[WordTiming]:
    """Attention lingers in pauses: next to the end of a sentence no word lasts longer than `longest` samples."""
    timings = list(timings)
    if not any(timing.duration for timing in timings):
        return timings
    for place in range(1, len(timings)):
        timing = timings[place]
        if timing.duration <= longest:
            continue
        if timing.text in _SENTENCE_ENDS:
            timings[place] = replace(timing, end=timing.start + longest)
        elif timings[place - 1].text in _SENTENCE_ENDS:
            timings[place] = replace(timing, start=timing.end - longest)
    return timings


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
    for segment, own in _by_segment(merged, segments, eot):
        words = [Word(timing.text, offset + timing.start, offset + timing.end, timing.probability) for timing in own]
        spoken = _fitted(segment.shifted(offset), words, typical, last_speech)
        if words:
            last_speech = spoken.span.end
        if words and until is not None:
            sizes = [len(timing.tokens) for timing in own]
            spoken = _ended(spoken, sizes, offset + until, longest=2 * typical, eot=eot)
        placed.append(spoken)
    return placed


def in_order(segments: Iterable[SpokenSegment], end: int) -> list[SpokenSegment]:
    """The segments with words that do not overlap, nor pass sample `end`: the original makes the word next to a
    segment's timestamp as long as a typical one, also where that reaches into the next word.
    """
    placed, clock = [], 0
    for segment in segments:
        words = clip_times(segment.words, clock, end)
        clock = words[-1].end if words else clock
        placed.append(replace(segment, words=words))
    return placed


def words_apart(words: tuple[Word, ...], language: str | None) -> tuple[Word, ...]:
    """The words of a segment, the first with its space (`apart`)."""
    return (replace(words[0], text=apart(words[0].text, language)), *words[1:]) if words else words


def _by_segment(
    timings: Sequence[WordTiming], segments: Sequence[TimedSegment], eot: int
) -> Iterator[tuple[TimedSegment, Sequence[WordTiming]]]:
    """Each segment with its words."""
    end = 0
    for segment in segments:
        start, left = end, sum(token < eot for token in segment.tokens)
        # Counted in tokens: joined punctuation has left fewer words than there were.
        while end < len(timings) and left > 0:
            left -= len(timings[end].tokens)
            end += 1
        yield segment, timings[start:end]


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
