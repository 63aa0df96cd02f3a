"""Drafts ahead of a search, so that it takes fewer rows or fewer runs.

As long as a search finds what its draft expects, one hypothesis is enough. What the draft proposes is fed in the same
run as the newest token; the longest prefix of it that the search would have found stands, and the rest leaves the cache
again by `Verdict.keep`. So the result is that of the search without proposals, and with a beam of one that of greedy
search. It is speculative decoding (arXiv 2211.17192).

Quantised graphs round a block a little differently than single steps, the prompt too if a draft goes with it, so there
a near-tie may fall the other way, and the probability of no speech is a little different.

`Reference` is an earlier round's text of the same audio. Where it begins where the search does it is `Expected` token
by token; else a `Follower` keeps the search's place in it. Tokens are compared there as lower-cased pieces. Those
without content (punctuation, timestamps, other specials) never count: a search may put them in or leave them out
without leaving the text. This is the selective matching of WhisperFlow (arXiv 2412.11272), whose code aligns by the
first match alone, which a common word misleads. What time it is in a search follows from the timestamps that it writes
and the text that it matched, so that alignment in time costs no run and no attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from whispertide.checkpoint.tokenizer import REPLACEMENT, Tokenizer, token_kinds
from whispertide.decoding.rules import Rules, pairing
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, Word


class Draft(Protocol):
    """Proposes tokens, and is told what was accepted."""

    def propose(self, sampled: Sequence[int]) -> tuple[int, ...]:
        """The tokens likely to come after `sampled`; empty where nobody knows, or nothing is to be fed ahead."""

    def follow(self, token: int) -> bool:
        """Hear the next token of the one hypothesis; returns whether one still is enough (False: the search widens)."""

    def find(self, sampled: Sequence[int]) -> bool:
        """Hear all tokens of the best of several hypotheses; returns whether that one is enough from here on."""


Align = Literal["bigram", "time", "first"]
Follows = Literal["heard", "shown"]
Key = str | int  # what counts of a token

NEAR = 2 * SAMPLE_RATE // FRAME_SAMPLES  # frames; a match in time is no further away


@dataclass(frozen=True, slots=True)
class Reference:
    """The transcript of an earlier round, and how a search uses it. A policy keeps one without a text as its settings.

    tokens   all that the earlier round found, or, where there are no `words`, what the search is thought to find
             (`Expected`)
    start    the sample where the window of that round began
    words    its words, for the search to tokenise
    align    how its place there is found: "bigram": two pieces in a row must match, and until they have, all places of
             the first are kept in mind; "time": the same piece nearest in time, no more than 2 s away; "first": the
             first same piece (WhisperFlow)
    recover  whether a search that has left the text looks for its place again, or has left it for good (WhisperFlow)
    block    whether what is left of the text is fed ahead and checked as one block, or followed token by token
    follows  which text the policy takes: all that the earlier round "heard" in the window, or what was "shown" of it:
             the confirmed words and the guess after them (WhisperFlow)
    """

    tokens: tuple[int, ...] = ()
    start: int = 0
    words: tuple[Word, ...] = ()
    align: Align = "bigram"
    recover: bool = True
    block: bool = False
    follows: Follows = "heard"

    @classmethod
    def exactly(cls, tokens: Sequence[int]) -> Reference:
        """A reference to the likely result of a search, checked as one block."""
        return cls(tuple(tokens), recover=False, block=True)

    def since(self, start: int) -> Reference:
        """The words that lie after the sample `start`, from which all samples then count.

        How the text began is only known where `start` is where it did.
        """
        words = tuple(
            replace(word, start=word.start - start, end=word.end - start)
            for word in self.words
            if word.lies_after(start)
        )
        tokens = self.tokens if words and self.start == start else ()
        return replace(self, tokens=tokens, start=0, words=words)

    def draft(self, tokenizer: Tokenizer, rules: Rules) -> Draft | None:
        """The draft of a search whose window begins at sample 0; None where there is nothing to follow."""
        if not self.words:
            return Expected(self.tokens) if self.tokens else None
        timed = [(token, word.start // FRAME_SAMPLES) for word in self.words for token in tokenizer.encode(word.text)]
        tokens, times = tuple(token for token, _ in timed), tuple(time for _, time in timed)
        opening = next((token for token in self.tokens[:1] if rules.vocabulary.is_timestamp(token)), None)
        draft = Follower(tokens, rules, self, piece_key(tokenizer), times=times, opening=opening)
        return draft if draft.speaks else None


@dataclass(slots=True)
class Expected:
    """A search is thought to find these `tokens`, from its first one on; all that are left are checked as one block.

    Once it has found another one it has left them for good. Implements `draft.Draft`. `matched` of them were found.
    """

    tokens: tuple[int, ...]
    matched: int = 0

    def propose(self, sampled: Sequence[int]) -> tuple[int, ...]:
        """All that are left."""
        return self.tokens[self.matched :]

    def follow(self, token: int) -> bool:
        """True if the next token of the search is the expected one."""
        is_right = self.tokens[self.matched : self.matched + 1] == (token,)
        self.matched += is_right
        return is_right

    def find(self, sampled: Sequence[int]) -> bool:
        """It is not looked for again."""
        return False


def piece_key(tokenizer: Tokenizer) -> Callable[[int], Key | None]:
    """The part of a token that counts: its piece in lower case; nothing of punctuation, timestamps and specials."""
    kind_of = token_kinds(tokenizer)

    def key(token: int) -> Key | None:
        if not kind_of(token).speaks:
            return None
        piece = tokenizer.decode([token])
        return token if REPLACEMENT in piece else piece.lower()  # parts of characters all look alike

    return key


class Follower:
    """The place of a search in the text of a reference. Implements `draft.Draft`.

    Several places may be possible at a time, as long as no more has been written than occurs in all of them.
    """

    def __init__(
        self,
        tokens: Sequence[int],
        rules: Rules,
        how: Reference,
        key: Callable[[int], Key | None],
        *,
        times: Sequence[int] = (),
        opening: int | None = None,
    ) -> None:
        """`key` tells what counts of a token (None: nothing).

        `times` are when the tokens were said, in frames of 20 ms from the window's start. `opening` is the timestamp
        that stood before them, if that is known.
        """
        self.tokens = tuple(tokens)
        self._rules = rules
        self._how = how
        self._key = key
        self.keys = tuple(map(self._key, self.tokens))
        self.times = tuple(times) or (0,) * len(self.tokens)
        self._opening = opening
        # The indices of what may come next; none: the text has been left; None: nothing has been matched yet.
        self._places: tuple[int, ...] | None = None
        self._now = 0  # frames from the window's start: what was said last is no earlier
        self.matched = 0  # how many tokens of the search were there, too

    @property
    def speaks(self) -> bool:
        """True if there is anything to follow."""
        return any(key is not None for key in self.keys)

    def propose(self, sampled: Sequence[int]) -> tuple[int, ...]:
        """The rest of the text, if it is checked in blocks.

        Where a round writes timestamps a text of words has none: they are what changes most from round to round, as the
        window moves and its last segment grows. The search puts them in as it finds them, each ends a block, and what
        is left of the text is the next block; so a window takes about as many runs as it has segments. One that closes
        a segment is followed by one that opens the next, nearly always at the same time, and that one is drafted. So is
        the first of all, if it is known, and then the first block goes with the prompt.
        """
        ahead = self.ahead() if self._how.block else ()
        vocabulary = self._rules.vocabulary
        if not ahead or not self._rules.timestamps or vocabulary.is_timestamp(ahead[0]):
            return ahead
        if not sampled:
            return () if self._opening is None else (self._opening, *ahead)
        # Text is forbidden where a segment was just closed: then another is opened.
        must_be_time = pairing(sampled, vocabulary) == ((0, vocabulary.eot),)
        return (sampled[-1], *ahead) if must_be_time else ahead

    def follow(self, token: int) -> bool:
        """Take the next token of the search; returns whether it still is in the text. Tokens that do not count are."""
        self._hear((token,))
        key = self._key(token)
        if key is None:
            if self._places:
                # Punctuation on both sides is passed together.
                self._places = tuple(place + self._is_silent(place) for place in self._places)
            return True
        if self._places is None:
            return self._settle(self._aligned(key))
        return self._settle(self._after(self._places, key))

    def find(self, tokens: Sequence[int]) -> bool:
        """Look for the end of `tokens`, all that the search has found, after it had left the text."""
        key = self._key(tokens[-1])
        if not self._how.recover or key is None:
            return False
        self._hear(tokens)
        if self._how.align != "bigram":
            return self._settle(self._aligned(key))
        # One word in common is no sign of the place: common words are everywhere.
        before = next((last for token in reversed(tokens[:-1]) if (last := self._key(token)) is not None), None)
        return before is not None and self._settle(self._after(self._everywhere(before), key))

    def ahead(self) -> tuple[int, ...]:
        """The text that follows; all of it as long as nothing has been matched."""
        if self._places is None:
            return self.tokens
        # Of several places the first: a wrong guess costs no more than a block that is fed in vain.
        return self.tokens[min(self._places) :] if self._places else ()

    def _hear(self, tokens: Sequence[int]) -> None:
        """Take the time from the newest timestamp."""
        begin = self._rules.vocabulary.timestamp_begin
        time = next((token for token in reversed(tokens) if token >= begin), begin)
        self._now = max(self._now, time - begin)

    def _settle(self, places: tuple[int, ...]) -> bool:
        self._places = places
        self.matched += bool(places)
        if len(places) == 1:
            # A place that is sure tells the time as a timestamp does.
            self._now = max(self._now, self.times[places[0] - 1])
        return bool(places)

    def _aligned(self, key: Key) -> tuple[int, ...]:
        """Places after a first match, as the alignment wants them."""
        places = self._everywhere(key)
        if self._how.align == "bigram":
            return places
        if self._how.align == "first":
            return places[:1]
        away = {place: abs(self.times[place - 1] - self._now) for place in places}
        return tuple(sorted((place for place in places if away[place] <= NEAR), key=away.__getitem__)[:1])

    def _everywhere(self, key: Key) -> tuple[int, ...]:
        return tuple(place + 1 for place, other in enumerate(self.keys) if other == key)

    def _after(self, places: Sequence[int], key: Key) -> tuple[int, ...]:
        """Of `places`, those where `key` comes next, one step further."""
        found = []
        for place in places:
            # The text may have punctuation that the search leaves out.
            while self._is_silent(place):
                place += 1
            if place < len(self.keys) and self.keys[place] == key:
                found.append(place + 1)
        return tuple(found)

    def _is_silent(self, place: int) -> bool:
        return place < len(self.keys) and self.keys[place] is None
