"""State of policies whose windows begin with words that are certain and end with words that are not.

Knows words and tokens, no audio and no model.
"""

from dataclasses import dataclass, replace
from typing import Self

from whispertide.decoding.token_words import TokenWord
from whispertide.streaming.repetition import CONTEXT, without_loops
from whispertide.types import SAMPLE_RATE

ROOM = 2 * SAMPLE_RATE  # a full window makes at least so much room


@dataclass(slots=True)
class WindowState:
    """The state between rounds; all parts are values.

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
        """The sample at which the next window begins; words before that are not in it."""
        self.start = start
        self.words = tuple(word for word in self.words if word.start >= start)

    def take(self, words: tuple[TokenWord, ...], *, loop_guard: bool) -> list[TokenWord]:
        """These words are certain now; what is confirmed of them: with the guard all but the surplus of loops."""
        self.words += words
        said = [word.word for word in self.tail]
        self.tail = (*self.tail, *words)[-CONTEXT:]
        return without_loops(said, words) if loop_guard else list(words)
