"""Fills the slots of the patterns: who, where, when, how much. Gives text as it is written; knows no voices."""

import re

import numpy as np

from whispertide_lab.speech.numbers import ordinal_ending
from whispertide_lab.speech.patterns import FIGURES, LISTS, NAMES, TALK
from whispertide_lab.speech.sources import spelled_words

Dice = np.random.RandomState

_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=([aeiou]|8|11\b|18\b)(?!ne\b))")


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for line in text.splitlines() for part in line.split("|") if part.strip())


_KINDS = tuple(_patterns(text) for text in (FIGURES, NAMES, TALK))
_SHARES = (0.5, 0.65)  # figures, then names, then talk


def phrase(dice: Dice) -> str:
    """One pattern, its slots filled."""
    kind = _KINDS[int(np.searchsorted(_SHARES, dice.random_sample(), side="right"))]
    pattern = kind[int(dice.randint(len(kind)))]
    text = _SLOT.sub(lambda slot: _filled(slot[1], dice), pattern)
    text = _ARTICLE.sub(r"\1n ", text).replace("..", ".")  # after "p.m." no second point is written
    return text[0].upper() + text[1:]


def phrase_words() -> set[str]:
    """Every word of the patterns and their lists; figures are not words."""
    texts = [_SLOT.sub(" ", pattern) for kind in _KINDS for pattern in kind]
    return {
        word for text in (*texts, *(word for words in LISTS.values() for word in words)) for word in spelled_words(text)
    }


def _filled(slot: str, dice: Dice) -> str:
    if slot in LISTS:
        return LISTS[slot][int(dice.randint(len(LISTS[slot])))]
    return _figure(slot, dice)


def _figure(slot: str, dice: Dice) -> str:
    """A number of some kind, with small ones as likely as large ones where they range widely."""

    def among(low: int, high: int) -> int:
        return int(dice.randint(low, high))

    def wide(low: int, high: int) -> int:
        return int(low * (high / low) ** dice.random_sample())

    match slot:
        case "year":
            return str(among(1900, 2030) if dice.random_sample() < 0.7 else among(1100, 1900))
        case "decade":
            return f"{among(180, 203)}0s"
        case "day":
            return str(among(1, 32))
        case "ordinal":
            number = among(1, 32)
            return f"{number}{ordinal_ending(number)}"
        case "time":
            return f"{among(1, 13)}:{among(0, 60) if dice.random_sample() < 0.5 else 5 * among(1, 12):02d}"
        case "oclock":
            return f"{among(1, 13)} o'clock"
        case "half":
            return "a.m." if dice.random_sample() < 0.5 else "p.m."
        case "count":
            return f"{wide(11, 1000):,}"
        case "thousands":
            return f"{wide(1000, 100_000):,}" if dice.random_sample() < 0.5 else f"{wide(1, 1000)},000"
        case "big":
            return f"{wide(2, 100)} million"
        case "money":
            cents = f".{among(1, 100):02d}" if dice.random_sample() < 0.4 else ""
            return f"${wide(1, 500 if cents else 20_000):,}{cents}"
        case "percent":
            return f"{among(1, 101)}%"
        case "rate" | "decimal":
            return f"{among(0, 20)}.{among(1, 10)}" + ("%" if slot == "rate" else "")
        case "age":
            return str(among(11, 95))
        case "room":
            return str(among(101, 1000))
        case "score":
            return f"{among(0, 12)}-{among(0, 12)}"
        case "phone":
            return f"555-{among(0, 10_000):04d}"
        case "number":
            return str(among(11, 100))
    raise ValueError(f"no slot of a pattern is called {slot!r}")
