"""A beam search that ends when its text is as long as was expected.

Whisper's beam search goes on until as many hypotheses have ended as there are rows, though the best of them has usually
ended long before. Where an earlier search over part of the audio says how long the text is going to be, a search that
has come so far ends with the first hypothesis that does. Source: pilot inference (arXiv 2311.17065), 4.3.
"""

from dataclasses import dataclass

from whispertide.decoding.end import End

ALLOWANCE = 5  # tokens that a text may be longer than expected


def expected_length(tokens: int, heard: int, whole: int, allowance: int = ALLOWANCE) -> int:
    """The expected tokens of the text of `whole` samples, when `heard` of them gave so many tokens."""
    return round(tokens * whole / heard) + allowance


@dataclass(frozen=True, slots=True)
class Capped(End):
    """From `cap` tokens on a search ends as soon as any text has ended."""

    cap: int

    def is_enough(self, length: int) -> bool:
        """True if the others are as long as was expected."""
        return length >= self.cap
