"""Chances, by CTC, that a text begins with some tokens: exact, frame by frame, for many next tokens at once.

For a prefix there are two sums of paths at each frame: those that end in its last token, and those that end in a blank.
The total of a longer prefix is the sum over the frames in which its last token can begin. (Watanabe et al. 2017,
algorithm 2; pilot inference, section 5; ALGORITHMS G.) A total needs no sums of the longer prefix itself, so these are
computed only for the prefixes that a search keeps.

A pilot's sums can be taken over (the paper's CTC leap): of the same prefix they are copied up to a frame, and so are
the shares of the totals of its continuations that begin before that frame; only the rest is computed. Where the early
frames are those of the pilot, nothing is lost.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whispertide.types import IntArray

Sums = npt.NDArray[np.float64]

NEVER = -np.inf
_LEAST = -1e6  # stands for a frame that cannot say a token; finite, since sums of it are taken away again


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Some prefixes of `length` tokens.

    last                 [n], their last tokens (-1: none)
    in_token, in_blank   [n, frames], sums of the paths that end in the last token, or in a blank
    totals               [n], log probabilities that a text begins so
    """

    length: int
    last: IntArray
    in_token: Sums
    in_blank: Sums
    totals: Sums

    @property
    def wholes(self) -> Sums:
        """Log probabilities [n] that the text is this, and nothing else."""
        whole: Sums = np.logaddexp(self.in_token[:, -1], self.in_blank[:, -1])
        return whole

    def row(self, at: int) -> "Prefixes":
        """That one alone."""
        one = slice(at, at + 1)
        return Prefixes(self.length, self.last[one], self.in_token[one], self.in_blank[one], self.totals[one])


def empty(scores: Sums) -> Prefixes:
    """One prefix without any token, over CTC's log probabilities [frames, tokens + 1]; the blank is the last."""
    # In double precision, since a long recording has thousands of summands.
    blanks = np.cumsum(scores[:, -1].astype(np.float64))[None]
    return Prefixes(0, np.array([-1]), np.full(blanks.shape, NEVER), blanks, np.zeros(1))


@dataclass(frozen=True, slots=True)
class Early:
    """Of a prefix's continuations by `tokens` [k] the `shares` [k] of their totals that begin before frame `until`."""

    tokens: IntArray
    shares: Sums
    until: int

    def of(self, tokens: IntArray) -> "Early":
        """Those of these tokens alone, in this order. Raises ValueError where one is unknown."""
        places = [self.tokens.tolist().index(token) for token in tokens.tolist()]
        return Early(tokens, self.shares[places], self.until)


def beginnings(scores: Sums, prefixes: Prefixes, tokens: IntArray, start: int, end: int) -> Sums:
    """The shares [n, k] of the totals of every prefix, longer by each of its `tokens` [n, k], in which that token
    begins in a frame from `start` to before `end`: from the first frame to the last, the totals themselves.
    """
    # A token takes a frame at least, so what comes after n of them cannot begin before frame n.
    first = min(max(prefixes.length, 1, start), end)
    entered = slice(first - 1, end - 1) if end else slice(0)
    in_blank = prefixes.in_blank[:, None, entered]
    either = np.logaddexp(prefixes.in_token[:, None, entered], in_blank)
    again = (tokens == prefixes.last[:, None])[..., None]
    before = np.where(again, in_blank, either)  # where a token comes again, a blank lies between
    # Each frame in which the token may begin counts; paths that stay in it were counted where they began.
    begins = before + scores[first:end].T[tokens]
    if prefixes.length == start == 0 < end:
        # The first token of all may also begin in frame 0, which no frame comes before.
        begins = np.concatenate([scores[:1].T[tokens], begins], axis=-1)
    # A prefix as long as the audio leaves no frame to begin in: then it never does.
    shares: Sums = np.logaddexp.reduce(begins, axis=-1, initial=NEVER)
    return shares


def longer(
    scores: Sums,
    prefixes: Prefixes,
    rows: IntArray,
    tokens: IntArray,
    totals: Sums,
    known: Prefixes | None = None,
    until: int = 0,
) -> Prefixes:
    """The prefixes `rows` [r], each longer by one of `tokens` [r], whose `totals` [r] are known.

    known, until: the sums that a pilot has of the same longer prefixes, and how many of its first frames count as
    these. Raises ValueError where it has other prefixes.
    """
    length, frames = prefixes.length + 1, len(scores)
    if known is not None and (known.length != length or not np.array_equal(known.last, tokens)):
        raise ValueError("expected what a pilot knows of prefixes as long that end in the same tokens")
    said, blank = scores.T[tokens].astype(np.float64), scores[:, -1].astype(np.float64)
    in_token, in_blank = (np.full(said.shape, NEVER) for _ in range(2))
    start = max(prefixes.length, 1)
    if prefixes.length == 0 and frames:
        in_token[:, 0] = said[:, 0]
    # A prefix longer than the pilot's audio, which a decoder can think of, has no frames to take over.
    if known is not None and (taken := min(until, known.in_token.shape[1], frames)) > start:
        start = taken
        in_token[:, :start], in_blank[:, :start] = known.in_token[:, :start], known.in_blank[:, :start]
    if start < frames:
        again = (tokens == prefixes.last[rows])[:, None]
        either = np.logaddexp(prefixes.in_token[rows], prefixes.in_blank[rows])
        before = np.where(again, prefixes.in_blank[rows], either)
        blanks = np.broadcast_to(blank[start:], in_blank[:, start:].shape)
        in_token[:, start:] = _paths(said[:, start:], before[:, start - 1 : -1], in_token[:, start - 1])
        # After the line before it: these paths enter from the ones that were just filled in.
        in_blank[:, start:] = _paths(blanks, in_token[:, start - 1 : -1], in_blank[:, start - 1])
    return Prefixes(length, tokens, in_token, in_blank, totals)


def _paths(said: Sums, entering: Sums, at_first: Sums) -> Sums:
    """Paths that stay, or enter from the frame before, and then say what each frame says: [r, frames].

    The recurrence p[t] = (p[t - 1] + entering[t]) said[t], all at once: with the running product s of what is said,
    p / s is a running sum of entering / s[t - 1]. In logarithms this takes no division.
    """
    running = np.cumsum(np.maximum(said, _LEAST), axis=1)
    earlier = np.concatenate([np.zeros((len(said), 1)), running[:, :-1]], axis=1)
    terms = entering - earlier
    # What stays from the frame before the first one enters there like any other path.
    terms[:, 0] = np.logaddexp(terms[:, 0], at_first)
    sums: Sums = np.logaddexp.accumulate(terms, axis=1) + running
    # A path with a frame that cannot say its token lies around `_LEAST`; possible ones stay far above that.
    return np.where(sums < _LEAST / 2, NEVER, sums)
