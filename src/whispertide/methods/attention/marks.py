"""A mark at the end of what was heard waits for what follows it.

A decoder that sees no more words ends its text, and nearly always with a full stop: "concerned." half a second before
"differs from most". The word is certain and the mark is not. So the word is confirmed without it; the next round, which
hears the words after it, says whether there is one, and which. In the last round of an utterance a likely mark stands.
An unlikely one stands only if nobody speaks on before the turn ends, or what is said then does not begin with a small
letter: in a pause in mid-sentence, too, a decoder writes a full stop, but is no surer of it than of another mark or of
none. Ours.
"""

from collections.abc import Sequence

from whispertide.decoding.token_words import TokenWord, closes
from whispertide.methods.attention.listening import HeardWords

# With tiny.en and its adapter marks in pauses after sentences have 0.64 to 0.99, those within clauses mostly less
# (lab/log). nano.en gives 0.48 to 1 after sentences.
SURE = 0.6


def without_last_mark(heard: HeardWords, words: Sequence[TokenWord], firm: int) -> tuple[list[TokenWord], int]:
    """The `words` that were heard, of which the first `firm` are to be confirmed, so that no mark at their end is."""
    if not firm or firm < len(words):
        return list(words), firm
    parted = _parted(heard, words)
    return parted, len(parted) - 1 if is_mark(parted[-1]) else firm


def unsure_mark(heard: HeardWords, words: Sequence[TokenWord]) -> tuple[list[TokenWord], TokenWord | None]:
    """The `words` of a last round, and what is apart from them: an unlikely mark at their end, if there is one."""
    parted = _parted(heard, words)
    if not parted or not is_mark(parted[-1]) or parted[-1].word.probability >= SURE:
        return list(words), None
    return parted[:-1], parted[-1]


def is_mark(word: TokenWord) -> bool:
    """True if there is nothing but marks that stand after a word."""
    return all(map(closes, word.word.text.strip()))


def _parted(heard: HeardWords, words: Sequence[TokenWord]) -> list[TokenWord]:
    """The words, the marks after the last one as a word of their own."""
    # What was heard twice may have been left out meanwhile.
    if not words or not heard.ending or heard.ending[0].tokens + heard.ending[1].tokens != words[-1].tokens:
        return list(words)
    return [*words[:-1], *heard.ending]
