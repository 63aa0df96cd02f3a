"""Sentences from texts that Debian packages bring: WordNet's definitions and examples, and fortunes.

Each is cased and punctuated as a sentence is. What is not plain prose (tables, signs, spelled names, verse, quotations
within quotations) is left out rather than mended. Knows nothing of how words are said.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from whispertide.errors import CorpusError

WORDNET = Path("/usr/share/wordnet")
FORTUNES = Path("/usr/share/games/fortunes")

_PARTS = ("data.noun", "data.verb", "data.adj", "data.adv")
_NOT_PROSE = ("ascii-art", "perl", "translate-me", "ethnic")
_WORDS = range(3, 23)  # in a sentence
_TITLES = "".join(rf"(?<!\b{title}\.)" for title in ("Mr", "Mrs", "Ms", "Dr", "St", "Jr", "Sr", "Mt", "Prof", "vs"))
_SENTENCE_END = re.compile(rf"{_TITLES}(?<=[.!?])\s+(?=[A-Z0-9$])")
_PROSE = re.compile(r"[A-Za-z0-9$£][A-Za-z0-9$£%' ,.?!:-]*")
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


def wordnet_sentences(folder: Path = WORDNET) -> Iterator[str]:
    """WordNet's definitions and examples, in the order of its files. Raises `CorpusError` where it is not installed."""
    for name in _PARTS:
        for line in _lines(folder / name, "wordnet-base"):
            _, bar, gloss = line.partition(" | ")
            if bar:
                examples = re.findall(r'"([^"]+)"', gloss)
                definitions = re.sub(r'"[^"]*"', ";", gloss).split(";")
                yield from _proper(part for text in (*definitions, *examples) for part in _SENTENCE_END.split(text))


def fortune_sentences(folder: Path = FORTUNES) -> Iterator[str]:
    """The sentences of the fortunes, in the order of their files. Raises `CorpusError` where there are none."""
    files = sorted(file for file in folder.glob("*") if file.is_file() and not file.suffix) if folder.is_dir() else []
    if not files:
        raise CorpusError(
            f"expected fortunes in {folder}; there are none (on Debian and Ubuntu: apt-get install fortunes)"
        )
    for file in files:
        if file.name not in _NOT_PROSE:
            for fortune in "".join(_lines(file, "fortunes")).split("\n%\n"):
                said = re.split(r"\n\s+-- ", fortune)[0]  # who said it follows
                yield from _proper(_SENTENCE_END.split(" ".join(said.split())))


def _lines(file: Path, package: str) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except OSError as error:
        raise CorpusError(
            f"expected the text {file}; it cannot be read: {error.strerror} "
            f"(on Debian and Ubuntu: apt-get install {package})"
        ) from error


def _proper(texts: Iterable[str]) -> Iterator[str]:
    return (sentence for text in texts if (sentence := proper_sentence(text)) is not None)


def proper_sentence(text: str) -> str | None:
    """`text` with a capital and a mark at its end and plain commas within, or None where it is not plain prose."""
    text = re.sub(r"\s+", " ", text.replace(";", ",").replace("`", "'")).strip(" ,-:")
    if not _PROSE.fullmatch(text) or re.search(r" -|- |--|[,.:]{2}|'(?![a-z])|(?<![A-Za-z])'|\b[A-Z]\.? [A-Z]\b", text):
        return None
    text = re.sub(r"\bi(?=$|[ ,.?!']|'m\b)", "I", text.replace(": ", ", "))
    text = text[0].upper() + text[1:] + ("" if text[-1] in ".?!" else ".")
    return text if len(text.split()) in _WORDS else None


def word_counts(sentences: Iterable[str]) -> Counter[str]:
    """How often each word occurs, in small letters; figures are not words."""
    return Counter(word for sentence in sentences for word in spelled_words(sentence))


def spelled_words(sentence: str) -> list[str]:
    """The words of a sentence in small letters, without figures; parts of compounds are words."""
    return _WORD.findall(sentence.lower())
