"""Speech in a recording, and what it tells about a window's text: which speech no word accounts for, and
which words nobody spoke.

A voice gate has judged the recording before (`audio.vad`). Whisper shows little of what it leaves out: it closes a text
although somebody speaks on, passes over a quieter voice or another language, and writes a sentence once that was spoken
three times. Of silence it makes words. Arithmetic on times; knows no model and no audio. Ours; the pauses at which
windows end are those of faster-whisper's `vad_filter` (vad.py).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from whispertide.types import SAMPLE_RATE, Span, Word

PAUSE = 2 * SAMPLE_RATE  # a longer one is not shown to the model
AROUND = SAMPLE_RATE * 2 // 5  # that much is heard of a pause, before speech and after it
# Voice that goes on for less after a word that was heard is the end of that word.
REST = SAMPLE_RATE // 2
# So much voice between two words is no sound that was left out, and no word that was placed badly.
UNHEARD = SAMPLE_RATE * 3 // 2
LONGEST_WORD = 2 * SAMPLE_RATE  # what is longer lingers in speech that no word accounts for
LEAD = SAMPLE_RATE // 10  # a gate may hear a word so much after it begins


def begun_with(onset: int, word: Word) -> Word:
    """A word that lasts from a pause into the voice that begins at `onset` begins with that. Alignment puts the
    beginning of a window's first word at the beginning of the window.
    """
    begin = onset - LEAD
    return replace(word, start=begin) if word.start < begin and word.end > onset else word


@dataclass(frozen=True, slots=True)
class Voice:
    """Stretches in which somebody speaks, in samples, in order, with pauses between them."""

    spans: tuple[Span, ...]
    _ends: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ends", tuple(span.end for span in self.spans))

    def within(self, start: int, end: int) -> Iterator[Span]:
        """The parts of the stretches between two samples."""
        for span in self.spans[bisect_right(self._ends, start) :]:
            if max(start, span.start) >= end:
                return
            yield Span(max(start, span.start), min(end, span.end))

    def amount(self, start: int, end: int) -> int:
        """For how many samples somebody speaks between two."""
        return sum(len(part) for part in self.within(start, end))

    def next_start(self, sample: int) -> int | None:
        """The sample to go on from, after all before `sample` was decoded: there, or later if a pause follows.

        None: nobody speaks any more.
        """
        for span in self.spans[bisect_right(self._ends, sample) :]:
            if span.start >= sample or span.end - sample >= REST:
                begin = max(sample, span.start - AROUND)
                return begin if begin - sample > PAUSE else sample
        return None

    def end_before_pause(self, start: int, end: int) -> int:
        """The end of a window that may reach from one sample to another: before a pause, which it may leave out."""
        spoken = start
        for part in self.within(start, end):
            if part.start - spoken > PAUSE and spoken > start:
                break
            spoken = part.end
        return min(end, spoken + AROUND) if end - spoken > PAUSE else end

    def shown(self, end: int) -> int:
        """For how many samples of a recording that has `end` the model hears it, if nobody missed a word: without long
        pauses, but for what is heard around speech.
        """
        if not self.spans:
            return 0
        first, last, left_out = Span(0, 0), Span(end, end), 0
        for before, after in pairwise([first, *self.spans, last]):
            pause = after.start - before.end
            if pause > PAUSE:
                left_out += pause - AROUND * ((before is not first) + (after is not last))
        return end - left_out

    def pause_after(self, least: int, start: int, end: int) -> int | None:
        """A sample in the first pause between two that comes after so much voice; None: there is none."""
        spoken = 0
        for part, following in pairwise(self.within(start, end)):
            spoken += len(part)
            if spoken >= least:
                return min(part.end + AROUND, following.start)
        return None

    def begun(self, words: Sequence[Word]) -> tuple[Word, ...]:
        """The words, none of which lasts from a pause into speech."""
        onsets = [next((span.start for span in self.within(word.start + LEAD, word.end)), 0) for word in words]
        return tuple(map(begun_with, onsets, words))

    def unheard(self, heard: Sequence[Span], start: int) -> Span | None:
        """The first speech, from a sample on and before the last of the words heard, that none accounts for, up to the
        next pause.
        """
        for before, after in pairwise([Span(start, start), *heard]):
            begin, end = before.end, max(before.end, after.start)
            # What is next to a word may be of it: word times are not exact.
            parts = [
                part for part in self.within(begin, end) if len(part) >= REST or begin < part.start <= part.end < end
            ]
            if sum(map(len, parts)) >= UNHEARD:
                return parts[0]
        return None

    def is_spoken(self, span: Span) -> bool:
        """True if somebody speaks in a span, or next to it: word times are not exact."""
        return self.amount(max(0, span.start - AROUND), span.end + AROUND) > 0
