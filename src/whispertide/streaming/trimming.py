"""Rules for cutting a long window at its front. Pure functions of words and times; the policy does the cutting.

`sentence_cut` is one of whisper_streaming's two modes; the other is `segment_cut` (`methods.agreement.whole_window`).
`forced_cut` is what it lacks: a window in which nothing gets confirmed must not outgrow the 30 s that Whisper can take.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from whispertide.punctuation import ends_sentence
from whispertide.types import SAMPLE_RATE, Span, Word

MARGIN = SAMPLE_RATE // 10  # a word's start is known to about 0.1 s


def sentence_cut(confirmed: Sequence[Word]) -> int | None:
    """The end of the last sentence but one of the confirmed words, the last being possibly incomplete.

    None if there are fewer than two (`OnlineASRProcessor.chunk_completed_sentence`).
    """
    ends = [word.end for word in confirmed[:-1] if ends_sentence(word.text)]
    return ends[-1] if ends else None


@dataclass(frozen=True, slots=True)
class ForcedCut:
    """The number of words of the hypothesis to confirm although nobody agreed, and where to cut then."""

    confirm: int
    cut: int


def forced_cut(hypothesis: Sequence[Word], window: Span, least: int) -> ForcedCut:
    """Make room at the front of a full window: confirm the older part of `hypothesis` and cut after it.

    The words of the last quarter, which may still change, stay. Among the others the cut goes to the widest pause, in
    front of the last word before it: that is heard again and ties the next round to this one. At least `least` samples
    are gained, or half the window where that is less, and no audio is lost in which an unconfirmed word of the
    hypothesis begins.
    """
    unsettled = window.end - len(window) // 4
    earliest = window.start + min(least, len(window) // 2)
    pauses = {
        i + 1: (hypothesis[i + 1].start if i + 1 < len(hypothesis) else window.end) - word.end
        for i, word in enumerate(hypothesis)
        if earliest <= word.end <= unsettled
    }
    # Of equal pauses the last, which makes most room.
    confirm = max(pauses, key=lambda count: (pauses[count], count)) if pauses else 0
    # A word so early that the cut must go after its start can only be confirmed, however long it claims to be.
    while confirm < len(hypothesis) and hypothesis[confirm].start - MARGIN < earliest:
        confirm += 1
    if confirm and hypothesis[confirm - 1].start - MARGIN >= earliest:
        return ForcedCut(confirm, hypothesis[confirm - 1].start - MARGIN)
    following = hypothesis[confirm].start - MARGIN if confirm < len(hypothesis) else unsettled
    return ForcedCut(confirm, min(following, unsettled))
