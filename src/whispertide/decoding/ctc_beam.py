"""Hybrid CTC/attention beam search, with what pilots spare it (Watanabe et al. 2017; arXiv 2311.17065).

A hypothesis scores (1 - w) times the attention decoder's log-probability of its tokens plus w times the CTC
log-probability that the text begins with them, or, once it has ended, is just them. CTC looks at the tokens that
attention likes best alone (the pre-beam). The search ends when hypotheses that end now are so much worse than the best
one that waiting is of no use.

It does no I/O: `rows` are the prefixes whose next token the attention decoder shall score, `feed` takes its answer. So
it does not matter what computes that. It is for models with a CTC head; Whisper has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from whispertide.decoding.ctc import Leap, Prefix, PrefixScorer
from whispertide.errors import OptionError

LENGTHS, MARGIN = 3, 10.0  # end detection: so many lengths in a row, so many nats below the best


@dataclass(frozen=True, slots=True)
class Ended:
    """A whole text."""

    tokens: tuple[int, ...]
    score: float


@dataclass(frozen=True, slots=True)
class _Live:
    prefix: Prefix
    attention: float
    score: float


@dataclass(frozen=True, slots=True)
class BeamOptions:
    """How wide and how long a search is.

    ctc        weight of the CTC score, 0 to 1
    pre_beam   so many tokens of a hypothesis are scored by CTC; None: all
    limit      tokens of a text at most
    cap        from so many tokens on the first text that ends is enough; None: end detection decides
    common     a leap is made for so many tokens that both pre-beams have; with fewer in common there is none
    """

    beam: int = 5
    ctc: float = 0.5
    pre_beam: int | None = 7
    limit: int = 200
    cap: int | None = None
    common: int = 7

    def __post_init__(self) -> None:
        if self.beam < 1 or not 0 <= self.ctc <= 1 or self.limit < 1:
            raise OptionError(f"expected beam >= 1, ctc from 0 to 1 and limit >= 1; got {self}")


@dataclass(slots=True)
class HybridBeam:
    """One search. `eos` is the attention decoder's end of text, which CTC does not have.

    reference  what an earlier search found: as long as the best hypothesis goes on like it, it is the only one
    leap       what that search knew of prefixes; used while the reference is followed
    known      what this search knows of prefixes, for the leap of the next
    """

    scorer: PrefixScorer
    eos: int
    options: BeamOptions = field(default_factory=BeamOptions)
    reference: tuple[int, ...] = ()
    leap: Leap | None = None
    known: dict[tuple[int, ...], Prefix] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    runs: int = 0
    _live: list[_Live] = field(default_factory=list)
    _follows: bool = False

    def __post_init__(self) -> None:
        self._live = [_Live(self.scorer.empty(), 0.0, 0.0)]
        self._follows = bool(self.reference)

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The prefixes whose next token is to be scored."""
        return [live.prefix.tokens for live in self._live]

    def feed(self, attention: npt.ArrayLike) -> bool:
        """Take log-probabilities [rows, tokens] of what comes next; returns whether the search is over."""
        self.runs += 1
        scores = np.asarray(attention, dtype=np.float64)
        if scores.ndim != 2 or len(scores) != len(self._live):
            raise ValueError(f"expected log-probabilities of {len(self._live)} rows; got {scores.shape}")
        grown: list[_Live] = []
        ended: list[Ended] = []
        for live, row in zip(self._live, scores, strict=True):
            ended.append(self._end(live, float(row[self.eos])))
            grown += self._grow(live, row)
        every: list[_Live | Ended] = [*grown, *ended]
        ranked = sorted(every, key=lambda each: each.score, reverse=True)[: self.options.beam]
        self.ended += [each for each in ranked if isinstance(each, Ended)]
        self._live = self._kept([each for each in ranked if isinstance(each, _Live)], ranked[0])
        return self._is_over()

    def result(self) -> Ended:
        """The best text; where none has ended, the best that there is."""
        if self.ended:
            return max(self.ended, key=lambda each: each.score)
        return Ended(self._live[0].prefix.tokens, self._live[0].score)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _end(self, live: _Live, attention: float) -> Ended:
        return Ended(live.prefix.tokens, self._score(live.attention + attention, live.prefix.whole))

    def _grow(self, live: _Live, row: npt.NDArray[np.float64]) -> list[_Live]:
        tokens, leap = self._candidates(live.prefix, row)
        found = self.scorer.extend(live.prefix, tokens, leap) if tokens else []
        self.known |= {prefix.tokens: prefix for prefix in found}
        return [
            _Live(prefix, total := live.attention + float(row[token]), self._score(total, prefix.score))
            for prefix, token in zip(found, tokens, strict=True)
        ]

    def _score(self, attention: float, ctc: float) -> float:
        weight = self.options.ctc
        parts = ((1 - weight, attention), (weight, ctc))
        return sum(share * part for share, part in parts if share)  # a share of 0 of -inf is nothing

    def _candidates(self, prefix: Prefix, row: npt.NDArray[np.float64]) -> tuple[list[int], Leap | None]:
        """The tokens that CTC looks at, and the leap for them, if enough of them are known."""
        possible = [int(token) for token in np.argsort(-row, kind="stable") if np.isfinite(row[token])]
        possible = [token for token in possible if token not in (self.eos, self.scorer.blank)]
        wide = possible if self.options.pre_beam is None else possible[: self.options.pre_beam + 3]
        if self.leap is not None and self._follows:
            common = [token for token in wide if (*prefix.tokens, token) in self.leap.known]
            if len(common) >= min(self.options.common, len(wide)):
                return common[: self.options.pre_beam], self.leap
        return wide[: self.options.pre_beam], None

    def _kept(self, live: list[_Live], best: _Live | Ended) -> list[_Live]:
        """One hypothesis while that goes on as the reference does; after that all of them, for good."""
        if not self._follows or not live:
            return live
        place = len(live[0].prefix.tokens) - 1
        goes_on = isinstance(best, _Live) and self.reference[place : place + 1] == best.prefix.tokens[-1:]
        self._follows = goes_on
        return live[:1] if goes_on else live

    def _is_over(self) -> bool:
        if not self._live:
            return True
        length = len(self._live[0].prefix.tokens)
        if self.options.cap is not None and self.ended and length >= self.options.cap:
            return True
        return length >= self.options.limit or ends(self.ended, length)


def ends(ended: Sequence[Ended], length: int, lengths: int = LENGTHS, margin: float = MARGIN) -> bool:
    """Whether the best texts of the last `lengths` lengths are all `margin` nats below the best of all."""
    if not ended:
        return False
    best = max(each.score for each in ended)
    recent = [
        max((each.score for each in ended if len(each.tokens) == length - back), default=None)
        for back in range(lengths)
    ]
    return all(score is not None and score < best - margin for score in recent)
