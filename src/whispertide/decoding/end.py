"""When a text ends before a guard or its length ends it: whether end of text is taken at its word.

Without a rule it is. Knows nothing of probabilities: a search asks where end of text would be its next token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


class End:
    """Says whether end of text ends a text, and a text a search."""

    __slots__ = ()

    def ends(self, sampled: Sequence[int], runner_up: int) -> bool:
        """True if `sampled` is all; else `runner_up`, the likeliest token but end of text, takes its place."""
        return True

    def is_enough(self, length: int) -> bool:
        """True if one text that has ended is enough, where the others have so many tokens."""
        return False


@dataclass(frozen=True, slots=True)
class SecondBest(End):
    """The second-best token takes the place of end of text, unless it says nothing: then the text is over (NPUsper).

    On short windows without padding a decoder's end of text comes too early or too late. Tokens from `text_end` on are
    special; `speaks` tells whether a token says anything. Before `least` tokens end of text is not accepted at all;
    afterwards it always is where `real_end`.
    """

    speaks: Callable[[int], bool]
    text_end: int
    least: int = 0
    real_end: bool = False

    def ends(self, sampled: Sequence[int], runner_up: int) -> bool:
        """True if the text is over."""
        if len(sampled) < self.least and runner_up < self.text_end:
            return False
        return self.real_end or not self.speaks(runner_up)
