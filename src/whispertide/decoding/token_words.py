"""Words of a decode with times taken from the attention of decoding itself: no further decoder run.

Row k of the attention is that of the query that predicted token k. Two ways to read it: "dtw" warps the rows onto the
frames (`decoding.warping`); "attended" takes each token's strongest frame (SimulStreaming). "checked" warps,
and takes the strongest frames where the warp puts a word long before what it attends to: several words in one frame of
a pause, as a rule. Marks join the words next to them as in openai/whisper, timing.py (`merge_punctuations`). Knows
nothing of rounds.

`token_kinds` tells what a token is: the beginning of a word, a piece of one, punctuation. Languages written without
spaces have no pieces of words: there every character counts by itself (NPUsper's rule for Chinese, here for all such
scripts). A token that is only part of a character is a piece everywhere, unless it begins with a space where words do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Literal

import numpy as np

from whispertide.checkpoint.languages import UNSPACED_LANGUAGES
from whispertide.checkpoint.tokenizer import REPLACEMENT, Tokenizer
from whispertide.decoding.search import Hypothesized
from whispertide.decoding.warping import sharpen, warp
from whispertide.punctuation import AFTER_WORDS, is_abbreviation
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, FloatArray, IntArray, Span, Word

WordTimes = Literal["dtw", "attended", "checked"]
_ASTRAY = SAMPLE_RATE // 2
_PREPENDED = "\"'“¿([{-"
_APPENDED = "\"'.。,，!！?？:：”)]}、"


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


def merge_punctuation(timings: Sequence[WordTiming]) -> list[WordTiming]:
    """Join opening marks to the word after them and closing marks to the word before, keeping the words' times.

    A mark that was joined is no word any more; its tokens go with the word.
    """
    merged: list[WordTiming] = []
    # From the end, so that several opening marks in a row all join the word after them.
    for timing in reversed(timings):
        opening = timing.text.startswith(" ") and timing.text.strip() in _PREPENDED
        if opening and merged:
            merged[-1] = _joined(timing, merged[-1], times_of=merged[-1])
        else:
            merged.append(timing)
    merged.reverse()
    closed: list[WordTiming] = []
    for timing in merged:
        if closed and not closed[-1].text.endswith(" ") and timing.text in _APPENDED:
            closed[-1] = _joined(closed[-1], timing, times_of=closed[-1])
        else:
            closed.append(timing)
    return closed


def _joined(left: WordTiming, right: WordTiming, times_of: WordTiming) -> WordTiming:
    return replace(times_of, text=left.text + right.text, tokens=left.tokens + right.tokens)


_LONGEST_MARK = 2  # characters of a token that is punctuation


@dataclass(frozen=True, slots=True)
class TokenKind:
    """What a token is, in one language.

    is_special  end of text, timestamps and the like: nothing else is true of these
    is_mark     one or two characters after an optional space, none of them a letter or digit (or no character at all)
    is_piece    part of a character, or in a language with spaces a token with letters that does not begin with one
    is_content  begins something spoken: neither special, nor punctuation, nor the piece of a word
    closes      nothing but marks that stand after a word: ends of sentences and clauses, closing quotes and brackets
    continues   belongs to the word before it: a piece, digits without a space, closing punctuation
    speaks      has a letter or digit, or part of one
    """

    is_special: bool = False
    is_mark: bool = False
    is_piece: bool = False
    is_content: bool = False
    closes: bool = False
    continues: bool = False
    speaks: bool = False


KindOf = Callable[[int], TokenKind]  # of a token of one vocabulary, in one language


def token_kinds(tokenizer: Tokenizer, language: str | None = None) -> KindOf:
    """Tells the kinds of a vocabulary's tokens in one language (a code; None is English). Each is found out once."""
    return lru_cache(maxsize=4096)(partial(_kind, tokenizer, language not in UNSPACED_LANGUAGES))


def _kind(tokenizer: Tokenizer, spaced: bool, token: int) -> TokenKind:
    if token >= tokenizer.eot:
        return TokenKind(is_special=True)
    text = tokenizer.decode([token])
    says = any(map(speaks, text))
    is_mark = not says and len(text.removeprefix(" ")) <= _LONGEST_MARK
    begins = spaced and text.startswith(" ")
    is_piece = not begins and (REPLACEMENT in text or (spaced and any(map(str.isalpha, text))))
    return TokenKind(
        is_mark=is_mark,
        is_piece=is_piece,
        is_content=not (is_mark or is_piece),
        closes=text != "" and not text.strip(AFTER_WORDS),
        continues=not begins if spaced else REPLACEMENT in text,
        speaks=says,
    )


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


def speaks(character: str) -> bool:
    """True if a character is a letter or digit, or a broken one, which may be."""
    return character.isalnum() or character == REPLACEMENT
