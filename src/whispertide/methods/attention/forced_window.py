"""A window whose confirmed words are forced as the decoder's prefix, so nothing is heard twice.

What AlignAtt and `tide` both need: which words the window holds, what is confirmed of what was heard in it, and which
audio a later round still needs. Words that leave the window become context. Audio is only let go up to the last
confirmed word or in a pause after it, or a second at a time where two rounds in a row have failed to hear it. Knows
words, samples and frames, no audio and no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from whispertide.decoding.token_words import TokenWord
from whispertide.methods.attention.listening import without_loops
from whispertide.streaming.repetition import CONTEXT
from whispertide.streaming.trimming import MARGIN, forced_cut
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, Span, align_down

UNSETTLED = SAMPLE_RATE  # so much audio before the frontier may hold a word of which nothing was heard yet
AFTER_WORD = SAMPLE_RATE // 5  # a cut in a pause keeps this far from the word before it
LETTER = SAMPLE_RATE // 15  # of a word, as people speak
SKIPPED = SAMPLE_RATE  # of audio that rounds cannot hear, at a time
CONTEXT_CHARS = 1200  # of text before the window is remembered; more than fits into the text context


@dataclass(slots=True)
class ForcedWindow:
    """The state between rounds.

    start     first sample of the next window, a multiple of 320
    ends      where the rounds ended whose audio is in the window
    words     confirmed words in the window: the forced prefix
    said      the last confirmed words of the utterance, wherever the window begins
    context   confirmed text before the window
    attended  the sample that the newest token attended to; None: not known, any place is right
    guess     the words after the confirmed ones
    """

    start: int
    ends: list[int] = field(default_factory=list)
    words: list[TokenWord] = field(default_factory=list)
    said: list[TokenWord] = field(default_factory=list)
    context: str = ""
    attended: int | None = None
    guess: tuple[TokenWord, ...] = ()

    @classmethod
    def begin(cls, at: int, after: "ForcedWindow | None" = None) -> Self:
        """Nothing confirmed, nothing attended to; what was said in the same turn is context."""
        context = "" if after is None else after.context + "".join(one.word.text for one in after.words)
        return cls(start=align_down(at), context=context[-CONTEXT_CHARS:])

    def copy(self) -> Self:
        """An independent copy."""
        return replace(self, ends=list(self.ends), words=list(self.words), said=list(self.said))

    @property
    def heard_to(self) -> int:
        """The sample at which the confirmed words in the window end."""
        if not self.words:
            return self.start
        # What a word's last piece attends to may lie before the word.
        return max(self.words[-1].spoken_by, self.words[-1].start)

    @property
    def said_to(self) -> int:
        """The sample at which audio without confirmed words begins."""
        return self.heard_to + (AFTER_WORD if self.words else 0)

    @property
    def over_by(self) -> int:
        """The sample at which the last confirmed word is over.

        A long word of one token may attend to its beginning alone, so the place of its end counts, too; but only as far
        as such a word lasts, since the last word of a text is placed over all that comes after it.
        """
        if not self.words:
            return self.start
        last = self.words[-1]
        return max(self.heard_to, min(last.end, self.heard_to + LETTER * len(last.word.text.strip())))

    def step(self, end: int) -> int:
        """The amount of new audio in a round that ends at `end`, in samples."""
        return end - (self.ends[-1] if self.ends else self.start)

    def last_frame(self, unknown: int) -> int:
        """The frame that the newest token attended to. It is negative where that has left the window."""
        return unknown if self.attended is None else (self.attended - self.start) // FRAME_SAMPLES

    # --- which words --------------------------------------------------------------------------------------------------

    def note_attended(self, last_frame: int | None) -> None:
        """Remember where the last token of a round attended, in frames of its window; None: nobody looked."""
        if last_frame is not None:
            self.attended = self.start + last_frame * FRAME_SAMPLES

    def confirm(self, words: Sequence[TokenWord], firm: int, *, loop_guard: bool) -> list[TokenWord]:
        """Confirm the first `firm` of the words after the prefix; the others are the guess. With the guard without
        loops that nobody said.
        """
        confirmed = without_loops(self.said, words[:firm]) if loop_guard else list(words[:firm])
        self.words += confirmed
        self.said = [*self.said, *confirmed][-CONTEXT:]
        self.guess = tuple(words[firm:])
        return confirmed

    # --- which audio --------------------------------------------------------------------------------------------------

    def keep_from(self, end: int, step: int, *, cut_short: bool) -> int:
        """Audio from here on stays after a round of `step` new samples. `cut_short`: its decode has not heard the
        window to its end.
        """
        # Of what one round alone has failed to hear nothing goes, and of what two have failed to hear a second, in
        # which what stops them both may lie; or as much as comes in meanwhile, so that the window does not grow.
        skipped = max(SKIPPED, min(step, 2 * SKIPPED)) + FRAME_SAMPLES
        return min(end - step, self.said_to + skipped) if cut_short else end

    def cut(self, wanted: int, keep_from: int, *, frontier: int) -> None:
        """Move the start to `wanted`, or before it where a word that will be needed is in the way, or audio from
        `keep_from` on that no word was heard in. Words up to `frontier` could be confirmed.
        """
        pending = self.guess[0].start - MARGIN if self.guess else frontier - UNSETTLED
        wanted = min(wanted, pending, max(keep_from, self.said_to))
        # A cut this close to the last word would take its end away, and the rest would be heard as another word.
        if self.words and wanted < self.words[-1].end + AFTER_WORD:
            wanted = min(wanted, self.words[-1].start - MARGIN)
        self.move(wanted)

    def shorten(
        self, end: int, longest: int, *, least: int, frontier: int, cut_short: bool, loop_guard: bool
    ) -> list[TokenWord]:
        """Gain at least `least` samples where the window up to `end` is too long still; returns words that had to be
        confirmed for that, certain or not. Words up to `frontier` could be heard.
        """
        forced: list[TokenWord] = []
        if end - self.start > longest:
            if cut_short and not self.guess:
                self.move(end - longest)  # of what is unheard no more goes than must
            else:
                made = forced_cut([word.word for word in self.guess], Span(self.start, end), least)
                forced = self.confirm(self.guess, made.confirm, loop_guard=loop_guard)
                self.attended = None
                self.move(min(made.cut, max(frontier - UNSETTLED, self.start + least)))
        self.ends = [at for at in self.ends if at > self.start]
        return forced

    def move(self, to: int) -> None:
        """Begin at sample `to`, or where it began; words before that become context."""
        self.start = max(self.start, align_down(max(to, 0)))
        inside = [word for word in self.words if word.word.lies_after(self.start)]
        gone = self.words[: len(self.words) - len(inside)]
        self.words = self.words[len(gone) :]
        self.context = (self.context + "".join(word.word.text for word in gone))[-CONTEXT_CHARS:]

    def reopen(self, end: int, *, loop_guard: bool) -> list[TokenWord]:
        """Begin after all that was confirmed, or at `end`, without text in front; the guess is confirmed."""
        self.start = max(self.start, align_down(min(max(self.said_to, self.over_by), end)))
        confirmed = self.confirm(self.guess, len(self.guess), loop_guard=loop_guard)
        self.words, self.context, self.attended = [], "", None
        self.ends = [at for at in self.ends if at > self.start]
        return confirmed
