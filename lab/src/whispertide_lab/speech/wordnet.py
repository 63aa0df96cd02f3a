"""Reserved sentences from WordNet: those of its definitions and examples that a model of ours is never trained on.

Sentences are cut as for training (`training.speech.sources`), so that the rule of `text` decides about the same strings
there and here; `training.speech.texts` drops sentences that hold a reserved one, too. Kept are those that read the same
as they are written: 4 to 14 plain words. Read at run time from the files of the Debian package wordnet-base.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from whispertide_lab.speech.sources import WORDNET
from whispertide_lab.speech.sources import wordnet_sentences as all_sentences
from whispertide_lab.speech.text import is_test_sentence

WORDNET_VERSION = 1  # counts up whenever the same files give other sentences

_WORDS = (4, 14)
_WORD = r"(?:[A-Z]?[a-z]+|[AI])(?:'[a-z]+)?"
_PLAIN = re.compile(rf"{_WORD}(?:,? {_WORD})*[.?!]")


def has_wordnet(folder: Path = WORDNET) -> bool:
    """Whether WordNet's files are there."""
    return any(folder.glob("data.*"))


def wordnet_sentences(seed: int, stream: int, folder: Path = WORDNET) -> Iterator[str]:
    """All reserved sentences, each once, in an order that `seed` and `stream` decide.

    Raises `CorpusError` where WordNet is not installed.
    """
    sentences = _reserved(folder)
    for at in np.random.RandomState([seed % 2**32, stream, WORDNET_VERSION]).permutation(len(sentences)):
        yield sentences[int(at)]


@cache
def _reserved(folder: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in all_sentences(folder) if _is_plain(text) and is_test_sentence(text)))


def _is_plain(text: str) -> bool:
    return _WORDS[0] <= len(text.split()) <= _WORDS[1] and _PLAIN.fullmatch(text) is not None
