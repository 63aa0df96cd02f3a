"""Word error rates of a live text, at every chunk of the audio and not only at its end (WhisperRT, arXiv 2508.12301).

    ARWER   at each chunk time: the edits from what is shown to the reference words that have been said to their end,
            all of them over the words of all those references; so it tells of errors and of lateness in one figure
    RWER    ours: the same with that beginning of the reference that is nearest to what is shown, however long it is.
            The paper's own definition, which is said to ignore lateness, is not in what is known of it

Words are compared as Whisper's normaliser leaves each by itself. What is shown is all of it, confirmed or guess.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whispertide.types import seconds
from whispertide_lab.evaluation.revisions import Edits, next_row
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.evaluation.views import look
from whispertide_lab.evaluation.wer import normalise_word
from whispertide_lab.speech.utterance import Utterance


@dataclass(frozen=True, slots=True)
class AlignedErrors:
    """Sums over chunk times: `edits` to the words that had been said, `nearest` to the nearest beginning, `words`."""

    edits: int = 0
    nearest: int = 0
    words: int = 0

    def __add__(self, other: "AlignedErrors") -> "AlignedErrors":
        return AlignedErrors(self.edits + other.edits, self.nearest + other.nearest, self.words + other.words)

    @property
    def arwer(self) -> float | None:
        """The aligned relative word error rate; None where no word was said."""
        return self.edits / self.words if self.words else None

    @property
    def rwer(self) -> float | None:
        """The relative word error rate."""
        return self.nearest / self.words if self.words else None


def aligned_errors(utterance: Utterance, trace: Trace, chunk_s: float, language: str = "en") -> AlignedErrors:
    """Those of one utterance with exact word times, at every multiple of `chunk_s` within its audio."""
    timed = [(normalise_word(word.text, language), word.end) for word in utterance.words if word.end is not None]
    reference = [key for key, _ in timed if key]
    ends = np.array([seconds(end) for key, end in timed if key])
    viewing = look(trace, language)
    views, fixed = deque(viewing.views), 0
    confirmed = np.arange(len(reference) + 1)  # edits from what is confirmed to every beginning of the reference
    shown = confirmed
    total = AlignedErrors()
    for chunk in range(1, int(trace.audio_s / chunk_s + 1e-9) + 1):
        while views and views[0].at_s <= chunk * chunk_s + 1e-9:
            view = views.popleft()
            confirmed = _extended(confirmed, [key for key in viewing.keys[fixed : view.fixed] if key], reference)
            shown, fixed = _extended(confirmed, view.tail, reference), view.fixed
        said = int(np.searchsorted(ends, chunk * chunk_s + 1e-9, side="right"))
        total += AlignedErrors(int(shown[said]), int(shown.min()), said)
    return total


def _extended(edits: Edits, words: Sequence[str], reference: Sequence[str]) -> Edits:
    """The edits once `words` are added to a text."""
    for word in words:
        edits = next_row(edits, np.array([word != other for other in reference], bool))
    return edits
