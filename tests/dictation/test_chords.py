import pytest

from each_row import each_row
from whispertide.dictation.chords import Chord, parse_chord
from whispertide.errors import OptionError


@each_row(
    ("text", "expected"),
    [
        ("ctrl+alt+space", Chord("space", ("ctrl", "alt"))),
        ("Alt+Control+Space", Chord("space", ("ctrl", "alt"))),
        ("f9", Chord("f9")),
        ("cmd+T", Chord("t", ("super",))),
        ("shift+return", Chord("enter", ("shift",))),
        ("ctrl+plus", Chord("+", ("ctrl",))),
        ("right_ctrl", Chord("right_ctrl")),
        ("ctrl+é", Chord("é", ("ctrl",))),
    ],
)
def test_keys_are_read(text: str, expected: Chord) -> None:
    assert parse_chord(text) == expected
    assert parse_chord(str(expected)) == expected


@each_row("text", ["", "ctrl+", "ctrl", "ctrl+foo", "foo+a", "ctrl+ctrl+a", "a+b", "f99", "ctrl + a"])
def test_what_is_none_is_told(text: str) -> None:
    with pytest.raises(OptionError, match=r"expected keys such as ctrl\+alt\+space.* got '"):
        parse_chord(text)
