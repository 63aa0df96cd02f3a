"""Classifies a text's intent by its words: a linear classifier of words, pairs of neighbours and parts of words.

It was learned from text alone, so it knows every training sentence, whatever became of its sound. A part of a word
still tells something where the whole was misheard. Features are hashed into a fixed number of rows, so there is no
dictionary (Weinberger et al. 2009, arXiv 0902.2206). Source: ours; docs/internals/pilot.md.
"""

import string
import zlib
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from whispertide.types import FloatArray, IntArray

_PUNCTUATION = string.punctuation.replace("'", "") + "“”‘’…–—"
_PARTS = (3, 4, 5)  # characters, with the marks at both ends of a word


@dataclass(frozen=True, slots=True)
class IntentWords:
    """`weights` float32 [rows, intents]: what each feature says for each intent."""

    weights: FloatArray

    def scores(self, text: str) -> FloatArray:
        """Log probabilities [intents]."""
        rows = hashed(text, len(self.weights))
        logits = self.weights[rows].sum(axis=0) * weight_of(rows)
        logprobs: FloatArray = logits - np.logaddexp.reduce(logits)
        return logprobs


def plain(text: str) -> str:
    """As commands are written: lower case, no punctuation but apostrophes and what joins a word."""
    words = (word.strip(_PUNCTUATION) for word in text.lower().split())
    return " ".join(filter(None, words))


def hashed(text: str, rows: int) -> IntArray:
    """The rows of the features of a `plain` text, each once, in ascending order; none where it has no word."""
    words = text.split()
    features = {*words, *(f"{first} {second}" for first, second in pairwise(words))}
    for word in words:
        marked = f"<{word}>"
        # A mark in front, so that a part is not taken for a whole word.
        features |= {"#" + marked[at : at + size] for size in _PARTS for at in range(len(marked) - size + 1)}
    return np.array(sorted({zlib.crc32(feature.encode()) % rows for feature in features}), dtype=np.int64)


def weight_of(rows: IntArray) -> float:
    """Of each feature, so that long texts say no more than short ones."""
    return float(1 / np.sqrt(max(len(rows), 1)))
