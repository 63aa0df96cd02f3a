"""What all searches share about hypotheses: one that grows, asking the guards, ranking the finished ones.

Knows nothing of logits or rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whispertide.decoding.search import Guard, Hypothesized, StopReason
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One that still grows: its tokens, the row of the last run that it continues, and what its queries attended to."""

    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    total: float = 0.0
    parent: int = 0
    seen: tuple[FloatArray, ...] = ()

    def close(self, stop: StopReason, keep: int | None = None) -> Hypothesized:
        """The hypothesis as it stands, cut to `keep` tokens (None = all)."""
        total = self.total if keep is None else sum(self.logprobs[:keep])
        return Hypothesized(self.tokens[:keep], self.logprobs[:keep], total, stop, self.seen)


def truncation(guards: Sequence[Guard], tokens: Sequence[int], seen: Sequence[FloatArray]) -> int | None:
    """How many tokens the strictest guard lets stand, or None while all are content.

    `seen` are pieces [heads, queries, frames] of the hypothesis's attention; the last query predicted the newest token.
    """
    if not guards:
        return None
    attention = joined(seen)
    answers = [guard.check(tokens, attention) for guard in guards]
    return min((answer for answer in answers if answer is not None), default=None)


def joined(seen: Sequence[FloatArray]) -> FloatArray | None:
    """Pieces [heads, queries, frames] of a hypothesis's attention in one; None where there are none."""
    return np.concatenate(seen, axis=1) if seen else None


def score(hypothesis: Hypothesized, length_penalty: float | None) -> float:
    """Log-probability per token, or with the length penalty of Google's NMT paper (arXiv 1609.08144, eq. 14).

    Source: `MaximumLikelihoodRanker` in openai/whisper, decoding.py. The end-of-text token counts in the sum but not
    in the length; an empty hypothesis counts as one token long.
    """
    length = len(hypothesis.tokens)
    penalty = max(length, 1) if length_penalty is None else ((5 + length) / 6) ** length_penalty
    return hypothesis.sum_logprob / penalty


def rank(hypotheses: Sequence[Hypothesized], length_penalty: float | None) -> tuple[Hypothesized, ...]:
    """Best first; equals keep their order."""
    return tuple(sorted(hypotheses, key=lambda hypothesis: score(hypothesis, length_penalty), reverse=True))
