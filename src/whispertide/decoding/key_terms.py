"""Key terms: names and words that a search is to find where they are said.

The terms are a trie over tokens. A search of one hypothesis *tries* a term where its first token is among what is
likely: its tokens are fed ahead, and it is written if all of them together fall short of the likeliest tokens of their
places by no more than `BONUS` a token. Else the text is what it would have been without. A beam search adds `BONUS` for
every token of a term to what ranks its hypotheses, and takes it back where the term is left before its end, or goes on
as another word.

A term only begins where a word does, and never where the text would end. What the text already holds of it counts:
after a confirmed "New" the rest of "New York" is tried. Knows nothing of requests and hypotheses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint.tokenizer import Tokenizer
from whispertide.types import FloatArray

BONUS = 1.5  # nats for each token of a term; chosen on people's voices (lab/log)
FARTHEST = 6.0  # nats; a term is not tried where its first token falls further short of the likeliest
TRIED = 3  # terms at one place, at most
_LISTS = 16  # of terms whose tries are kept for a vocabulary

_PART = "\ufffd"  # what a part of a character is read as
_UNSPACED_BYTE = 0xE3
# Chinese, Japanese, Thai, Lao, Burmese and Khmer characters: no space parts words there.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]"
)


@dataclass(slots=True, eq=False)
class Place:
    """A place in the trie, after `depth` tokens of a term.

    height  tokens from here to the end of the longest term
    first   the first of these tokens
    ends    whether a term ends here, and `parted` whether it is another word if letters follow
    kept    tokens of the longest term that stands if a new word follows
    inside  the same if letters follow
    """

    depth: int = 0
    height: int = 0
    first: int = -1
    ends: bool = False
    parted: bool = True
    kept: int = 0
    inside: int = 0
    children: dict[int, Place] = field(default_factory=dict)

    def chain(self) -> tuple[int, ...]:
        """The tokens that follow in every term: up to where one ends, or several part."""
        tokens: list[int] = []
        place = self
        while len(place.children) == 1 and not place.ends:
            [(token, place)] = place.children.items()
            tokens.append(token)
        return tuple(tokens)


class Words:
    """The tokens of a vocabulary as parts of words.

    going_on   [vocab] whether a token goes on with the word before it; not in scripts that part no words
    in_word    [vocab] whether a word may go on after it
    text_end   tokens from here on are special
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.text_end = tokenizer.eot
        self.going_on: npt.NDArray[np.bool_] = np.zeros(tokenizer.vocab_size, dtype=np.bool_)
        self.in_word = self.going_on.copy()
        for token in range(tokenizer.eot):
            written = tokenizer.token_bytes(token)
            if written:
                text = written.decode("utf-8", errors="replace")
                # Of a part of a character its first byte tells: from 0xe3 on it is Chinese, Japanese, or no letter.
                is_part = text[0] == _PART
                self.going_on[token] = written[0] < _UNSPACED_BYTE if is_part else _is_letter(text[0])
                self.in_word[token] = text[-1] == _PART or _is_letter(text[-1])


class KeyTerms:
    """Terms as a vocabulary spells them: `spelled` are texts with their tokens."""

    def __init__(
        self,
        spelled: Iterable[tuple[str, Sequence[int]]],
        words: Words,
        *,
        bonus: float = BONUS,
        farthest: float = FARTHEST,
    ) -> None:
        self.bonus = bonus
        self._farthest = farthest
        self._words = words
        self.start = Place()  # where any spelling may begin
        self._within = Place()  # after a letter: those with a space, or in a script without spaces
        for text, tokens in spelled:
            _add(self.start if _is_letter(text[0]) else self._within, tokens, parted=_is_letter(text[-1]))
        for root in (self.start, self._within):
            _settle(root, words)
        # What begins after a letter begins everywhere, with tokens of its own.
        self.start.children |= self._within.children
        self.start.height = max(self.start.height, self._within.height)

    def after(self, tokens: Iterable[int], place: Place | None = None) -> Place:
        """The place after `tokens`, in a text that begins with them or has come to `place`."""
        at = self.start if place is None else place
        for token in tokens:
            at = self._next(at, token)
        return at

    # --- one hypothesis -----------------------------------------------------------------------------------------------

    def worth_trying(self, place: Place, row: FloatArray, tried: Iterable[int]) -> list[tuple[int, ...]]:
        """The beginnings of terms that may come after `place`, likeliest first; not those that begin with what was
        `tried` already.

        row [vocab]  log-probabilities of the next token
        """
        likeliest = int(row.argmax())
        if likeliest >= self._words.text_end:
            return []  # nothing is written where a text or a segment ends
        next_ones = self._following(place)
        least = row[likeliest] - self._farthest
        near = [token for token in next_ones.keys() - {likeliest, *tried} if row[token] >= least]
        near.sort(key=lambda token: float(row[token]), reverse=True)
        return [(token, *next_ones[token].chain()) for token in near[:TRIED]]

    def judge(
        self, place: Place, tokens: tuple[int, ...], row_after: Callable[[Sequence[int]], FloatArray]
    ) -> tuple[tuple[int, ...], bool | None]:
        """Judge whether `tokens` are written after `place`. None: these, which are more, have to be tried for that.

        row_after  gives the log-probabilities [vocab] of what comes after some of them
        """
        short, at = 0.0, place if tokens[0] in place.children else self._root(place)
        begun = at.depth
        for count, token in enumerate(tokens):
            row = row_after(tokens[:count])
            short += float(row.max() - row[token])
            at = at.children[token]
            if not short <= self.bonus * (at.depth + at.height - begun):
                return tokens, False
        row = row_after(tokens)
        likeliest = int(row.argmax())
        if at.ends and likeliest not in at.children and not (at.parted and self._words.going_on[likeliest]):
            return tokens, short <= self.bonus * len(tokens)
        if not at.children:
            return tokens, False
        token = max(at.children, key=lambda child: float(row[child]))
        return (*tokens, token, *at.children[token].chain()), None

    def shown(self, row: FloatArray, token: int) -> float:
        """The log-probability that is shown of a token of a term that is written."""
        return float(min(row[token] + self.bonus, row.max()))

    # --- several hypotheses -------------------------------------------------------------------------------------------

    def weigh(self, place: Place, row: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weigh the next token of one of several hypotheses, by its log-probabilities `row` [vocab].

        Returns [vocab] each: what is added for the ranking, and what is shown, where tokens of terms have the chance
        that the bonus gives them.
        """
        gained = np.where(self._words.going_on, np.float32(place.inside), np.float32(place.kept)) - place.depth
        is_text = int(row.argmax()) < self._words.text_end
        # Where the text ends a term that has begun may go on, but none begins.
        next_ones = self._following(place) if is_text else place.children if place.depth else {}
        if not next_ones:
            return np.asarray(gained * self.bonus, np.float32), row
        ids = np.fromiter(next_ones, dtype=np.int64)
        # Of one that begins anew, a token more than what is left of the term before it.
        goes_on = np.array([token in place.children for token in next_ones])
        more = np.where(goes_on, 1 - gained[ids], 1) * self.bonus
        gains = gained * self.bonus
        gains[ids] += more
        chances = np.exp(row[ids])
        shown = row.copy()
        shown[ids] += more - np.log1p(chances @ np.expm1(more))
        return np.asarray(gains, np.float32), np.asarray(shown, np.float32)

    def owed(self, place: Place) -> float:
        """What was added up to `place` for a term that has not ended."""
        return (place.depth - place.kept) * self.bonus

    # --- the trie -----------------------------------------------------------------------------------------------------

    def _root(self, place: Place) -> Place:
        return self.start if place is self.start else self._within

    def _following(self, place: Place) -> dict[int, Place]:
        """The places after the next token: further in the same term, or at the beginning of another."""
        others = self._root(place).children
        if place.ends:  # the same one again is no more likely than it was: a text must not begin to loop
            others = {token: other for token, other in others.items() if token != place.first}
        return {**others, **place.children}

    def _next(self, place: Place, token: int) -> Place:
        found = self._following(place).get(token)
        if found is not None:
            return found
        is_inside = token < self._words.text_end and self._words.in_word[token]
        return self._within if is_inside else self.start


def _add(root: Place, tokens: Sequence[int], *, parted: bool) -> None:
    """Add the tokens of a term below `root`."""
    place = root
    for left in range(len(tokens), 0, -1):
        place.height = max(place.height, left)
        place = place.children.setdefault(tokens[-left], Place(place.depth + 1, first=tokens[0]))
    place.ends, place.parted = True, parted


def _settle(place: Place, words: Words, stood: int = 0) -> None:
    """Work out what stands where terms are left; of the terms that end before `place` so many tokens do."""
    place.kept = place.depth if place.ends else stood
    place.inside = place.depth if place.ends and not place.parted else stood
    for token, child in place.children.items():
        is_another = place.ends and not (place.parted and words.going_on[token])
        _settle(child, words, place.depth if is_another else stood)


# --- spellings --------------------------------------------------------------------------------------------------------


def spellings(term: str) -> tuple[str, ...]:
    """How a term may stand in a text: as it is written, and with capitals where it has none; after a space or not."""
    written = [term]
    if term.islower():
        written += [term[0].upper() + term[1:], term.title()]
    return tuple(dict.fromkeys(space + form for form in written for space in ("", " ")))


def _is_letter(char: str) -> bool:
    """True if a word goes on with it; not of scripts that part no words."""
    return (char.isalnum() or unicodedata.category(char)[0] == "M") and not UNSPACED.match(char)


class _Vocabulary:
    """What was made for one tokenizer: its words, and the tries of the newest lists of terms."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.words = Words(tokenizer)
        self.tries: dict[tuple[str, ...], KeyTerms] = {}


_VOCABULARIES: WeakKeyDictionary[Tokenizer, _Vocabulary] = WeakKeyDictionary()
_MAKING = Lock()  # rounds of several sessions ask at once


def key_terms(tokenizer: Tokenizer, terms: tuple[str, ...]) -> KeyTerms | None:
    """The trie of `terms`; None: there are none. Made once, since every round of a stream asks for it."""
    if not terms:
        return None
    with _MAKING:
        if tokenizer not in _VOCABULARIES:
            _VOCABULARIES[tokenizer] = _Vocabulary(tokenizer)
        known = _VOCABULARIES[tokenizer]
        if terms not in known.tries:
            spelled = [(form, tokenizer.encode(form)) for term in terms for form in spellings(term)]
            known.tries[terms] = KeyTerms(spelled, known.words, bonus=BONUS, farthest=FARTHEST)
            if len(known.tries) > _LISTS:
                known.tries.pop(next(iter(known.tries)))
        return known.tries[terms]
