"""Decides whether this machine transcribes the end of an utterance itself, or leaves it to a larger model elsewhere.

The decision is made when speech ends, by what the newest pilot was like: it is there already, and most of the text was
in it. A score above the threshold is an utterance for the other one. Source: pilot inference (arXiv 2311.17065), 5.

    perplexity  of the pilot's text
    entropy     of its first token, as DeeBERT decides (arXiv 2004.12993): a baseline
    random      a share of all utterances, 1 - threshold: what any other has to beat

Networks that were trained to decide gained nothing over perplexity (docs/internals/pilot.md).
"""

import random
from dataclasses import dataclass
from typing import ClassVar, Literal

from whispertide.errors import OptionError
from whispertide.methods.pilot.pilot import Scores
from whispertide.streaming.choice import setting
from whispertide.streaming.executors import ExecutorChoice
from whispertide.types import Span

Signal = Literal["perplexity", "entropy", "random"]


@dataclass(frozen=True, slots=True)
class Offramp:
    """Decides by one number. `threshold` 0 sends every utterance that had a pilot, infinity none."""

    signal: Signal = "perplexity"
    threshold: float = 2.0

    def score(self, pilot: Scores, window: Span) -> float:
        """The distrust of the pilot: the higher, the less it is to be trusted."""
        if self.signal == "random":
            # Seeded by the window, so that a recording gives the same choices each time. As a text, because the
            # generator takes no pair of numbers.
            return random.Random(f"{window.start} {window.end}").random()
        return pilot.perplexity if self.signal == "perplexity" else pilot.entropy

    def sends(self, pilot: Scores | None, window: Span) -> bool:
        """True if the utterance in `window` is for the other one. Without a pilot nobody knows, and it stays here."""
        return pilot is not None and self.score(pilot, window) > self.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid(ExecutorChoice):
    """Rounds one after the other, in the background; the last round of an utterance runs here or on a server (pilot
    inference).

    The server is not part of a recipe: `WHISPERTIDE_REMOTE` names it (`hybrid`). Without one all is decoded here.
    """

    kind: ClassVar[str] = "hybrid"
    ahead: ClassVar[bool] = True
    offramp: Signal = setting(
        "perplexity",
        'criterion for sending an utterance to the server: the newest pilot\'s "perplexity", the "entropy" of '
        'its first token, or "random" choice',
    )
    threshold: float = setting(2.0, "it is sent if the criterion is above this (0 = always)", least=0, most=1e6)
    remote_s: float = setting(2.0, "deadline of the server's answer after the end of speech", least=0.05, most=60)
    tries: int = setting(2, "most requests, while there is time", least=1, most=10)
    early: bool = setting(False, "whether uploads begin during speech, if the pilots are above the threshold")

    def check(self) -> None:
        """Chance gives numbers from 0 to 1."""
        ExecutorChoice.check(self)
        if self.offramp == "random" and self.threshold >= 1:
            raise OptionError(
                f"expected a threshold below 1 for offramp={self.offramp}, whose numbers all are; got "
                f"{self.threshold:g}: choose threshold=0.5, for instance"
            )

    def decides(self) -> Offramp:
        return Offramp(self.offramp, self.threshold)
