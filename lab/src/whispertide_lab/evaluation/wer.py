"""Which words were got right: one alignment of a whole text with its reference, and the counts that follow from it.

Both texts are normalised whole, with Whisper's English normaliser or, for other languages, its basic one (package
whisper-normalizer; Radford et al. 2022, appendix C), and aligned once (jiwer). Word error rate, character error rate
and latency all read that alignment. Nothing is truncated and no rate is clamped: more than 1 is possible.

The normaliser merges and splits words ("twenty five dollars" is "$25", "don't" is "do not") and drops some ("um").
So that an aligned token still tells which written words it stands for, each word is also normalised by itself, and
the two results are aligned: where they agree a token belongs to its word; where they differ all tokens of the stretch
belong to all words of the stretch. Knows nothing of time.

In a language that is written without spaces every letter is a word, as in Whisper's paper (appendix C), whoever wrote
the text and wherever that put spaces.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from whispertide.checkpoint.languages import UNSPACED_LANGUAGES

if TYPE_CHECKING:
    from jiwer import AlignmentChunk

_WORD = re.compile(r"\S+")
_LETTER = re.compile(r"[^\w\s]*\w[^\w\s]*|[^\w\s]+")  # with the marks around it, vowel signs among them


@dataclass(frozen=True, slots=True)
class Counts:
    """Units (words or characters) of the reference that were got right, and the three kinds of error. They add up."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.hits + other.hits,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )

    @property
    def reference(self) -> int:
        """Units in the reference."""
        return self.hits + self.substitutions + self.deletions

    @property
    def errors(self) -> int:
        """Errors of all kinds."""
        return self.substitutions + self.deletions + self.insertions

    def per_unit(self, count: int) -> float | None:
        """`count` per unit of the reference; None where there is no reference, hence no rate."""
        return count / self.reference if self.reference else None

    @property
    def rate(self) -> float | None:
        """The error rate, 0 to any number."""
        return self.per_unit(self.errors)


@dataclass(frozen=True, slots=True)
class Normalised:
    """A text as it is compared: token i stands for the written words `spans[i]` (half-open range of indices)."""

    tokens: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Alignment:
    """A hypothesis next to its reference. `hits` are pairs (reference token, hypothesis token), both rising."""

    reference: Normalised
    hypothesis: Normalised
    hits: tuple[tuple[int, int], ...]
    words: Counts
    characters: Counts

    def counted_words(self) -> frozenset[int]:
        """Indices of the reference's written words that are left after normalisation."""
        return frozenset(word for span in self.reference.spans for word in range(*span))

    def matched_words(self) -> dict[int, int]:
        """Written reference word -> the last written hypothesis word that it takes to read it.

        A reference word is matched if all its tokens are.
        """
        last: dict[int, int] = {}
        missed = set(range(len(self.reference.tokens)))
        for token, heard in self.hits:
            missed.discard(token)
            for word in range(*self.reference.spans[token]):
                last[word] = max(last.get(word, 0), self.hypothesis.spans[heard][1] - 1)
        for token in missed:
            for word in range(*self.reference.spans[token]):
                # Half of a word is not read.
                last.pop(word, None)
        return last


def find_words(text: str, language: str = "en") -> list[re.Match[str]]:
    """The written words of a text, in order, each where it stands."""
    return list((_LETTER if language in UNSPACED_LANGUAGES else _WORD).finditer(text))


def split_words(text: str, language: str = "en") -> list[str]:
    """The written words of a text."""
    return [word.group() for word in find_words(text, language)]


def join_written(words: Sequence[str], language: str = "en") -> str:
    """Written words as running text."""
    return _between(language).join(words)


def _between(language: str) -> str:
    """What stands between two words."""
    return "" if language in UNSPACED_LANGUAGES else " "


def normalise(text: str, language: str = "en") -> str:
    """`text` as Whisper's normaliser leaves it, tokens apart by single spaces."""
    return " ".join(_normaliser(language)(text).split())


@lru_cache(maxsize=1 << 16)
def normalise_word(word: str, language: str = "en") -> str:
    """One written word by itself; empty if the normaliser drops it. Two spellings of a word give the same."""
    return normalise(word, language)


def normalise_words(words: Sequence[str], language: str = "en") -> Normalised:
    """Written words -> tokens that know their words."""
    tokens = normalise(" ".join(words), language).split()
    parts: list[str] = []
    owner: list[int] = []
    for index, word in enumerate(words):
        pieces = normalise_word(word, language).split()
        parts += pieces
        owner += [index] * len(pieces)
    spans: list[tuple[int, int]] = []
    for part_from, part_to, token_from, token_to, equal in _stretches(parts, tokens):
        if equal:
            spans += [(word, word + 1) for word in owner[part_from:part_to]]
        elif part_to > part_from:
            spans += [(owner[part_from], owner[part_to - 1] + 1)] * (token_to - token_from)
        else:  # tokens out of nowhere: give them to the word before
            before = owner[part_from - 1] if part_from else 0
            spans += [(before, before + 1)] * (token_to - token_from)
    return Normalised(tuple(tokens), tuple(spans))


def align(reference: Sequence[str], hypothesis: Sequence[str], language: str = "en") -> Alignment:
    """Align written words with written words. Either side may be empty."""
    import jiwer

    ours, theirs = normalise_words(reference, language), normalise_words(hypothesis, language)
    chunks = _chunks(ours.tokens, theirs.tokens)
    hits: list[tuple[int, int]] = []
    counts = Counter[str]()
    for chunk in chunks:
        reference_units = chunk.ref_end_idx - chunk.ref_start_idx
        counts[chunk.type] += reference_units or chunk.hyp_end_idx - chunk.hyp_start_idx
        if chunk.type == "equal":
            pairs = range(chunk.ref_start_idx, chunk.ref_end_idx), range(chunk.hyp_start_idx, chunk.hyp_end_idx)
            hits += zip(*pairs, strict=True)
    # A second alignment: characters are not counted along the words', or a misheard word would be wrong in all of its
    # letters.
    letters = jiwer.process_characters(*(_between(language).join(text.tokens) for text in (ours, theirs)))
    return Alignment(
        ours,
        theirs,
        tuple(hits),
        Counts(counts["equal"], counts["substitute"], counts["delete"], counts["insert"]),
        Counts(letters.hits, letters.substitutions, letters.deletions, letters.insertions),
    )


@cache
def _normaliser(language: str) -> Callable[[str], str]:
    normaliser: Callable[[str], str]
    if language == "en":
        from whisper_normalizer.english import EnglishTextNormalizer  # type: ignore[import-untyped, unused-ignore]

        normaliser = EnglishTextNormalizer()
    else:
        from whisper_normalizer.basic import BasicTextNormalizer  # type: ignore[import-untyped, unused-ignore]

        normaliser = BasicTextNormalizer(split_letters=language in UNSPACED_LANGUAGES)
    return normaliser


def _chunks(reference: Sequence[str], hypothesis: Sequence[str]) -> "list[AlignmentChunk]":
    """jiwer's alignment of tokens, none of which contains a space."""
    import jiwer

    return list(jiwer.process_words(" ".join(reference), " ".join(hypothesis)).alignments[0])


def equal_pairs(one: Sequence[str], other: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Places of equal tokens in an alignment of two lists with the fewest edits. Either may be empty."""
    for first, last, begin, end, equal in _stretches(one, other):
        if equal:
            yield from zip(range(first, last), range(begin, end), strict=True)


def _stretches(parts: Sequence[str], tokens: Sequence[str]) -> Iterator[tuple[int, int, int, int, bool]]:
    """Where two token lists agree and where not, as (from, to, from, to, equal); neighbouring differences are one."""
    if list(parts) == list(tokens):
        yield 0, len(parts), 0, len(tokens), True
        return
    part = token = 0
    for chunk in (item for item in _chunks(parts, tokens) if item.type == "equal"):
        if chunk.ref_start_idx > part or chunk.hyp_start_idx > token:
            yield part, chunk.ref_start_idx, token, chunk.hyp_start_idx, False
        part, token = chunk.ref_end_idx, chunk.hyp_end_idx
        yield chunk.ref_start_idx, part, chunk.hyp_start_idx, token, True
    if part < len(parts) or token < len(tokens):
        yield part, len(parts), token, len(tokens), False
