"""What a causal Whisper should have said by a moment of a window, and at which moments it is asked.

At a sample point, the end of a block, the answer has the tokens that have ended by then, and after them the end of the
text. The decoder is given the true text; what comes after the end does not count (WhisperRT, figure 7; ALGORITHMS E).
No torch. Knows nothing of sound or networks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint.tokenizer import Tokenizer
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.windows import Window

FRAMES_PER_SECOND = SAMPLE_RATE // FRAME_SAMPLES
AFTER_S = 1.0  # how long after the last word there may be sample points

# The share of the block ends that are sample points, by the frames in a block; longer blocks have the last one.
_FRAMES, _SHARES = (2, 5, 10, 15), (0.02, 0.05, 0.1, 0.25)

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spoken:
    """The answer to a window, and when each token of it is over.

    tokens   [n] what the decoder is given
    targets  [n] what it should say after each; -1 for what is given at inference: prompt, start of the transcript
    ends     [n] seconds at which the target has been heard; 0 where it is -1, infinity for the end of the text
    exact    whether the words' times are known; else all words are over at the end of the window
    """

    tokens: Ids
    targets: Ids
    ends: npt.NDArray[np.float64]
    exact: bool

    @classmethod
    def of(cls, window: Window, tokenizer: Tokenizer, window_s: float) -> "Spoken":
        """The answer to a window that has no timestamps. The tokens of a word share its time evenly."""
        start = int(np.flatnonzero(window.tokens == tokenizer.no_timestamps)[0])
        targets = window.targets.copy()
        targets[:start] = -1
        ends = np.where(targets >= 0, window_s, 0.0)
        text = np.flatnonzero((targets >= 0) & (targets != tokenizer.eot))
        exact = bool((window.places[text] >= 0).all())
        if exact:
            ends[text] = _shared(window.places[text].astype(np.float64))
        ends[targets == tokenizer.eot] = np.inf
        return cls(window.tokens, targets, ends, exact)

    def by(self, second: float, eot: int) -> Ids:
        """The targets [n] at a sample point: those that have ended, the end of the text, and -1 for all others."""
        targets = self.targets.copy()
        to_come = np.flatnonzero((targets >= 0) & (self.ends > second))
        if len(to_come):
            targets[to_come[0]] = eot
            targets[to_come[0] + 1 :] = -1
        return targets

    @property
    def last_s(self) -> float:
        """When the last word is over; 0 where nothing is said."""
        return float(self.ends[np.isfinite(self.ends)].max(initial=0.0))


def _shared(places: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """When each token is over, of places [n, 2] that tokens of one word have in common."""
    ends = np.empty(len(places))
    changes = np.flatnonzero((places[1:] != places[:-1]).any(axis=1)) + 1
    for run in np.split(np.arange(len(places)), changes):
        if len(run):
            start, end = places[run[0]]
            ends[run] = start + (end - start) * np.arange(1, len(run) + 1) / len(run)
    return ends


def sample_points(spoken: Spoken, ends: Sequence[int], block: int, dice: Dice) -> list[int]:
    """The block ends, in frames and in an order by the dice, at which a window's answer is asked.

    `ends` are those of all blocks of `block` frames in the window, the last one its end. Drawn are some until a second
    after the last word; in silence, of all of them. Where the words' times are not known it is the end alone.
    """
    if not spoken.exact:
        return [ends[-1]]
    until = (spoken.last_s + AFTER_S) * FRAMES_PER_SECOND if spoken.last_s else ends[-1]
    # not the end itself: a word that it cuts off there would count as said
    possible = [end for end in ends[:-1] if end <= until] or [ends[0]]
    count = int(len(possible) * np.interp(block, _FRAMES, _SHARES)) + 1
    return [possible[place] for place in dice.permutation(len(possible))[:count]]
