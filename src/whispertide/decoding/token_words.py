"""Words of a decode with times taken from the attention of decoding itself: no further decoder run.

Row k of the attention is that of the query that predicted token k. Two ways to read it: "dtw" warps the rows onto the
frames (`warp`); "attended" takes each token's strongest frame (SimulStreaming). "checked" warps, and takes the
strongest frames where the warp puts a word long before what it attends to: several words in one frame of a pause, as a
rule. Warping is that of openai/whisper, timing.py (`find_alignment`, `dtw`), and so is how marks join the words next to
them (`merge_punctuations`). Knows nothing of rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from whispertide.checkpoint.languages import apart
from whispertide.checkpoint.tokenizer import REPLACEMENT, KindOf, Tokenizer, speaks
from whispertide.decoding.search import Hypothesized
from whispertide.punctuation import AFTER_WORDS, is_abbreviation
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, FloatArray, IntArray, Span, Word

WordTimes = Literal["dtw", "attended", "checked"]
_ASTRAY = SAMPLE_RATE // 2
# Marks that belong to the word after them, or before: those of openai/whisper, as is all that is done with them.
PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"
MEDIAN_WIDTH = 7  # encoder frames
_REACH = MEDIAN_WIDTH // 2
# Compare-exchanges that bring the median of seven to the middle (J. L. Smith, Xcell 23, 1996). Done on whole arrays
# this is seven times faster than a partial sort along an axis of seven; few rows at once stay in the processor's cache.
_MEDIAN_NETWORK = (
    *((0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6)),
    *((2, 3), (3, 6), (4, 5), (1, 4), (1, 3), (3, 4)),
)
_ROWS_AT_ONCE = 16


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
class TokenWord:
    """A word in absolute samples, the tokens that it is, and the sample that its last spoken token attends to most.

    least  the smallest probability of its tokens, where that is known
    width  over how many frames that token's attention is at least half of its strongest
    """

    word: Word
    tokens: tuple[int, ...]
    attended: int | None = None
    least: float | None = field(default=None, compare=False)
    width: int = field(default=0, compare=False)

    @property
    def start(self) -> int:
        """The sample where it begins."""
        return self.word.start

    @property
    def end(self) -> int:
        """The sample where it ends."""
        return self.word.end

    @property
    def spoken_by(self) -> int:
        """The sample up to which it is spoken: its own end also takes in a pause after it."""
        return self.end if self.attended is None else self.attended


@dataclass(frozen=True, slots=True)
class Sampled:
    """The outcome of a decode that words are read from.

    tokens, logprobs   sampled text tokens and their log-probabilities
    attention          [heads, queries, frames] of the alignment heads: the prompt's queries first. It has one query
                       per token, and one more where the decode went on to something else (end of text, a dropped token)
    opening, forced    as in `guards.Scene`
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    attention: FloatArray
    opening: int
    forced: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        found: Hypothesized,
        tokenizer: Tokenizer,
        frames: int,
        opening: int,
        forced: tuple[int, ...],
        heads: Sequence[int] | slice = slice(None),
    ) -> Sampled:
        """A hypothesis by the first `frames` of its attention, or of some `heads` of it, by their numbers there.

        A character that is not whole yet is held back. Of a hypothesis without attention there is nothing.
        """
        if not found.attention:
            return cls((), (), np.zeros((0, 0, 0), np.float32), opening, forced)
        count = whole_characters(tokenizer, found.tokens)
        attention = np.concatenate(found.attention, axis=1)[heads, :, :frames]
        return cls(found.tokens[:count], found.logprobs[:count], attention, opening, forced)


def tokens_of(words: Iterable[TokenWord]) -> tuple[int, ...]:
    """Their tokens, as a prefix."""
    return tuple(token for word in words for token in word.tokens)


def spoken(words: Iterable[TokenWord]) -> list[TokenWord]:
    """Without those that are blank."""
    return [word for word in words if word.word.text.strip()]


def whole_words(words: Sequence[TokenWord], tokens: int) -> int:
    """The number of `words` that lie within the first so many tokens."""
    count = 0
    for place, word in enumerate(words):
        count += len(word.tokens)
        if count > tokens:
            return place
    return len(words)


def whole_characters(tokenizer: Tokenizer, tokens: Sequence[int]) -> int:
    """The number of `tokens` that may be shown: not the last ones if they are the beginning of a character."""
    count = len(tokens)
    # A character may be several tokens long; its first ones decode to U+FFFD until the last is there.
    while count and tokenizer.decode(tokens[:count]).endswith(REPLACEMENT):
        count -= 1
    return count


def read_words(
    sampled: Sampled,
    tokenizer: Tokenizer,
    window: Span,
    *,
    language: str | None = None,
    times: WordTimes = "dtw",
    heads_first: bool = False,
) -> tuple[TokenWord, ...]:
    """The words of `sampled`, inside `window`. The attention's frames count from the window's start.

    `heads_first` averages the heads before the rows are standardised (NPUsper) instead of after (Whisper).
    """
    tokens = list(sampled.tokens)
    if not tokens or sampled.attention.shape[-1] < 1:
        return ()
    rows = _rows(sampled, heads_first)
    probabilities = np.exp(np.array(sampled.logprobs, np.float32))
    # Whisper splits best with an end of text after the last word.
    words, word_tokens = tokenizer.split_to_word_tokens([*tokens, tokenizer.eot], language)
    words, word_tokens = words[:-1], word_tokens[:-1]
    if not sampled.forced:
        words[0] = apart(words[0], language)
    # The forced words take part in the warp, so that no new word is placed in their audio; they are no part of the
    # result.
    own = rows[len(sampled.forced) :]
    if times != "attended":
        starts = warp(-rows)[len(sampled.forced) :]
        timings = word_timings(words, word_tokens, starts, probabilities)
    else:
        timings = _attended(words, word_tokens, own.argmax(axis=-1), probabilities)
    merged = [timing for timing in merge_punctuation(timings) if timing.tokens]
    found = tuple(_token_words(merged, own, probabilities, tokenizer, window))
    if times == "checked" and any(one.spoken_by - one.end > _ASTRAY for one in found):
        return read_words(sampled, tokenizer, window, language=language, times="attended", heads_first=heads_first)
    return found


def _token_words(
    timings: Sequence[WordTiming], rows: FloatArray, probabilities: FloatArray, tokenizer: Tokenizer, window: Span
) -> Iterator[TokenWord]:
    """The words inside `window`; `rows` [tokens + 1, frames] and `probabilities` [tokens] are those of their tokens."""
    strongest = rows.argmax(axis=-1)
    widths = (rows >= rows.max(axis=-1, keepdims=True) / 2).sum(axis=-1)
    done = 0
    for timing in timings:
        stop = done + len(timing.tokens)
        spoken = [n for n, token in enumerate(timing.tokens) if any(map(speaks, tokenizer.decode([token])))]
        # Nothing is heard of punctuation, and its attention may be anywhere: the last token that speaks counts.
        last = done + (spoken or [0])[-1]
        start = min(window.start + timing.start, window.end)
        end = min(window.start + max(timing.end, timing.start), window.end)
        yield TokenWord(
            Word(timing.text, start, end, timing.probability),
            timing.tokens,
            attended=min(window.start + int(strongest[last]) * FRAME_SAMPLES, window.end),
            least=float(probabilities[done:stop].min()),
            width=int(widths[last]),
        )
        done = stop


def _rows(sampled: Sampled, heads_first: bool) -> FloatArray:
    """Scores [forced + tokens + 1, frames]: of each token's predicting query, and of what came next."""
    attention = sampled.attention.mean(axis=0, keepdims=True) if heads_first else sampled.attention
    first = sampled.opening - len(sampled.forced) - 1
    last = sampled.opening + len(sampled.tokens)  # one past the query that predicted what came next
    attention = attention[:, :last]
    if attention.shape[1] < last:  # nothing came next: a uniform row plays its part
        frames = attention.shape[-1]
        uniform = np.full((len(attention), last - attention.shape[1], frames), 1 / frames, np.float32)
        attention = np.concatenate([attention, uniform], axis=1)
    return sharpen(attention, first)


def _attended(
    words: Sequence[str], word_tokens: Sequence[Sequence[int]], frames: IntArray, probabilities: FloatArray
) -> list[WordTiming]:
    """From the first to the last token's strongest frame; a word never begins before the one before it."""
    timings = []
    done = least = 0
    for text, tokens in zip(words, word_tokens, strict=True):
        stop = done + len(tokens)
        # Each token's strongest frame is found by itself, so they need not rise as those of a warped path do.
        start = max(int(frames[done]), least)
        end = max(int(frames[stop - 1]) + 1, start)
        timings.append(
            WordTiming(
                text, tuple(tokens), start * FRAME_SAMPLES, end * FRAME_SAMPLES, float(probabilities[done:stop].mean())
            )
        )
        done, least = stop, start
    return timings


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
        start, end = (int(starts[at]) * FRAME_SAMPLES for at in (done, stop))
        timings.append(WordTiming(text, tuple(tokens), start, end, float(probabilities[done:stop].mean())))
        done = stop
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


def part_marks(word: TokenWord, logprobs: Sequence[float], kind_of: KindOf) -> tuple[TokenWord, TokenWord] | None:
    """A word without the marks after it, and these as a word of their own at its end; None: there are not both, or the
    mark belongs to the word ("Mr."). `logprobs` are those of its tokens.
    """
    marks = next((n for n, token in enumerate(reversed(word.tokens)) if not kind_of(token).closes), 0)
    text = word.word.text.rstrip(AFTER_WORDS)
    if not marks or not text.strip() or is_abbreviation(word.word.text):
        return None
    probability = math.exp(min(logprobs[-marks:]))
    mark = replace(word.word, text=word.word.text[len(text) :], start=word.end, probability=probability)
    return (
        replace(word, word=replace(word.word, text=text), tokens=word.tokens[:-marks]),
        replace(word, word=mark, tokens=word.tokens[-marks:]),
    )


# --- time warping -----------------------------------------------------------------------------------------------------


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


def warp(cost: FloatArray) -> IntArray:
    """Dynamic time warping: the first column of each row's stretch on the cheapest path from corner to corner.

    cost [rows, columns] -> [rows]; of scores, their negatives. Steps: diagonal, down, right; equal costs prefer right,
    then down. The cheapest step is taken always: on an exact tie between its first two the original takes the third.
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
