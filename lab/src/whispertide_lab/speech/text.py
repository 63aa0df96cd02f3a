"""The sentences of the synthetic talks, and the rule that keeps them out of every training text.

The rule: lower-case a sentence, keep letters, digits and apostrophes, join its words by single spaces, take SHA-256 of
that. Where the digest, read as a number, is divisible by ten, the sentence is a test sentence: it may be spoken in an
evaluation and must never be trained on. So evaluation and training may draw from the same source and stay disjoint.
The talks use nothing but test sentences; `training` drops them (`is_test_sentence`, `is_reserved`).

The bundled nano.en of version 0.1 is older than the rule. It was trained on WordNet glosses and examples; the sentences
here come from a grammar of our own, which has no text in common with those but may make a short sentence again.

Knows nothing of voices. The random stream is numpy's RandomState, which numpy guarantees never to change.
"""

import hashlib
import re
from collections.abc import Iterator

import numpy as np

from whispertide_lab.speech.grammar import RULES, VOWELS

TEXT_VERSION = 1  # counts up whenever the same seed gives other sentences
TEST_SHARE = 10  # one sentence in so many is for tests alone

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_MARKS = frozenset(",?")
_END = re.compile(r"(?<=[.!?])[\"')]*\s+")


def is_test_sentence(text: str) -> bool:
    """Whether this sentence is reserved for evaluation; see the rule above. Training must drop it if so."""
    plain = " ".join(_WORD.findall(text.lower().replace("’", "'")))
    return int.from_bytes(hashlib.sha256(plain.encode()).digest(), "big") % TEST_SHARE == 0


def is_reserved(text: str) -> bool:
    """Whether the text, or any sentence in it, is a test sentence."""
    return any(map(is_test_sentence, {text, *_END.split(text)}))


def reserved_sentences(seed: int, stream: int) -> Iterator[str]:
    """Test sentences without end, each at most once; `stream` numbers independent sequences of the same seed."""
    dice = np.random.RandomState([seed % 2**32, stream, TEXT_VERSION])
    seen: set[str] = set()
    while True:
        sentence = _sentence(dice)
        if sentence not in seen and is_test_sentence(sentence):
            seen.add(sentence)
            yield sentence


def training_sentence(dice: np.random.RandomState) -> str:
    """A sentence of the same grammar that is not a test sentence."""
    while True:
        sentence = _sentence(dice)
        if not is_test_sentence(sentence):
            return sentence


def _sentence(dice: np.random.RandomState) -> str:
    pieces = _expand("S", dice)
    mark = pieces.pop() if pieces[-1] == "?" else "."
    words: list[str] = []
    for at, piece in enumerate(pieces):
        if piece in _MARKS:
            words[-1] += piece
        else:
            words.append("an" if piece == "a" and pieces[at + 1][0] in VOWELS else piece)
    text = " ".join(words) + mark
    return text[0].upper() + text[1:]


def _expand(name: str, dice: np.random.RandomState) -> list[str]:
    choices = RULES.get(name)
    if choices is None:
        return [name]
    chosen = choices[dice.randint(len(choices))]
    return [piece for part in chosen for piece in _expand(part, dice)]
