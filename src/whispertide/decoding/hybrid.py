"""Beam search by a decoder and CTC together, with what a pilot over less audio found out (pilot inference, section 5).

A text's score is `attention` times what the decoder says of it plus the rest times what CTC says. It ends as published:
when the best of the hypotheses that ended at each of the last three lengths is hopelessly far below the best of all.
And it ends where no hypothesis that goes on can still win, which the papers do not have and which changes no result.

What a pilot gives: while the best hypothesis says what the pilot said, it alone is kept (beam collapse), and the
decoder has read the pilot's text in one run; the text's
length is foreseen from the pilot's (early termination); CTC's sums over the pilot's frames are taken over (leap). Each
can be switched off. Knows nothing of audio, and of networks only that they score rows of tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np

from whispertide.decoding.ctc_prefix import Extensions, Prefix, Sums, empty, extend
from whispertide.errors import OptionError
from whispertide.types import FloatArray, IntArray

END = 0  # the token that ends a text
_HOPELESS = 10.0  # nats below the best (Watanabe et al. 2017, section IV.C)
_LENGTHS = 3
_KNOWN = 10  # next tokens whose sums a pilot keeps
_SHARED = 0.7  # of these must be likely now, too, for the leap


class Rows(Protocol):
    """A decoder's state of some hypotheses."""

    def rows(self, chosen: IntArray) -> Self:
        """Of these rows alone, in this order."""

    def cut(self, length: int) -> Self:
        """After the first `length` tokens."""


S = TypeVar("S", bound=Rows)


class Scorer(Protocol[S]):
    """A decoder over one utterance."""

    def start(self) -> S:
        """One row without any token."""

    def score(self, state: S, tokens: IntArray) -> tuple[FloatArray, S]:
        """Log probabilities [rows, tokens] of what follows each row and its new token [rows]."""

    def read(self, tokens: IntArray) -> tuple[FloatArray, S]:
        """Log probabilities [rows, n, tokens] of what follows each token of texts [rows, n], in one run; the state."""


@dataclass(frozen=True, slots=True)
class HybridOptions:
    """How is searched.

    beam       hypotheses that are kept
    attention  the decoder's weight, 0 to 1; the rest is CTC's
    longest    tokens at most
    collapse, cap, leap   which of a pilot's gifts are taken
    spare      tokens that a text may have beyond what the pilot's length says
    overlap    the share of the pilot's frames whose sums are taken over
    """

    beam: int = 5
    attention: float = 0.5
    longest: int = 60
    collapse: bool = True
    cap: bool = True
    leap: bool = True
    spare: int = 5  # C in the paper
    overlap: float = 0.8

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
        """Next tokens of a hypothesis that CTC is asked about."""
        # CTC is asked about no others: its sums over all frames are dear. 7 with a beam of 5, as in the paper.
        return max(2, math.floor(1.5 * self.beam))


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A text and how likely it is found.

    tokens  without the end
    said    the decoder's log probability of each token, and of the end if it has `ended`
    """

    tokens: tuple[int, ...]
    said: tuple[float, ...]
    score: float
    prefix: Prefix
    ended: bool = False

    @property
    def perplexity(self) -> float:
        """Of the decoder, per token; 1 is certain. (Pilot inference, section 6; Jelinek et al. 1977.)"""
        return math.exp(-sum(self.said) / len(self.said)) if self.said else math.inf


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, and what the next one over more audio can use.

    known    CTC's sums of likely next tokens after each prefix of the best text, as far as they were kept
    frames   that it was over
    runs     of the decoder, and `rows` in all of them
    """

    best: Hypothesis
    known: tuple[Extensions, ...]
    frames: int
    runs: int
    rows: int


@dataclass(slots=True)
class _Beam:
    """The hypotheses that go on, their next tokens' sums, and those that ended."""

    going: list[Hypothesis]
    ended: list[Hypothesis]
    known: dict[tuple[int, ...], Extensions]
    follows: bool  # the best says what the pilot said


def hybrid_search(scores: Sums, scorer: Scorer[S], options: HybridOptions, pilot: Found | None = None) -> Found:
    """The best text over CTC's log probabilities `scores` [frames, tokens + 1] and the decoder."""
    beam = _Beam([Hypothesis((), (), 0.0, empty(scores))], [], {}, pilot is not None and options.collapse)
    state, last = scorer.start(), np.array([END])
    runs = rows = 0
    if pilot is not None and beam.follows:
        ahead, whole = scorer.read(np.array([[END, *pilot.best.tokens]]))
        runs, rows = 1, ahead.shape[1]
    for length in range(1, options.longest + 1):
        if beam.follows:
            decoded, state = ahead[:, length - 1], whole.cut(length)
        else:
            decoded, state = scorer.score(state, last)
            runs, rows = runs + 1, rows + len(last)
        parents = _step(beam, scores, decoded, options, pilot)
        if not beam.going or _over(beam, length, _foreseen(len(scores), options, pilot)):
            break
        state = state.rows(np.array(parents))
        last = np.array([hypothesis.tokens[-1] for hypothesis in beam.going])
    best = max(beam.ended or beam.going, key=lambda hypothesis: hypothesis.score)
    known = [beam.known.get(best.tokens[:length]) for length in range(len(best.tokens) + 1)]
    kept = tuple(each for each in known if each is not None)
    return Found(best, kept, len(scores), runs, rows)


def _step(beam: _Beam, scores: Sums, decoded: FloatArray, options: HybridOptions, pilot: Found | None) -> list[int]:
    """Make every hypothesis a token longer and keep the best; returns the rows that they come from."""
    longer: list[tuple[Hypothesis, int]] = []
    for row, hypothesis in enumerate(beam.going):
        longer += [(each, row) for each in _longer(hypothesis, scores, decoded[row], options, pilot, beam)]
    longer.sort(key=lambda pair: -pair[0].score)
    length = len(beam.going[0].tokens)
    best = longer[0][0]
    if beam.follows and pilot is not None:
        said = pilot.best.tokens
        beam.follows = not best.ended and length < len(said) and best.tokens[-1] == said[length]
    # Beam collapse: while the best hypothesis says what the pilot said, no other is kept.
    chosen = longer[: 1 if beam.follows else options.beam]
    beam.ended += [hypothesis for hypothesis, _ in chosen if hypothesis.ended]
    beam.going = [hypothesis for hypothesis, _ in chosen if not hypothesis.ended]
    return [row for hypothesis, row in chosen if not hypothesis.ended]


def _longer(
    hypothesis: Hypothesis,
    scores: Sums,
    decoded: FloatArray,
    options: HybridOptions,
    pilot: Found | None,
    beam: _Beam,
) -> list[Hypothesis]:
    """The hypothesis with each of its likely next tokens, and as it is when it ends here."""
    extensions = _extensions(hypothesis, scores, decoded, options, pilot)
    beam.known[hypothesis.tokens] = extensions
    weight, before = options.attention, sum(hypothesis.said)
    ends = Hypothesis(
        hypothesis.tokens,
        (*hypothesis.said, float(decoded[END])),
        weight * (before + float(decoded[END])) + (1 - weight) * hypothesis.prefix.whole,
        hypothesis.prefix,
        ended=True,
    )
    found = [ends]
    for at, token in enumerate(extensions.tokens.tolist()):
        prefix, said = extensions.prefix(at), float(decoded[token])
        score = weight * (before + said) + (1 - weight) * prefix.total
        found.append(Hypothesis((*hypothesis.tokens, token), (*hypothesis.said, said), score, prefix))
    return [each for each in found if each.score > -math.inf]


def _extensions(
    hypothesis: Hypothesis, scores: Sums, decoded: FloatArray, options: HybridOptions, pilot: Found | None
) -> Extensions:
    """CTC's sums of the likely next tokens: with a leap over the pilot's frames where most of these are known."""
    ranked = np.argsort(-decoded[1:], kind="stable") + 1  # without the end
    known = _known(hypothesis, pilot) if options.leap else None
    if known is not None and pilot is not None:
        likely = ranked[: len(known.tokens)]
        shared = known.tokens[np.isin(known.tokens, likely)]
        # The leap is approximate: the pilot's sums are of its own likely tokens, so most of these must be likely still.
        if len(shared) >= math.ceil(_SHARED * len(known.tokens)):
            at = np.flatnonzero(np.isin(known.tokens, shared))
            part = Extensions(known.length, known.tokens[at], known.in_token[at], known.in_blank[at], known.totals[at])
            return extend(scores, hypothesis.prefix, part.tokens, part, math.floor(options.overlap * pilot.frames))
    return extend(scores, hypothesis.prefix, ranked[: max(options.likely, _KNOWN if options.leap else 0)])


def _known(hypothesis: Hypothesis, pilot: Found | None) -> Extensions | None:
    """What the pilot kept of the very same prefix."""
    length = len(hypothesis.tokens)
    if pilot is None or length >= len(pilot.known) or hypothesis.tokens != pilot.best.tokens[:length]:
        return None
    return pilot.known[length]


def _foreseen(frames: int, options: HybridOptions, pilot: Found | None) -> int | None:
    """How many tokens the text should have at most, by the pilot's pace; None: nobody knows."""
    if pilot is None or not options.cap or not pilot.frames:
        return None
    return math.ceil(len(pilot.best.tokens) * frames / pilot.frames) + options.spare


def _over(beam: _Beam, length: int, foreseen: int | None) -> bool:
    """Whether nothing better can be hoped for."""
    if foreseen is not None and length >= foreseen and beam.ended:
        return True
    return bool(beam.ended) and (_settled(beam) or _hopeless(beam.ended, length))


def _settled(beam: _Beam) -> bool:
    """No longer text can win: with each token both scores fall."""
    return max(each.score for each in beam.ended) >= max(each.score for each in beam.going)


def _hopeless(ended: Sequence[Hypothesis], length: int) -> bool:
    best = max(hypothesis.score for hypothesis in ended)
    for before in range(_LENGTHS):
        same = [each.score for each in ended if len(each.said) == length - before]
        if not same or max(same) >= best - _HOPELESS:
            return False
    return True
