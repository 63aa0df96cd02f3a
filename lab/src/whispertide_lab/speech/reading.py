"""From how a sentence is written to how it is said, word by word: "$5" is "five dollars", "Dr." is "doctor".

A synthesizer is given what is said and so has nothing to guess; its times, which are those of the words said, are given
back to the words written. Which numbers are years and which are counts is decided by their look and their neighbours.
What has no reading here (unknown capitals, signs, foreign letters) makes the whole sentence unreadable.

Knows nothing of where sentences come from or who says them.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from whispertide_lab.speech import numbers
from whispertide_lab.speech.voices import Span

Dice = np.random.RandomState

# As Whisper writes them. Letters are spelled so that all three synthesizers say their names.
ABBREVIATIONS = MappingProxyType(
    {
        "Dr.": "doctor",
        "Mr.": "mister",
        "Mrs.": "missus",
        "Ms.": "miz",
        "Prof.": "professor",
        "Jr.": "junior",
        "Sr.": "senior",
        "St.": "saint",
        "Mt.": "mount",
        "No.": "number",
        "etc.": "et cetera",
        "vs.": "versus",
        "a.m.": "eigh em",
        "p.m.": "pee em",
        "U.S.": "you ess",
        "U.K.": "you kay",
        "D.C.": "dee see",
        "US": "you ess",
        "UK": "you kay",
        "EU": "ee you",
        "TV": "tee vee",
        "PC": "pee see",
        "CD": "see dee",
        "OK": "okay",
        "CEO": "see ee oh",
        "CIA": "see eye eigh",
        "DNA": "dee en eigh",
        "GPS": "gee pee ess",
        "CPU": "see pee you",
        "USA": "you ess eigh",
        "NASA": "nassa",
        "II": "two",
        "III": "three",
    }
)
_MONTHS = "January February March April May June July August September October November December"
MONTHS = tuple(_MONTHS.split())
_SCALES = ("hundred", "thousand", "million", "billion")
_CURRENCIES = MappingProxyType({"$": ("dollars", "cents"), "£": ("pounds", "pence"), "€": ("euros", "cents")})
_ONE_BY_ONE = ("room", "flight", "highway", "route", "area")  # "room one oh one"

_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*'?")
_CAPITALS = re.compile(r"[A-Z]{2,}|[B-HJ-Z]")  # "DNA", "X"; "A" and "I" are words
_MARKS = ",.?!;:"


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is written, without spaces, and as it is said: one word or more."""

    written: str
    said: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """Something to say."""

    words: tuple[Word, ...]

    @property
    def written(self) -> str:
        """As Whisper should write it."""
        return " ".join(word.written for word in self.words)

    @property
    def said(self) -> str:
        """For the synthesizer."""
        return " ".join(word.said for word in self.words)

    def spans(self, spoken: Sequence[Span]) -> tuple[Span, ...]:
        """The spans of the words written, from those of the words said, one for each of `said.split()`."""
        counts = [len(word.said.split()) for word in self.words]
        if sum(counts) != len(spoken):
            raise ValueError(f"expected {sum(counts)} spans, one per word of {self.said!r}; got {len(spoken)}")
        ends = np.cumsum(counts).tolist()
        return tuple((spoken[end - count][0], spoken[end - 1][1]) for end, count in zip(ends, counts, strict=True))


def read(text: str, dice: Dice) -> Sentence | None:
    """The sentence with its reading, None where a part of it has none; the dice choose where several are usual."""
    written = text.split()
    words: list[Word] = []
    for at, token in enumerate(written):
        before = written[at - 1].rstrip(_MARKS) if at else ""
        after = written[at + 1].rstrip(_MARKS) if at + 1 < len(written) else ""
        said = _said(token, before, after, dice)
        if said is None:
            return None
        words.append(Word(token, said))
    return Sentence(tuple(words)) if words else None


def _said(token: str, before: str, after: str, dice: Dice) -> str | None:
    """One written word as it is said, with the marks after it; `before` and `after` are its neighbours."""
    core, marks = _split(token)
    for point in ("." if marks.startswith(".") else "", ""):  # "p.m.", or "TV." at the end of a sentence
        if core + point in ABBREVIATIONS:
            return ABBREVIATIONS[core + point] + (marks[len(point) :] or ("" if after else point))
    if any(character.isdigit() for character in core):
        said = _number(core, before, after, dice)
        return None if said is None else said + marks
    if not _WORD.fullmatch(core) or any(_CAPITALS.fullmatch(part) for part in re.split("['-]", core)):
        return None
    if before.lstrip("".join(_CURRENCIES)) != before and core in _SCALES:
        return f"{core} {_CURRENCIES[before[0]][0]}{marks}"  # "$3 million" is "three million dollars"
    return core + marks


def _split(token: str) -> tuple[str, str]:
    core = token.rstrip(_MARKS)
    return core, token[len(core) :]


def _number(core: str, before: str, after: str, dice: Dice) -> str | None:
    for pattern, said in _FORMS:
        if found := pattern.fullmatch(core):
            return said(found, before, after, dice)
    return None


_Form = Callable[[re.Match[str], str, str, Dice], str | None]


def _plain(found: re.Match[str], before: str, after: str, dice: Dice) -> str | None:
    figures = found[0]
    number = int(figures.replace(",", ""))
    if before in MONTHS and 1 <= number <= 31:
        return numbers.ordinal(number)
    if before.lower() in _ONE_BY_ONE and len(figures) == 3:
        return numbers.digits(figures)
    if len(figures) > 1 and figures[0] == "0":
        return numbers.digits(figures)
    if "," not in figures and 1100 <= number < 2100:
        return numbers.year(number, pairs=dice.random_sample() < 0.7)
    return numbers.cardinal(number, with_and=dice.random_sample() < 0.4) if number < numbers.LARGEST else None


def _money(found: re.Match[str], before: str, after: str, dice: Dice) -> str | None:
    unit, part = _CURRENCIES[found[1]]
    whole, cents = int(found[2].replace(",", "")), found[3]
    if whole >= numbers.LARGEST:
        return None
    if after in _SCALES:
        return numbers.decimal(whole, cents) if cents else numbers.cardinal(whole)
    if cents and len(cents) != 2:
        return None
    return numbers.amount(whole, int(cents or 0), unit, part, short=dice.random_sample() < 0.4)


def _time(found: re.Match[str], before: str, after: str, dice: Dice) -> str | None:
    hour, minute = int(found[1]), int(found[2])
    if not 0 < hour < 24 or minute > 59:
        return None
    return numbers.cardinal(hour) if minute == 0 and after in ("a.m", "p.m") else numbers.clock(hour, minute)


def _decade(found: re.Match[str], before: str, after: str, dice: Dice) -> str | None:
    number = int(found[1])
    return numbers.decade(number) if number < 100 or 1100 <= number < 2100 else None


def _ordinal(found: re.Match[str], before: str, after: str, dice: Dice) -> str | None:
    number = int(found[1])
    return numbers.ordinal(number) if found[2] == numbers.ordinal_ending(number) else None


def _compound(found: re.Match[str], before: str, after: str, dice: Dice) -> str | None:
    return f"{numbers.cardinal(int(found[1]))} {found[2].replace('-', ' ')}"  # "20-year-old"


_COUNT = r"\d{1,3}(?:,\d{3})+|\d{1,12}"
_FORMS: tuple[tuple[re.Pattern[str], _Form], ...] = (
    (re.compile(_COUNT), _plain),
    (
        re.compile(r"(\d{1,3}(?:,\d{3})+|\d{1,9})\.(\d{1,4})"),
        lambda found, *_: numbers.decimal(_count(found[1]), found[2]),
    ),
    (re.compile(rf"([$£€])({_COUNT})(?:\.(\d{{1,2}}))?"), _money),
    (re.compile(rf"({_COUNT})%"), lambda found, *_: f"{numbers.cardinal(_count(found[1]))} percent"),
    (re.compile(r"(\d{1,9})\.(\d{1,3})%"), lambda found, *_: f"{numbers.decimal(int(found[1]), found[2])} percent"),
    (re.compile(r"(\d{1,2}):(\d\d)"), _time),
    (re.compile(r"(\d{0,3}0)s"), _decade),
    (re.compile(r"(\d{1,4})(st|nd|rd|th)"), _ordinal),
    (re.compile(r"(\d{1,4})-([a-z]+(?:-[a-z]+)*)"), _compound),
    (re.compile(r"(\d{3})-(\d{4})"), lambda found, *_: f"{numbers.digits(found[1])}, {numbers.digits(found[2])}"),
    (
        re.compile(r"(\d{1,2})-(\d{1,2})"),
        lambda f, *_: f"{numbers.cardinal(int(f[1]))} to {numbers.cardinal(int(f[2]))}",
    ),
)


def _count(figures: str) -> int:
    return int(figures.replace(",", ""))
