import pytest

from each_row import each_row
from whispertide.dictation.x11_layout import Key, Layout, character_of, keysym_named, keysym_of, pieces
from whispertide.errors import KeyboardError

# Numbers as in keysymdef.h of the X Window System
SYMBOLS = {"a": 0x61, "é": 0xE9, "€": 0x10020AC, "漢": 0x1006F22, "😀": 0x101F600, "\n": 0xFF0D, "\t": 0xFF09}


@each_row(("character", "symbol"), SYMBOLS.items())
def test_symbols_of_characters(character: str, symbol: int) -> None:
    assert keysym_of(character) == symbol


@each_row(
    ("symbol", "character"),
    [
        *((symbol, character) for character, symbol in SYMBOLS.items() if character not in "\n\t"),
        *((0x6C1, "а"), (0x6FF, "Ъ"), (0x6A4, "є"), (0x1B1, "ą"), (0x2A1, "Ħ"), (0x5C7, "ا")),  # of older blocks
        *((0x7E1, "α"), (0x7D2, "Σ"), (0x7F2, "σ"), (0x7F3, "ς"), (0x7D9, "Ω"), (0xCE0, "א"), (0xDA1, "ก")),
        *((0xFF0D, ""), (0xFE51, ""), (0x7D3, "")),  # Return, a dead key, none
    ],
)
def test_characters_of_symbols(symbol: int, character: str) -> None:
    assert character_of(symbol) == character


def test_names_of_keys() -> None:
    assert [keysym_named(name) for name in ("enter", "f1", "f12", "ctrl", "super", "é")] == [
        *(0xFF0D, 0xFFBE, 0xFFC9, 0xFFE3, 0xFFEB, 0xE9)
    ]


# Enter, q of English and Russian, a of both, a spare key, another q
ROWS = [[0xFF0D, 0, 0, 0], [0x71, 0x51, 0x6CA, 0x6EA], [0x61, 0x41, 0x6C6, 0x6E6], [0, 0, 0, 0], [0x71, 0, 0, 0]]


def test_a_layout_has_the_keys_of_its_group() -> None:
    english, russian = Layout(8, ROWS).keys(), Layout(8, ROWS, group=1).keys()
    assert english[keysym_of("q")] == Key(9)  # the first of two
    assert english[keysym_of("A")] == Key(10, shift=True)
    assert keysym_of("й") not in english
    assert russian[keysym_of("й")] == Key(9)
    assert russian[keysym_of("Ф")] == Key(10, shift=True)
    assert russian[keysym_of("q")] == Key(12)  # it has one group only, which holds in every layout
    assert english[keysym_of("\n")] == russian[keysym_of("\n")] == Key(8)


def test_spare_keys_have_no_symbol() -> None:
    layout = Layout(8, ROWS)
    assert layout.spare() == [11]
    assert layout.has(9, 0x71)
    assert not layout.has(9, 0x61)
    assert not layout.has(99, 0x61)


def test_a_text_is_cut_where_spare_keys_run_out() -> None:
    keys = Layout(8, ROWS).keys()
    assert list(pieces("aéaéüßa漢", keys, 2)) == ["aéaéü", "ßa漢"]
    assert list(pieces("qa", keys, 0)) == ["qa"]
    assert list(pieces("", keys, 0)) == []
    with pytest.raises(KeyboardError, match="expected a key for 'é'"):
        list(pieces("aé", keys, 0))
