"""What kind of thing a token is: the beginning of a word, a piece of one, punctuation.

Languages written without spaces have no pieces of words: there every character counts by itself (NPUsper's rule for
Chinese, here for all such scripts). A token that is only part of a character is a piece everywhere,
unless it begins with a space where words do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from whispertide.checkpoint.languages import UNSPACED_LANGUAGES

if TYPE_CHECKING:
    from whispertide.checkpoint.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"
_LONGEST_MARK = 2  # characters of a token that is punctuation


class TokenKinds:
    """Classifies the tokens of one vocabulary for one language (a code; None is English)."""

    def __init__(self, tokenizer: Tokenizer, language: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._spaced = language not in UNSPACED_LANGUAGES
        self._text = lru_cache(maxsize=4096)(lambda token: tokenizer.decode([token]))

    def is_special(self, token: int) -> bool:
        """End of text, timestamps and the like."""
        return token >= self._tokenizer.eot

    def is_mark(self, token: int) -> bool:
        """One or two characters after an optional space, none of them a letter or digit (or no character at all)."""
        text = self._text(token).removeprefix(" ")
        return not self.is_special(token) and len(text) <= _LONGEST_MARK and not any(map(speaks, text))

    def is_piece(self, token: int) -> bool:
        """Part of a character, or in a language with spaces a token with letters that does not begin with one."""
        text = self._text(token)
        if self.is_special(token):
            return False
        if self._spaced and text.startswith(" "):
            return False
        return REPLACEMENT in text or (self._spaced and any(map(str.isalpha, text)))

    def is_content(self, token: int) -> bool:
        """A token that begins something spoken: neither special, nor punctuation, nor the piece of a word."""
        return not (self.is_special(token) or self.is_mark(token) or self.is_piece(token))

    def continues(self, token: int) -> bool:
        """Whether the token belongs to the word before it: a piece, digits without a space, closing punctuation."""
        text = self._text(token)
        if self.is_special(token):
            return False
        return not text.startswith(" ") if self._spaced else REPLACEMENT in text

    def speaks(self, token: int) -> bool:
        """Whether the token has a letter or digit, or part of one."""
        return not self.is_special(token) and any(map(speaks, self._text(token)))


def speaks(character: str) -> bool:
    """Whether a character is a letter or digit, or a broken one, which may be."""
    return character.isalnum() or character == REPLACEMENT
