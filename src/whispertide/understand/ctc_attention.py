"""Beam search by a decoder and CTC together, with what a pilot over less audio found out (pilot inference, section 5).

A text's score is `attention` times what the decoder says of it plus the rest times what CTC says. It ends as published:
when the best of the candidates that ended at each of the last three lengths is hopelessly far below the best of all.
And it ends where no candidate that goes on can still win, which the papers do not have and which changes no result.

What a pilot gives: while the best candidate says what the pilot said, it alone is kept (beam collapse), and the
decoder has read the pilot's text in one run; the text's length is foreseen from the pilot's (early termination); of
what is said again CTC's sums over the pilot's frames are taken over (leap). Each can be switched off.

CTC is asked about a few next tokens of each candidate, those that the decoder finds likely (pre-beam). The leap is over
tokens that the pilot asked about too: a pilot asks about 10, and where at least 7 of the decoder's best 10 are among
them, these are asked about, else, without a leap, the best 7 (section 6). Knows nothing of audio, and of networks only
that they score rows of tokens.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar

import numpy as np

from whispertide.errors import OptionError
from whispertide.types import FloatArray, IntArray
from whispertide.understand.ctc_prefix import Early, Prefixes, Sums, beginnings, empty, longer

END = 0  # the token that ends a text
_HOPELESS = 10.0  # nats below the best (Watanabe et al. 2017, section IV.C)
_LENGTHS = 3
_PRE_BEAM, _COMMON = 10, 7  # next tokens that a pilot asks CTC about, and how many of them must be likely again


class Rows(Protocol):
    """A decoder's state of some candidates."""

    def rows(self, chosen: IntArray) -> Self:
        """Of these rows alone, in this order."""

    def cut(self, length: int) -> Self:
        """After the first `length` tokens."""


S = TypeVar("S", bound=Rows)


class _Scorer(Protocol[S]):
    """A decoder over one utterance."""

    def start(self) -> S:
        """One row without any token."""

    def score(self, state: S, tokens: IntArray) -> tuple[FloatArray, S]:
        """Log probabilities [rows, tokens] of what follows each row and its new token [rows]."""

    def read(self, tokens: IntArray) -> tuple[FloatArray, S]:
        """Log probabilities [rows, n, tokens] of what follows each token of texts [rows, n], in one run; the state."""


@dataclass(frozen=True, slots=True)
class CtcAttentionOptions:
    """Options of the search.

    beam       candidates that are kept
    attention  the decoder's weight, 0 to 1; the rest is CTC's
    longest    tokens at most
    collapse, cap, leap   which of a pilot's gifts are taken
    spare      tokens that a text may have beyond the pilot's length
    overlap    the share of the pilot's frames whose sums are taken over
    pilot      a later search may go by this one, so CTC is asked about more next tokens
    """

    beam: int = 5
    attention: float = 0.5
    longest: int = 60
    collapse: bool = True
    cap: bool = True
    leap: bool = True
    spare: int = 5  # C in the paper
    overlap: float = 0.8
    pilot: bool = False

    def __post_init__(self) -> None:
        if min(self.beam, self.longest) < 1 or self.spare < 0 or not 0 <= self.attention <= 1:
            raise OptionError(
                "expected beam and longest from 1, spare from 0 and attention from 0 to 1; got "
                f"{self.beam}, {self.longest}, {self.spare} and {self.attention:g}"
            )
        if not 0.5 <= self.overlap <= 1:
            raise OptionError(f"expected overlap from 0.5 to 1; got {self.overlap:g}")

    @property
    def likely(self) -> int:
        """Next tokens of a candidate that CTC is asked about."""
        # CTC is asked about no others: its sums over all frames are dear. 7 with a beam of 5, as in the paper.
        return _PRE_BEAM if self.pilot else max(2, math.floor(1.5 * self.beam))

    def weighed(self, said: Sums, heard: Sums) -> Sums:
        """Scores by what the decoder said and what CTC heard, of the same shape."""
        if self.attention == 1:
            # The formula would give nan: 0 times CTC's minus infinity.
            return said  # and CTC's impossible texts are possible
        scores: Sums = self.attention * said + (1 - self.attention) * heard
        return scores


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text and how likely it is found.

    tokens  without the end
    said    the decoder's log probability of each token, and of the end if it has `ended`
    """

    tokens: tuple[int, ...]
    said: tuple[float, ...]
    score: float
    ended: bool = False

    @property
    def perplexity(self) -> float:
        """Of the decoder, per token; 1 is certain. (Pilot inference, section 6; Jelinek et al. 1977.)"""
        return math.exp(-sum(self.said) / len(self.said)) if self.said else math.inf


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search, and what the next one over more audio can use.

    sums     CTC's of each beginning of the best text, from one token on, as far as they are known; one prefix each
    early    of each beginning, from the empty one on, what CTC was asked about
    first    the decoder's output for the first token [tokens]
    frames   that it was over
    """

    best: Candidate
    sums: tuple[Prefixes, ...]
    early: tuple[Early, ...]
    first: FloatArray
    frames: int


@dataclass(slots=True)
class _Beam:
    """The candidates that go on with CTC's sums, those that ended, and the sums of all that went on; of all that could,
    what CTC was asked about.
    """

    going: list[Candidate]
    prefixes: Prefixes
    follows: bool  # the best says what the pilot said
    ended: list[Candidate] = field(default_factory=list)
    sums: dict[tuple[int, ...], Prefixes] = field(default_factory=dict)
    early: dict[tuple[int, ...], Early] = field(default_factory=dict)


def ctc_attention_search(
    scores: Sums,
    scorer: _Scorer[S],
    options: CtcAttentionOptions,
    pilot: Found | None = None,
    *,
    check: Callable[[], None] = lambda: None,
) -> Found:
    """The best text over CTC's log probabilities `scores` [frames, tokens + 1] and the decoder.

    A search that is cut off by `longest` gives the best of what has ended and what has not. Before each token `check`
    is called; what it raises ends the search.
    """
    follows = pilot is not None and options.collapse
    beam = _Beam([Candidate((), (), 0.0)], empty(scores), follows)
    state, last = scorer.start(), np.array([END])
    if pilot is not None and follows:
        ahead, whole = scorer.read(np.array([[END, *pilot.best.tokens]]))
    first, over = np.zeros(0, np.float32), False
    for length in range(1, options.longest + 1):
        check()
        if beam.follows:
            decoded, state = ahead[:, length - 1], whole.cut(length)
        else:
            decoded, state = scorer.score(state, last)
        first = first if len(first) else decoded[0]
        parents = _step(beam, scores, decoded, options, pilot)
        over = not beam.going or _over(beam, length, _foreseen(len(scores), options, pilot))
        if over:
            break
        state = state.rows(parents)
        last = beam.prefixes.last
    best = max(beam.ended if over else [*beam.ended, *beam.going], key=lambda candidate: candidate.score)
    begun = [best.tokens[:length] for length in range(len(best.tokens) + 1)]
    sums = tuple(beam.sums[each] for each in begun[1:])
    early = tuple(beam.early[each] for each in begun if each in beam.early)
    return Found(best, sums, early, first, len(scores))


@dataclass(frozen=True, slots=True)
class _Continuations:
    """The continuations of each candidate, in a row: as it ends here, in the first column, and longer by its `tokens`.

    tokens [n, k], and the `totals` of texts that begin so; said, scores [n, 1 + k]
    """

    tokens: IntArray
    totals: Sums
    said: Sums
    scores: Sums

    def best(self, count: int) -> list[tuple[int, int]]:
        """Row and column of the possible ones with the highest scores, the best first."""
        # Stable, so that ties fall alike everywhere.
        order = np.argsort(-self.scores, axis=None, kind="stable")[:count]
        places = [divmod(int(at), self.scores.shape[1]) for at in order]
        return [place for place in places if self.scores[place] > -math.inf]


def _asked(
    beam: _Beam, decoded: FloatArray, options: CtcAttentionOptions, pilot: Found | None
) -> tuple[IntArray, Early | None]:
    """The next tokens [n, k] of each candidate that CTC is asked about, without the end; what a pilot knows of them,
    if there is a leap.
    """
    order = np.argsort(-decoded[:, 1:], axis=1, kind="stable") + 1
    length = beam.prefixes.length
    # While the pilot's text is followed, there is one candidate.
    if beam.follows and pilot is not None and options.leap and length < len(pilot.early):
        known = pilot.early[length]
        likely = order[0, :_PRE_BEAM]
        common = likely[np.isin(likely, known.tokens)]
        if len(common) >= min(_COMMON, order.shape[1]):
            chosen = common[: options.likely]
            return chosen[None], known.of(chosen)
    return order[:, : options.likely], None


def _totals(beam: _Beam, scores: Sums, tokens: IntArray, known: Early | None, until: int) -> Sums:
    """The totals of the candidates, longer by each of `tokens`; noted are the shares that begin before `until`."""
    if known is None:
        early = beginnings(scores, beam.prefixes, tokens, 0, until)
    else:
        later = beginnings(scores, beam.prefixes, tokens, known.until, max(until, known.until))
        early = np.logaddexp(known.shares[None], later)
        until = max(until, known.until)
    beam.early |= {
        each.tokens: Early(asked, shares, until) for each, asked, shares in zip(beam.going, tokens, early, strict=True)
    }
    totals: Sums = np.logaddexp(early, beginnings(scores, beam.prefixes, tokens, until, len(scores)))
    return totals


def _continuations(
    beam: _Beam, decoded: FloatArray, tokens: IntArray, totals: Sums, options: CtcAttentionOptions
) -> _Continuations:
    every = np.concatenate([np.full((len(tokens), 1), END), tokens], axis=1)
    said = np.take_along_axis(decoded, every, axis=1).astype(np.float64)
    before = np.array([[sum(candidate.said)] for candidate in beam.going])
    heard = np.concatenate([beam.prefixes.wholes[:, None], totals], axis=1)
    return _Continuations(tokens, totals, said, options.weighed(before + said, heard))


def _step(
    beam: _Beam, scores: Sums, decoded: FloatArray, options: CtcAttentionOptions, pilot: Found | None
) -> IntArray:
    """Make every candidate a token longer and keep the best; returns the rows that they come from."""
    length = beam.prefixes.length
    expected = pilot.best.tokens[: length + 1] if pilot and options.collapse and length < len(pilot.best.tokens) else ()
    tokens, early = _asked(beam, decoded, options, pilot)
    totals = _totals(beam, scores, tokens, early, math.floor(options.overlap * len(scores)))
    found = _continuations(beam, decoded, tokens, totals, options)
    places = found.best(options.beam)
    row, column = places[0]
    best = (*beam.going[row].tokens, int(tokens[row, column - 1])) if column else ()
    beam.follows = len(best) > 0 and best == expected
    known = None
    if beam.follows and pilot:  # beam collapse: while the best candidate says what the pilot said, no other is kept
        places = places[:1]
        known = pilot.sums[length] if early is not None and length < len(pilot.sums) else None
    return _keep(beam, scores, found, places, known, 0 if early is None else early.until)


def _keep(
    beam: _Beam,
    scores: Sums,
    found: _Continuations,
    places: Sequence[tuple[int, int]],
    known: Prefixes | None,
    until: int,
) -> IntArray:
    """Of the continuations those in these places; returns the rows of the candidates that go on."""
    chosen = []
    for row, column in places:
        one, score = beam.going[row], float(found.scores[row, column])
        said = (*one.said, float(found.said[row, column]))
        if column:
            chosen.append(Candidate((*one.tokens, int(found.tokens[row, column - 1])), said, score))
        else:
            beam.ended.append(Candidate(one.tokens, said, score, ended=True))
    rows = np.array([row for row, column in places if column], np.int64)
    columns = np.array([column - 1 for _, column in places if column], np.int64)
    tokens, totals = found.tokens[rows, columns], found.totals[rows, columns]
    beam.going, beam.prefixes = chosen, longer(scores, beam.prefixes, rows, tokens, totals, known, until)
    beam.sums |= {each.tokens: beam.prefixes.row(at) for at, each in enumerate(chosen)}
    return rows


def _foreseen(frames: int, options: CtcAttentionOptions, pilot: Found | None) -> int | None:
    """The most tokens that the text should have, by the pilot's pace; None: nobody knows."""
    if pilot is None or not options.cap or not pilot.best.ended:
        return None
    return math.ceil(len(pilot.best.tokens) * frames / pilot.frames) + options.spare


def _over(beam: _Beam, length: int, foreseen: int | None) -> bool:
    """True if nothing better can be hoped for."""
    if foreseen is not None and length >= foreseen and beam.ended:
        return True
    return bool(beam.ended) and (_settled(beam) or _hopeless(beam.ended, length))


def _settled(beam: _Beam) -> bool:
    """No longer text can win: with each token both scores fall."""
    # Some always go on here: else the search has ended before it asks.
    return max(each.score for each in beam.ended) >= max(each.score for each in beam.going)


def _hopeless(ended: Sequence[Candidate], length: int) -> bool:
    best = max(candidate.score for candidate in ended)
    for before in range(_LENGTHS):
        # `said` counts the end, too: these are the candidates that ended in one step.
        same = [each.score for each in ended if len(each.said) == length - before]
        if not same or max(same) >= best - _HOPELESS:
            return False
    return True
