"""What has been said so far: confirmed words, which are only ever added to, and one guess after them.

Policies say what to confirm; here it becomes final. Knows nothing of rounds, audio or events. Time is in samples.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from whispertide.streaming.local_agreement import normalise
from whispertide.streaming.repetition import CONTEXT, cut_loops
from whispertide.streaming.round import Commit
from whispertide.types import Word, join_words


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit did to a transcript: words added for good, and the guess after them, if that is now another."""

    confirmed: tuple[Word, ...]
    hypothesis: tuple[Word, ...] | None


@dataclass(slots=True)
class Transcript:
    """Confirmed words in the order they were spoken, and the current `hypothesis` of what follows them.

    Times rise from word to word and lie inside the audio: `start <= end <= next start`.
    """

    words: list[Word] = field(default_factory=list)
    hypothesis: tuple[Word, ...] = ()

    @property
    def end(self) -> int:
        """Where the confirmed words end."""
        return self.words[-1].end if self.words else 0

    @property
    def text(self) -> str:
        """The confirmed text."""
        return join_words(self.words)

    def apply(self, commit: Commit, *, end: int, loop_guard: bool = False) -> Change:
        """Take a policy's verdict on audio that ends at `end`. Word times are brought into order and into the audio.

        With `loop_guard` the guess is shown without loops. What is confirmed stays as the policy, which may go on with
        the whole guess, decided.
        """
        confirmed = _in_order(commit.confirmed, self.end, end)
        self.words += confirmed
        guess = commit.hypothesis
        if loop_guard:
            guess = cut_loops(self.words[-CONTEXT:], guess, normalise, guess=True).words
        hypothesis = _in_order(guess, self.end, end)
        changed = hypothesis != self.hypothesis
        self.hypothesis = hypothesis
        return Change(confirmed, hypothesis if changed else None)

    def drop_hypothesis(self) -> Change:
        """Forget the guess."""
        return self.apply(Commit((), (), 0), end=self.end)

    def forget(self) -> None:
        """Let go of the words that no later commit looks at, for whoever was told of them and does not end.

        `words` and `text` are then of the last ones only.
        """
        del self.words[:-CONTEXT]

    def copy(self) -> "Transcript":
        """An independent copy."""
        return Transcript(list(self.words), self.hypothesis)


def _in_order(words: Iterable[Word], start: int, end: int) -> tuple[Word, ...]:
    """The words with times that rise from `start` and do not pass `end`; a word may become empty, never negative."""
    placed: list[Word] = []
    for word in words:
        begin = min(max(word.start, start), max(end, start))
        start = min(max(word.end, begin), max(end, start))
        placed.append(word if (begin, start) == (word.start, word.end) else _moved(word, begin, start))
    return tuple(placed)


def _moved(word: Word, start: int, end: int) -> Word:
    return Word(word.text, start, end, word.probability)
