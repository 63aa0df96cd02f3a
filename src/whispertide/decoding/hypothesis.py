"""What all searches share about hypotheses: growing one, asking the guards, ranking the finished ones.

Knows nothing of logits or rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from whispertide.decoding.search import Guard, Hypothesized, StopReason
from whispertide.types import FloatArray


@dataclass(slots=True)
class Trail:
    """A hypothesis that still grows: sampled tokens, their log-probabilities, and what its queries attended to."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    seen: tuple[FloatArray, ...] = ()

    def copy(self) -> Trail:
        """An independent copy."""
        return Trail(list(self.tokens), list(self.logprobs), self.seen)

    def see(self, attention: FloatArray | None) -> None:
        """Note what the newest queries attended to, [heads, queries, frames]."""
        if attention is not None:
            self.seen = (*self.seen, attention)

    def take(self, token: int, logprob: float, *, eot: int, limit: int, guards: Sequence[Guard]) -> Hypothesized | None:
        """Append one sampled token, unless it is `eot`.

        Returns the finished hypothesis at `eot`, where a guard cuts, and at `limit` tokens; else None.
        """
        if token == eot:
            return self.close("end_of_text", eot_logprob=logprob)
        self.tokens.append(token)
        self.logprobs.append(logprob)
        keep = truncation(guards, self.tokens, self.seen)
        if keep is not None:
            return self.close("guard", keep=keep)
        return self.close("length") if len(self.tokens) >= limit else None

    def close(self, stop: StopReason, *, keep: int | None = None, eot_logprob: float = 0.0) -> Hypothesized:
        """The finished hypothesis: the first `keep` tokens (None = all), and what ending it cost."""
        tokens, logprobs = tuple(self.tokens[:keep]), tuple(self.logprobs[:keep])
        return Hypothesized(tokens, logprobs, sum(logprobs) + eot_logprob, stop, self.seen)


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


def row_attention(attention: FloatArray | None, row: int) -> FloatArray | None:
    """One hypothesis's queries: [heads, rows, length, frames] -> [heads, length, frames]."""
    return None if attention is None else attention[:, row]


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
