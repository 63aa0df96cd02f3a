"""How likely CTC finds it that a text begins with some tokens: exact, frame by frame, for many next tokens at once.

For a prefix there are two sums of paths at each frame: those that end in its last token, and those that end in a blank.
The total of a longer prefix is the sum over the frames in which its last token can begin. (Watanabe et al. 2017,
algorithm 2; pilot inference, section 5; ALGORITHMS G.)

A pilot's sums can be taken over (the paper's CTC leap): for the same prefix they are copied up to a frame, and only the
rest is computed. The total needs its early part too, which the paper leaves out: it is summed anew from the prefix's
own sums. Where the early frames are those of the pilot, nothing is lost.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whispertide.types import IntArray

Sums = npt.NDArray[np.float64]

NEVER = -np.inf
_LEAST = -1e6  # stands for a frame that cannot say a token; finite, since sums of it are taken away again


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prefix and its sums over [frames]: paths that end in its `last` token (-1: none), or in a blank.

    `length` in tokens, `total` is the log probability that a text begins so.
    """

    length: int
    last: int
    in_token: Sums
    in_blank: Sums
    total: float

    @property
    def whole(self) -> float:
        """The log probability that the text is this, and nothing else."""
        return float(np.logaddexp(self.in_token[-1], self.in_blank[-1]))


@dataclass(frozen=True, slots=True)
class Extensions:
    """One prefix, longer by each of some tokens.

    tokens               int64 [k]
    in_token, in_blank   [k, frames]
    totals               [k]
    """

    length: int
    tokens: IntArray
    in_token: Sums
    in_blank: Sums
    totals: Sums

    def prefix(self, at: int) -> Prefix:
        """With the token number `at` of those."""
        return Prefix(
            self.length + 1, int(self.tokens[at]), self.in_token[at], self.in_blank[at], float(self.totals[at])
        )


def empty(scores: Sums) -> Prefix:
    """No token yet, over CTC's log probabilities [frames, tokens + 1]; the blank is the last."""
    blanks = np.cumsum(scores[:, -1].astype(np.float64))
    return Prefix(0, -1, np.full(len(scores), NEVER), blanks, 0.0)


def extend(
    scores: Sums, prefix: Prefix, tokens: IntArray, known: Extensions | None = None, until: int = 0
) -> Extensions:
    """The prefix, longer by each of `tokens` [k], over CTC's log probabilities [frames, tokens + 1].

    known, until: the same tokens after the same prefix as a pilot had them, and how many of its first frames count as
    these. Raises ValueError where `known` has other tokens.
    """
    if known is not None and (known.length != prefix.length or not np.array_equal(known.tokens, tokens)):
        raise ValueError("expected what a pilot knows of the same tokens after a prefix as long")
    frames = len(scores)
    said = scores[:, tokens].T.astype(np.float64)  # [k, frames]
    blank = scores[:, -1].astype(np.float64)
    before = _before(prefix, tokens)  # [k, frames]: paths of the prefix after which the token is a new one
    in_token, in_blank = (np.full(said.shape, NEVER) for _ in range(2))
    first = max(prefix.length, 1)
    if prefix.length == 0 and frames:
        in_token[:, 0] = said[:, 0]
    start = first
    if known is not None:
        start = max(first, min(until, known.in_token.shape[1], frames))
        in_token[:, :start], in_blank[:, :start] = known.in_token[:, :start], known.in_blank[:, :start]
    if start < frames:
        blanks = np.broadcast_to(blank[start:], in_blank[:, start:].shape)
        in_token[:, start:] = _paths(said[:, start:], before[:, start - 1 : -1], in_token[:, start - 1])
        in_blank[:, start:] = _paths(blanks, in_token[:, start - 1 : -1], in_blank[:, start - 1])
    # Each frame in which the token may begin counts; paths that stay in it were counted where they began.
    begins = before[:, first - 1 : frames - 1] + said[:, first:]
    if prefix.length == 0:
        begins = np.concatenate([said[:, :1], begins], axis=1)
    totals = np.logaddexp.reduce(begins, axis=1) if begins.shape[1] else np.full(len(tokens), NEVER)
    return Extensions(prefix.length, tokens, in_token, in_blank, totals)


def _paths(said: Sums, entering: Sums, at_first: Sums) -> Sums:
    """Paths that stay, or enter from the frame before, and then say what each frame says: [k, frames].

    The recurrence p[t] = (p[t - 1] + entering[t]) said[t], all at once: with the running product s of what is said,
    p / s is a running sum of entering / s[t - 1]. In logarithms this takes no division.
    """
    running = np.cumsum(np.maximum(said, _LEAST), axis=1)
    earlier = np.concatenate([np.zeros((len(said), 1)), running[:, :-1]], axis=1)
    terms = entering - earlier
    terms[:, 0] = np.logaddexp(terms[:, 0], at_first)
    sums: Sums = np.logaddexp.accumulate(terms, axis=1) + running
    return np.where(sums < _LEAST / 2, NEVER, sums)


def _before(prefix: Prefix, tokens: IntArray) -> Sums:
    """Where the prefix's last token comes once more, a blank must lie between."""
    either = np.logaddexp(prefix.in_token, prefix.in_blank)
    return np.where((tokens == prefix.last)[:, None], prefix.in_blank, either)
