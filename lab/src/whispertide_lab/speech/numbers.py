"""How numbers are said in English, and how ordinals end in figures. Knows nothing of sentences."""

_NAMES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen ten twenty thirty forty fifty sixty seventy eighty ninety"""
_SMALL = tuple(_NAMES.split()[:20])
_TENS = ("", *_NAMES.split()[20:])
_SCALES = ((10**9, "billion"), (10**6, "million"), (10**3, "thousand"))
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
LARGEST = 10**12


def cardinal(number: int, *, with_and: bool = False) -> str:
    """0 <= `number` < `LARGEST` in words: "one hundred five"; with `with_and` "one hundred and five"."""
    if not 0 <= number < LARGEST:
        raise ValueError(f"expected a number from 0 to below {LARGEST}; got {number}")
    for size, name in _SCALES:
        if number >= size:
            head = f"{cardinal(number // size, with_and=with_and)} {name}"
            rest = number % size
            joint = " and " if with_and and rest < 100 else " "
            return f"{head}{joint}{cardinal(rest, with_and=with_and)}" if rest else head
    if number >= 100:
        head = f"{_SMALL[number // 100]} hundred"
        joint = " and " if with_and else " "
        return f"{head}{joint}{cardinal(number % 100)}" if number % 100 else head
    if number < 20:
        return _SMALL[number]
    return _TENS[number // 10] + (f" {_SMALL[number % 10]}" if number % 10 else "")


def ordinal(number: int) -> str:
    """Like "twenty first"."""
    *head, last = cardinal(number).split()
    regular = last[:-1] + "ieth" if last.endswith("y") else last + "th"
    return " ".join((*head, _ORDINALS.get(last, regular)))


def ordinal_ending(number: int) -> str:
    """Of an ordinal in figures: "st", "nd", "rd" or "th"."""
    return "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def year(number: int, *, pairs: bool = True) -> str:
    """1000 to 2999: "nineteen eighty seven", "nineteen oh five", "two thousand five".

    From 2010 on "twenty ten", or without `pairs` "two thousand ten".
    """
    century, rest = divmod(number, 100)
    if century % 10 == 0 and (rest < 10 or not pairs):
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {f'oh {_SMALL[rest]}' if rest < 10 else cardinal(rest)}"


def decade(number: int) -> str:
    """1990: "nineteen nineties"; 1900: "nineteen hundreds"; 80: "eighties". Ends in 0."""
    said = cardinal(number) if number < 100 else year(number)
    return said[:-1] + "ies" if said.endswith("y") else said + "s"


def clock(hour: int, minute: int) -> str:
    """Like "three thirty", "three oh five", "three o'clock"."""
    if minute == 0:
        return f"{cardinal(hour)} o'clock"
    return f"{cardinal(hour)} {f'oh {_SMALL[minute]}' if minute < 10 else cardinal(minute)}"


def digits(text: str) -> str:
    """One by one: "555" is "five five five", 0 is "oh"."""
    return " ".join("oh" if figure == "0" else _SMALL[int(figure)] for figure in text)


def decimal(whole: int, fraction: str) -> str:
    """Like "three point one four", "zero point zero five"."""
    return f"{cardinal(whole)} point {' '.join(_SMALL[int(figure)] for figure in fraction)}"


def amount(whole: int, cents: int, unit: str, part: str, *, short: bool = False) -> str:
    """Money: "five dollars and twenty cents"; `short` "five twenty". `unit` and `part` are plurals."""
    if short and cents >= 10 and whole:
        return f"{cardinal(whole)} {cardinal(cents)}"
    said = f"{cardinal(whole)} {_singular(unit) if whole == 1 else unit}"
    if cents:
        said += f" and {cardinal(cents)} {_singular(part) if cents == 1 else part}"
    return said


def _singular(name: str) -> str:
    return {"pence": "penny"}.get(name, name.removesuffix("s"))
