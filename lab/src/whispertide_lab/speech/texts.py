"""What is said: sentences drawn from texts, from the talks' grammar and from patterns with figures and names.

None of them is a test sentence (`speech.text`). With a limit on the vocabulary, which makes a curriculum
possible, sentences of the texts that need other words than its most frequent ones are left out; the words of the
grammar and of the patterns are always in it.

Knows nothing of voices.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from whispertide.errors import CorpusError
from whispertide_lab.speech.grammar import RULES
from whispertide_lab.speech.phrases import phrase, phrase_words
from whispertide_lab.speech.reading import Sentence, read
from whispertide_lab.speech.sources import fortune_sentences, spelled_words, word_counts, wordnet_sentences
from whispertide_lab.speech.text import is_test_sentence, training_sentence

Dice = np.random.RandomState
_GRAMMAR, _PATTERNS = 0.2, 0.3  # how often a sentence is from these; the others are from the texts


def collect_texts(vocabulary: int | None) -> list[str]:
    """All sentences of the installed texts within the `vocabulary` most frequent words (None: all), each once.

    Raises `CorpusError` where a package is missing, or no sentence is left.
    """
    return limited([*wordnet_sentences(), *fortune_sentences()], vocabulary)


def own_texts(path: Path, vocabulary: int | None) -> list[str]:
    """The sentences of a user's file, one a line, within the `vocabulary` most frequent words (None: all), each once.

    Raises `CorpusError` where the file cannot be read, or no sentence is left.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, ValueError) as error:
        raise CorpusError(f"expected sentences, one a line, in {path}; it cannot be read: {error}") from error
    if not any(lines):
        raise CorpusError(f"expected sentences, one a line, in {path}; it has none")
    return limited(filter(None, lines), vocabulary)


def limited(sentences: Iterable[str], vocabulary: int | None) -> list[str]:
    """Those sentences, sorted and each once, that may be trained on and have a reading within the vocabulary.

    A sentence that holds a test sentence of four words or more is one itself.
    """
    distinct = sorted(set(sentences))
    reserved = _by_beginning(sentence for sentence in distinct if is_test_sentence(sentence))
    known: set[str] | None = None
    if vocabulary is not None:
        ranked = sorted(word_counts(distinct).items(), key=lambda entry: (-entry[1], entry[0]))
        known = {word for word, _ in ranked[:vocabulary]} | own_words()
    dice = np.random.RandomState(0)  # whether there is a reading does not depend on them
    kept = [
        sentence
        for sentence in distinct
        if (known is None or known.issuperset(spelled_words(sentence)))
        and not is_test_sentence(sentence)
        and not _holds(_plain(sentence), reserved)
        and read(sentence, dice) is not None
    ]
    if not kept:
        within, more = ("", "") if vocabulary is None else (f" within {vocabulary} words", ": allow more words")
        raise CorpusError(
            f"expected sentences{within} that can be read aloud and are not reserved for tests; none of "
            f"{len(distinct)} is one{more}"
        )
    return kept


_Words = tuple[str, ...]
_BEGINNING = 4


def _by_beginning(sentences: Iterable[str]) -> dict[_Words, list[_Words]]:
    """The words of each sentence that has enough of them, by the first few."""
    found: dict[_Words, list[_Words]] = {}
    for sentence in sentences:
        words = _plain(sentence)
        if len(words) >= _BEGINNING:
            found.setdefault(words[:_BEGINNING], []).append(words)
    return found


def _plain(sentence: str) -> _Words:
    return tuple(re.findall(r"[a-z0-9]+(?:'[a-z]+)*", sentence.lower()))


def _holds(words: _Words, reserved: dict[_Words, list[_Words]]) -> bool:
    for at in range(len(words) - _BEGINNING + 1):
        for held in reserved.get(words[at : at + _BEGINNING], ()):
            if words[at : at + len(held)] == held:
                return True
    return False


def own_words() -> set[str]:
    """Every word that the grammar and the patterns can say."""
    grammar = (piece for choices in RULES.values() for choice in choices for piece in choice if piece not in RULES)
    return {word for piece in grammar for word in spelled_words(piece)} | phrase_words()


def draw_sentence(texts: Sequence[str], dice: Dice) -> Sentence:
    """One sentence with its reading; never a test sentence."""
    while True:
        kind = dice.random_sample()
        if kind < _GRAMMAR:
            text = training_sentence(dice)
        elif kind < _GRAMMAR + _PATTERNS:
            text = phrase(dice)
        else:
            text = texts[int(dice.randint(len(texts)))]
        if not is_test_sentence(text) and (sentence := read(text, dice)) is not None:
            return sentence


def write_texts(path: Path, texts: Sequence[str]) -> None:
    """One sentence a line. Raises OSError."""
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")


def read_texts(path: Path) -> list[str]:
    """The sentences that `write_texts` wrote. Raises OSError."""
    return path.read_text(encoding="utf-8").splitlines()
