import pytest

from each_row import each_row
from whispertide_lab.speech import numbers


@each_row(
    ("number", "said"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (99, "ninety nine"),
        (105, "one hundred five"),
        (1200, "one thousand two hundred"),
        (70_000, "seventy thousand"),
        (2_000_017, "two million seventeen"),
        (999_999_999_999, "nine hundred ninety nine billion nine hundred ninety nine million "
         "nine hundred ninety nine thousand nine hundred ninety nine"),
    ],
)  # fmt: skip
def test_cardinals(number: int, said: str) -> None:
    assert numbers.cardinal(number) == said


def test_cardinals_with_and() -> None:
    assert numbers.cardinal(105, with_and=True) == "one hundred and five"
    assert numbers.cardinal(1005, with_and=True) == "one thousand and five"
    assert numbers.cardinal(1200, with_and=True) == "one thousand two hundred"


@pytest.mark.parametrize(
    ("ending", "those"),
    [("st", (1, 21, 101)), ("nd", (2, 32)), ("rd", (3, 1923)), ("th", (0, 4, 11, 12, 13, 20, 111, 1812))],
)
def test_endings_of_ordinals(ending: str, those: tuple[int, ...]) -> None:
    assert {numbers.ordinal_ending(number) for number in those} == {ending}


def test_what_has_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a number"):
        numbers.cardinal(10**12)


@each_row(
    ("number", "said"),
    [
        (1, "first"),
        (2, "second"),
        (12, "twelfth"),
        (20, "twentieth"),
        (21, "twenty first"),
        (104, "one hundred fourth"),
    ],
)
def test_ordinals(number: int, said: str) -> None:
    assert numbers.ordinal(number) == said


@each_row(
    ("number", "said"),
    [
        (1987, "nineteen eighty seven"),
        (1905, "nineteen oh five"),
        (1900, "nineteen hundred"),
        (2000, "two thousand"),
        (2005, "two thousand five"),
        (2024, "twenty twenty four"),
        (1066, "ten sixty six"),
    ],
)
def test_years(number: int, said: str) -> None:
    assert numbers.year(number) == said


def test_years_of_this_century_have_two_readings() -> None:
    assert numbers.year(2024, pairs=False) == "two thousand twenty four"
    assert numbers.year(1987, pairs=False) == numbers.year(1987)


def test_decades() -> None:
    assert numbers.decade(1990) == "nineteen nineties"
    assert numbers.decade(1900) == "nineteen hundreds"
    assert numbers.decade(80) == "eighties"


def test_times() -> None:
    assert numbers.clock(3, 30) == "three thirty"
    assert numbers.clock(3, 5) == "three oh five"
    assert numbers.clock(7, 0) == "seven o'clock"


def test_money() -> None:
    assert numbers.amount(5, 0, "dollars", "cents") == "five dollars"
    assert numbers.amount(1, 1, "dollars", "cents") == "one dollar and one cent"
    assert numbers.amount(1, 1, "pounds", "pence") == "one pound and one penny"
    assert numbers.amount(5, 20, "dollars", "cents", short=True) == "five twenty"
    assert numbers.amount(5, 5, "dollars", "cents", short=True) == "five dollars and five cents"


def test_figures_one_by_one() -> None:
    assert numbers.digits("5501") == "five five oh one"
    assert numbers.decimal(3, "05") == "three point zero five"
