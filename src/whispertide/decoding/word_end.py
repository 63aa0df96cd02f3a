"""The seam of a word-truncation detector: has the last word of a window been spoken to its end?

Simul-Whisper asks an integrate-and-fire layer over the encoder's output (Wang et al. 2024). Who trains and loads such
a layer is not known here.
"""

from typing import Protocol

from whispertide.types import FloatArray


class WordEndDetector(Protocol):
    """Looks at the encoder's output of the frames with real audio."""

    def fires(self, hidden: FloatArray) -> bool:
        """True if a word boundary lies at the end of `hidden`, [frames, width]: then the last word is whole."""
