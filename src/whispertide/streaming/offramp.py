"""Whether this machine hears the end of an utterance itself, or leaves it to a larger model elsewhere.

The decision is made when speech ends, by what the newest pilot was like: it is there already, and most of the text was
in it. A score above the threshold is an utterance for the other one. Source: pilot inference (arXiv 2311.17065), 5.

    perplexity  of the pilot's text
    entropy     of its first token, as DeeBERT decides (arXiv 2004.12993): a baseline
    random      a share of all utterances, 1 - threshold: what any other has to beat
    bilstm, cnn, linear
                the probability that its text is not good enough, by a small network (`trained_offramp`)
"""

import random
from dataclasses import dataclass
from typing import Literal, TypeGuard

from whispertide.streaming.pilot import Scores
from whispertide.streaming.trained_offramp import TRAINED, Trained
from whispertide.types import Span

Signal = Literal["perplexity", "entropy", "random", "bilstm", "cnn", "linear"]


def is_trained(signal: Signal) -> TypeGuard[Trained]:
    """Whether a network decides."""
    return signal in TRAINED


@dataclass(frozen=True, slots=True)
class Offramp:
    """Decides by one number. `threshold` 0 sends every utterance that had a pilot, infinity none."""

    signal: Signal = "perplexity"
    threshold: float = 2.0

    def score(self, pilot: Scores, window: Span) -> float:
        """How little the pilot is to be trusted."""
        if self.signal == "random":
            # Seeded by the window, so that a recording gives the same choices each time. As a text, because the
            # generator takes no pair of numbers.
            return random.Random(f"{window.start} {window.end}").random()
        if is_trained(self.signal):
            return pilot.offload_probability
        return pilot.perplexity if self.signal == "perplexity" else pilot.entropy

    def sends(self, pilot: Scores | None, window: Span) -> bool:
        """Whether the utterance in `window` is for the other one. Without a pilot nobody knows, and it stays here."""
        return pilot is not None and self.score(pilot, window) > self.threshold
