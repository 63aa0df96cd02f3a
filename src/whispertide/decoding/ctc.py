"""Exact CTC prefix scores: how likely it is that a text begins with given tokens, over all ways to spread it in time.

A prefix keeps, for each frame, the log-probability of all paths up to there that say it and end in its last token or
in a blank. One more token follows from that frame by frame. Sources: Watanabe et al. 2017 (hybrid CTC/attention);
Graves 2012, 3.3.

A search over more of the same audio may leap: over frames that an earlier search has scored for the same prefix, its
values are taken as they are (pilot inference, arXiv 2311.17065, 4.4). The prefix score is a sum over all frames, so the
sum up to the leap is needed too, which the paper does not mention; it is kept here for every frame. A leap is exact
where the posteriors before it are the same, and else an approximation.

Log-probabilities are natural; arrays are float64.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
NOTHING = -np.inf


@dataclass(frozen=True, slots=True)
class Prefix:
    """Some tokens, and what is known of them.

    ending   [frames] log-probability of the paths up to each frame that say them and end in the last token
    blank    [frames] likewise, ending in a blank
    reached  [frames] log-probability that they have all begun by then: the prefix score, as far as it is summed up
    """

    tokens: tuple[int, ...]
    ending: Floats
    blank: Floats
    reached: Floats

    @property
    def score(self) -> float:
        """That a text begins with the tokens; 0 for none."""
        return float(self.reached[-1]) if self.tokens else 0.0

    @property
    def whole(self) -> float:
        """That the text is these tokens and no more."""
        return float(np.logaddexp(self.ending[-1], self.blank[-1]))


@dataclass(frozen=True, slots=True)
class Leap:
    """What an earlier search knew of each prefix, and up to which frame it is taken over."""

    known: Mapping[tuple[int, ...], Prefix]
    frame: int

    @classmethod
    def over(cls, known: Mapping[tuple[int, ...], Prefix], share: float = 0.75) -> "Leap":
        """`share` of the frames of the earlier search, 0.5 to 1: its last ones had too little audio after them."""
        if not 0 <= share <= 1:
            raise ValueError(f"expected a share from 0 to 1; got {share}")
        frames = min((len(prefix.ending) for prefix in known.values()), default=0)
        return cls(known, int(share * frames))


class PrefixScorer:
    """Scores prefixes of one utterance. `posteriors` [frames, tokens] are log-probabilities; `blank` is a token."""

    def __init__(self, posteriors: npt.ArrayLike, blank: int) -> None:
        self.posteriors: Floats = np.asarray(posteriors, dtype=np.float64)
        if self.posteriors.ndim != 2 or not len(self.posteriors):
            raise ValueError(f"expected posteriors [frames, tokens] of a frame or more; got {self.posteriors.shape}")
        self.blank = blank

    def empty(self) -> Prefix:
        """Of a text of which nothing is known."""
        blank = np.cumsum(self.posteriors[:, self.blank])
        return Prefix((), np.full(len(blank), NOTHING), blank, np.full(len(blank), NOTHING))

    def extend(self, prefix: Prefix, tokens: Sequence[int], leap: Leap | None = None) -> list[Prefix]:
        """The prefix with each of `tokens` after it; none of them is the blank.

        With a `leap` that knows all of these the frames before it are taken over; where it does not, none are.
        """
        chosen = np.asarray(tokens, dtype=np.int64)
        said = self.posteriors[:, chosen]
        before = self._before(prefix, chosen)
        first = max(len(prefix.tokens), 1)
        shape = said.shape
        ending, blank, reached = (np.full(shape, NOTHING) for _ in range(3))
        if not prefix.tokens:
            ending[0] = reached[0] = said[0]
        begin = first
        if leap is not None and all((*prefix.tokens, token) in leap.known for token in tokens):
            begin = max(first, min(leap.frame, shape[0]))
            for place, token in enumerate(tokens):
                known = leap.known[(*prefix.tokens, token)]
                ending[:begin, place] = known.ending[:begin]
                blank[:begin, place] = known.blank[:begin]
                reached[:begin, place] = known.reached[:begin]
        for frame in range(begin, shape[0]):
            ending[frame] = np.logaddexp(ending[frame - 1], before[frame - 1]) + said[frame]
            blank[frame] = np.logaddexp(ending[frame - 1], blank[frame - 1]) + self.posteriors[frame, self.blank]
            reached[frame] = np.logaddexp(reached[frame - 1], before[frame - 1] + said[frame])
        return [
            Prefix((*prefix.tokens, token), ending[:, place], blank[:, place], reached[:, place])
            for place, token in enumerate(tokens)
        ]

    def _before(self, prefix: Prefix, tokens: npt.NDArray[np.int64]) -> Floats:
        """[frames, tokens]: paths after which each token may begin; the same token again needs a blank between."""
        either = np.logaddexp(prefix.ending, prefix.blank)
        before = np.repeat(either[:, None], len(tokens), axis=1)
        if prefix.tokens:
            before[:, tokens == prefix.tokens[-1]] = prefix.blank[:, None]
        return before
