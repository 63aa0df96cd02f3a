"""The seam between a search and the decoder graph. A search does no I/O and never sees the model.

    request = search.next()          which tokens to feed, to which rows, and what to return
    output  = <somebody runs it>     one executor can run, batch, unroll, abort or swap requests of any session
    verdict = search.feed(output)    go on or stop, and how much of the cache is still valid

`run_search` is the plain serial driver. Rows are hypotheses of one window; they share its encoder output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, Self

import numpy as np

from whispertide.decoding.key_terms import Place
from whispertide.model.engine import DecodeOutput, DecodeRequest, DecoderRun, Piece
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class Verdict:
    """`keep` = number of tokens fed *in this request* that stay in the cache (None = all of them), the first ones."""

    stop: bool
    keep: int | None = None


Stage = Literal["encode", "decode", "align"]
StopReason = Literal["end_of_text", "length", "guard", "aborted"]


@dataclass(frozen=True, slots=True)
class Hypothesized:
    """One finished hypothesis: sampled `tokens` (no prompt, no end-of-text) with their log-probabilities.

    `attention` is what its queries attended to, in pieces [heads, queries, frames] in the order they were run, the
    prompt's first; empty if no heads were chosen. It may reach beyond `tokens`: a guard that cuts has seen more.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    sum_logprob: float  # includes the end-of-text token, as Whisper's ranking does
    stop: StopReason = "end_of_text"
    attention: tuple[FloatArray, ...] = field(default=(), compare=False, repr=False)
    gain: float = 0.0  # what key terms add for the ranking

    @property
    def avg_logprob(self) -> float:
        """Whisper's average: over the tokens and the end-of-text token."""
        return self.sum_logprob / (len(self.tokens) + 1)

    def score(self, length_penalty: float | None) -> float:
        """Log-probability per token, or with the length penalty of Google's NMT paper (arXiv 1609.08144, eq. 14).

        Source: `MaximumLikelihoodRanker` in openai/whisper, decoding.py. The end-of-text token counts in the sum but
        not in the length; an empty hypothesis counts as one token long.
        """
        length = len(self.tokens)
        penalty = max(length, 1) if length_penalty is None else ((5 + length) / 6) ** length_penalty
        return (self.sum_logprob + self.gain) / penalty

    def cut(self, keep: int) -> Self:
        """Its first `keep` tokens, as a guard leaves them."""
        logprobs = self.logprobs[:keep]
        return replace(self, tokens=self.tokens[:keep], logprobs=logprobs, sum_logprob=sum(logprobs), stop="guard")


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One that still grows: its tokens, the row of the last run that it continues, and what its queries attended to.

    gain   what key terms have added for its ranking
    place  where its text is in these; None: not worked out
    """

    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    total: float = 0.0
    parent: int = 0
    seen: tuple[FloatArray, ...] = ()
    gain: float = 0.0
    place: Place | None = None

    @property
    def score(self) -> float:
        """What ranks it among those that grow."""
        return self.total + self.gain

    def close(self, stop: StopReason, keep: int | None = None) -> Hypothesized:
        """The hypothesis as it stands, cut to `keep` tokens (None = all)."""
        total = self.total if keep is None else sum(self.logprobs[:keep])
        return Hypothesized(self.tokens[:keep], self.logprobs[:keep], total, stop, self.seen, self.gain)


@dataclass(frozen=True, slots=True)
class Steps:
    """The cost of searching: decoder runs, the rows of all of them, and the runs that had one row.

    A row is a hypothesis. `prompts` of the runs fed a prompt, which every search does in one row. So the average beam
    is that of the other runs, as is the share of them whose beam was one. A run may feed several tokens of a row.
    """

    runs: int = 0
    rows: int = 0
    narrow: int = 0
    prompts: int = 0

    @classmethod
    def run(cls, rows: int, *, prompt: bool = False) -> Self:
        """One run of so many rows."""
        return cls(1, rows, int(rows == 1), int(prompt))

    def __add__(self, other: Steps) -> Steps:
        return Steps(
            self.runs + other.runs,
            self.rows + other.rows,
            self.narrow + other.narrow,
            self.prompts + other.prompts,
        )


NO_STEPS = Steps()


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one stage of one window: wall seconds, and the `pieces` that were encoded or the decoder's steps.

    `features_s` of an encoder's seconds went into the log-mel.
    """

    stage: Stage
    seconds: float
    pieces: Sequence[Piece] = ()
    steps: Steps = NO_STEPS
    features_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The outcome of a search: the chosen hypothesis, and what the rules need besides.

    no_speech_prob is the probability of the no-speech token at the start-of-transcript position (unsuppressed),
    or nan where the search did not ask for it.
    """

    best: Hypothesized
    no_speech_prob: float = float("nan")
    steps: Steps = NO_STEPS
    others: tuple[Hypothesized, ...] = field(default=())


class Search(Protocol):
    """A way to find tokens. Call `next` and `feed` in turn until a verdict says stop, then `result`."""

    def next(self) -> DecodeRequest: ...
    def feed(self, output: DecodeOutput) -> Verdict: ...
    def result(self) -> SearchResult: ...


class Guard(Protocol):
    """Watches the tokens of a search; it may only truncate.

    `check` sees the tokens sampled so far, the cross-attention of this hypothesis ([heads, queries, frames] or None
    where no heads were chosen): all queries so far, the prompt's first; the last one predicted the newest token, and
    that token's log-probability. It returns how many tokens to keep, which ends the search, or None to go on.
    """

    def check(self, tokens: Sequence[int], attention: FloatArray | None, logprob: float) -> int | None: ...


def truncation(
    guards: Sequence[Guard], tokens: Sequence[int], seen: Sequence[FloatArray], logprobs: Sequence[float]
) -> int | None:
    """The number of tokens that the strictest guard lets stand, or None while all are content.

    `seen` are pieces [heads, queries, frames] of the hypothesis's attention; the last query predicted the newest token.
    """
    if not guards:
        return None
    attention = joined(seen)
    found = [keep for guard in guards if (keep := guard.check(tokens, attention, logprobs[-1])) is not None]
    return min(found, default=None)


def joined(seen: Sequence[FloatArray]) -> FloatArray | None:
    """Pieces [heads, queries, frames] of a hypothesis's attention in one; None where there are none."""
    return np.concatenate(seen, axis=1) if seen else None


def run_search(search: Search, decoder: DecoderRun) -> SearchResult:
    """Drive `search` to its end on `decoder`, one request after the other."""
    while True:
        request = search.next()
        verdict = search.feed(decoder.run(request))
        length = request.tokens.shape[1]
        # What was fed ahead in vain is in the cache already.
        if verdict.keep is not None and verdict.keep < length:
            decoder.rewind(length - verdict.keep)
        if verdict.stop:
            return search.result()
