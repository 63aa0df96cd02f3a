"""What all searches share about hypotheses: growing one, asking the guards, ranking the finished ones.

Knows nothing of logits or rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from whispertide.decoding.search import Guard, Hypothesized, StopReason
from whispertide.types import FloatArray


@dataclass(slots=True)
class Trail:
    """A hypothesis that still grows: sampled tokens and their log-probabilities."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def take(self, token: int, logprob: float) -> None:
        """Append one sampled token."""
        self.tokens.append(token)
        self.logprobs.append(logprob)

    def close(self, stop: StopReason, *, keep: int | None = None, eot_logprob: float = 0.0) -> Hypothesized:
        """The finished hypothesis: the first `keep` tokens (None = all), and what ending it cost."""
        tokens, logprobs = tuple(self.tokens[:keep]), tuple(self.logprobs[:keep])
        return Hypothesized(tokens, logprobs, sum(logprobs) + eot_logprob, stop)


def truncation(guards: Sequence[Guard], tokens: Sequence[int], attention: FloatArray | None) -> int | None:
    """How many tokens the strictest guard lets stand, or None while all are content.

    attention [heads, frames] belongs to the query that predicted the newest token.
    """
    answers = [guard.check(tokens, attention) for guard in guards]
    return min((answer for answer in answers if answer is not None), default=None)


def query_attention(attention: FloatArray | None, row: int, position: int) -> FloatArray | None:
    """One query's rows: [heads, rows, length, frames] -> [heads, frames]."""
    return None if attention is None else attention[:, row, position]


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
