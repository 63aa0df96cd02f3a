"""What policies share whose windows are bounded: how long one gets, and which of its words are certain.

Knows words and tokens, no audio and no model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

from whispertide.decoding.token_words import TokenWord
from whispertide.streaming.choice import Choice, setting
from whispertide.streaming.repetition import CONTEXT, without_loops
from whispertide.streaming.round import Commit
from whispertide.types import CHUNK_SECONDS, SAMPLE_RATE, Word, align_down, to_samples

ROOM = 2 * SAMPLE_RATE  # a full window makes at least so much room


class Begun(Protocol):
    """A state that says where the next window begins, in samples."""

    start: int


@dataclass(slots=True)
class WindowState:
    """What is remembered between rounds; all parts are values.

    start  first sample of the next window, a multiple of 320
    words  confirmed words in the window: forced
    guess  what the last round found after them
    tail   the newest confirmed words, as far back as loops are looked for
    """

    start: int
    words: tuple[TokenWord, ...] = ()
    guess: tuple[TokenWord, ...] = ()
    tail: tuple[TokenWord, ...] = ()

    def copy(self) -> Self:
        """An independent copy."""
        return replace(self)

    def begin_at(self, start: int) -> None:
        """Where the next window begins; words before that are not in it."""
        self.start = start
        self.words = tuple(word for word in self.words if word.start >= start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded(Choice):
    """Settings of a policy whose windows never outgrow `hard_cap_s`."""

    hard_cap_s: float = setting(
        28.0,
        "windows never get longer; then words are confirmed whether they are certain or not",
        least=4,
        most=CHUNK_SECONDS,
    )
    no_speech: float = setting(0.9, "what is heard with a higher no-speech probability is dropped", least=0, most=1)
    loop_guard: bool = setting(True, "cut down repetition loops before they are confirmed, and in the guess")

    @property
    def usual_s(self) -> float:
        """How long windows usually get at most: as long as they can."""
        return self.hard_cap_s

    @property
    def hard_cap(self) -> int:
        """The longest window, in samples."""
        return to_samples(self.hard_cap_s)

    def limit(self, state: Begun) -> int:
        """The end of a window of `hard_cap` samples."""
        return state.start + self.hard_cap

    def take(self, state: WindowState, words: tuple[TokenWord, ...]) -> list[TokenWord]:
        """These words are certain now; what is confirmed of them."""
        state.words += words
        said = [word.word for word in state.tail]
        state.tail = (*state.tail, *words)[-CONTEXT:]
        return self.without_loops(said, words)

    def without_loops(self, said: Sequence[Word], words: Sequence[TokenWord]) -> list[TokenWord]:
        """The words after those that were said, loops cut down if that is asked for."""
        return without_loops(said, words) if self.loop_guard else list(words)


def tokens_of(words: Iterable[TokenWord]) -> tuple[int, ...]:
    """Their tokens, as a prefix."""
    return tuple(token for word in words for token in word.tokens)


def commit(
    confirmed: Iterable[TokenWord], guess: Iterable[TokenWord], state: Begun, end: int, level: int = 0
) -> Commit:
    """After a window up to `end`: audio is needed from the start of the next one on, or from there."""
    shown = tuple(word.word for word in guess)
    return Commit(tuple(word.word for word in confirmed), shown, min(state.start, align_down(end)), level)
