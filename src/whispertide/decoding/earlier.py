"""What an earlier round heard in the same audio, and how a search keeps its place in it.

Tokens are compared as lower-cased pieces. Those that say nothing (punctuation, timestamps, other specials) never count:
a search may put them in or leave them out without leaving the text. This is the selective matching of WhisperFlow
(arXiv 2412.11272), whose code aligns by the first match alone, which a common word misleads. What time it is in a
search is told by the timestamps that it writes and by what it has matched, so that alignment in time costs no run and
no attention. Knows no distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from whispertide.decoding.token_kinds import REPLACEMENT, TokenKinds
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, Word

if TYPE_CHECKING:
    from whispertide.checkpoint.tokenizer import Tokenizer

Align = Literal["bigram", "time", "first"]
Key = str | int  # what counts of a token

NEAR = 2 * SAMPLE_RATE // FRAME_SAMPLES  # frames; a match in time is no further away


@dataclass(frozen=True, slots=True)
class Reuse:
    """How a search uses an earlier text.

    align    how its place there is found: "bigram": two pieces in a row must match, and until they have, all places of
             the first are kept in mind; "time": the same piece nearest in time, no more than 2 s away; "first": the
             first same piece (WhisperFlow)
    recover  whether a search that has left the text looks for its place again, or has left it for good (WhisperFlow)
    block    whether the text is checked as one block, or token by token
    """

    align: Align = "bigram"
    recover: bool = True
    block: bool = False


@dataclass(frozen=True, slots=True)
class EarlierText:
    """`tokens` of an earlier round, what counts of each (None: nothing), and when it was said, in frames of 20 ms from
    the window's start. `key` tells what counts of a token that a search finds. One that is `anchored` begins where
    the search does: nothing has to be aligned. `opening` is the timestamp that stood before it, if that is known.
    """

    tokens: tuple[int, ...]
    keys: tuple[Key | None, ...]
    times: tuple[int, ...]
    key: Callable[[int], Key | None]
    reuse: Reuse
    anchored: bool = False
    opening: int | None = None

    @classmethod
    def exactly(cls, tokens: Sequence[int]) -> EarlierText:
        """What the search is thought to find, token for token from its first one on; every token counts."""
        given = tuple(tokens)
        return cls(given, given, (0,) * len(given), int, Reuse("first", recover=False, block=True), anchored=True)

    @classmethod
    def of_words(
        cls, words: Sequence[Word], tokenizer: Tokenizer, reuse: Reuse, *, origin: int = 0, opening: int | None = None
    ) -> EarlierText:
        """Words that were heard, in order; `origin` is the sample at which the window of the search begins."""
        key = piece_key(tokenizer)
        timed = [
            (token, (word.start - origin) // FRAME_SAMPLES) for word in words for token in tokenizer.encode(word.text)
        ]
        tokens, times = tuple(token for token, _ in timed), tuple(time for _, time in timed)
        return cls(tokens, tuple(map(key, tokens)), times, key, reuse, opening=opening)

    @property
    def speaks(self) -> bool:
        """Whether there is anything to follow."""
        return any(key is not None for key in self.keys)


def piece_key(tokenizer: Tokenizer) -> Callable[[int], Key | None]:
    """What counts of a token of text: its piece in lower case; nothing of punctuation, timestamps and specials."""
    kinds = TokenKinds(tokenizer)

    def key(token: int) -> Key | None:
        if not kinds.speaks(token):
            return None
        piece = tokenizer.decode([token])
        return token if REPLACEMENT in piece else piece.lower()  # parts of characters all look alike

    return key


class Tracker:
    """Where in an earlier text a search is. `matched` counts the tokens that were there, too.

    Several places may be possible at a time, as long as no more has been said than occurs in all of them.
    """

    def __init__(self, text: EarlierText, timestamp_begin: int) -> None:
        self._text = text
        self._timestamp_begin = timestamp_begin
        # The indices of what may come next; none: the text has been left; None: nothing has been matched yet.
        self._places: tuple[int, ...] | None = (0,) if text.anchored else None
        self._now = 0  # frames from the window's start: what was said last is no earlier
        self.matched = 0

    def follow(self, token: int) -> bool:
        """Take the next token of the search; returns whether it still is in the text. Tokens that do not count are."""
        self._hear((token,))
        key = self._text.key(token)
        if key is None:
            if self._places:
                self._places = tuple(place + self._is_silent(place) for place in self._places)
            return True
        if self._places is None:
            return self._settle(self._aligned(key))
        return self._settle(self._behind(self._places, key))

    def find(self, tokens: Sequence[int]) -> bool:
        """Look for the end of `tokens`, all that the search has found, after it had left the text."""
        key = self._text.key(tokens[-1])
        if not self._text.reuse.recover or key is None:
            return False
        self._hear(tokens)
        if self._text.reuse.align != "bigram":
            return self._settle(self._aligned(key))
        before = next((last for token in reversed(tokens[:-1]) if (last := self._text.key(token)) is not None), None)
        return before is not None and self._settle(self._behind(self._everywhere(before), key))

    def ahead(self) -> tuple[int, ...]:
        """What follows in the text; all of it as long as nothing has been matched."""
        if self._places is None:
            return self._text.tokens
        return self._text.tokens[min(self._places) :] if self._places else ()

    def _hear(self, tokens: Sequence[int]) -> None:
        """Take the time from the newest timestamp."""
        time = next((token for token in reversed(tokens) if token >= self._timestamp_begin), self._timestamp_begin)
        self._now = max(self._now, time - self._timestamp_begin)

    def _settle(self, places: tuple[int, ...]) -> bool:
        self._places = places
        self.matched += bool(places)
        if len(places) == 1:
            self._now = max(self._now, self._text.times[places[0] - 1])
        return bool(places)

    def _aligned(self, key: Key) -> tuple[int, ...]:
        """Places behind a first match, as the alignment wants them."""
        places = self._everywhere(key)
        if self._text.reuse.align == "bigram":
            return places
        if self._text.reuse.align == "first":
            return places[:1]
        away = {place: abs(self._text.times[place - 1] - self._now) for place in places}
        return tuple(sorted((place for place in places if away[place] <= NEAR), key=away.__getitem__)[:1])

    def _everywhere(self, key: Key) -> tuple[int, ...]:
        return tuple(place + 1 for place, other in enumerate(self._text.keys) if other == key)

    def _behind(self, places: Sequence[int], key: Key) -> tuple[int, ...]:
        """Of `places`, those where `key` comes next, one step further."""
        found = []
        for place in places:
            while self._is_silent(place):
                place += 1
            if place < len(self._text.keys) and self._text.keys[place] == key:
                found.append(place + 1)
        return tuple(found)

    def _is_silent(self, place: int) -> bool:
        return place < len(self._text.keys) and self._text.keys[place] is None
