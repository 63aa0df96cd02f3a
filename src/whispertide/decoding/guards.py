"""Guards that end a search which has begun to repeat itself. They watch tokens and may only truncate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whispertide.errors import OptionError
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class RepetitionGuard:
    """Stops when the text ends in many copies of one n-gram, and keeps the first `keep` of them.

    People do say "no, no, no, no" and repeat a line of a song, so it takes at least `copies` copies in a row that
    make up at least `run` tokens: twelve times one token, four times three tokens. Tokens from `text_end` on
    (end of text, timestamps) do not count: a loop is a loop whatever times the model gives it.
    """

    text_end: int
    copies: int = 4
    run: int = 12
    longest: int = 40  # tokens in an n-gram; four copies of more do not fit into a window's 224
    keep: int = 2

    def __post_init__(self) -> None:
        if self.copies < 2 or not 1 <= self.keep < self.copies:
            raise OptionError(f"expected copies >= 2 and 1 <= keep < copies; got {self.copies} and {self.keep}")

    def check(self, tokens: Sequence[int], attention: FloatArray | None = None) -> int | None:
        """The number of `tokens` to keep if they end in a loop, else None. `attention` is not looked at."""
        if not tokens or tokens[-1] >= self.text_end:
            return None
        places = [place for place, token in enumerate(tokens) if token < self.text_end]
        text = [tokens[place] for place in places]
        for size in range(1, min(self.longest, len(text) // self.copies) + 1):
            copies = max(self.copies, -(-self.run // size))
            if _ends_in_copies(text, size, copies):
                first = len(text) - size * copies
                return places[first + size * self.keep - 1] + 1
        return None


@dataclass(frozen=True, slots=True)
class SameToken:
    """Stops at the `copies`-th token in a row that is the same, and drops all of them (NPUsper's code)."""

    copies: int = 3

    def __post_init__(self) -> None:
        if self.copies < 2:
            raise OptionError(f"expected copies >= 2; got {self.copies}")

    def check(self, tokens: Sequence[int], attention: FloatArray | None = None) -> int | None:
        """The number of `tokens` before the copies, else None. `attention` is not looked at."""
        return len(tokens) - self.copies if _ends_in_copies(list(tokens), 1, self.copies) else None


def _ends_in_copies(text: list[int], size: int, copies: int) -> bool:
    """Whether the last `size * copies` items of `text` repeat with period `size`."""
    tail = text[-size * copies :]
    return len(tail) == size * copies and tail[size:] == tail[:-size]
