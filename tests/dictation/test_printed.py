import io

import pytest

from whispertide.dictation.chords import parse_chord
from whispertide.dictation.printed import PrintedKeyboard
from whispertide.dictation.strokes import Erase, Press, Type
from whispertide.dictation.switch import Switch
from whispertide.errors import KeyboardError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("output", "erased"), [(io.StringIO(), "\b\b"), (Terminal(), "\b \b\b \b")])
def test_strokes_are_written(output: io.StringIO, erased: str) -> None:
    said: list[str] = []
    keyboard = PrintedKeyboard(output, said.append)
    for stroke in (Type("Café"), Erase("fé"), Press(parse_chord("ctrl+t"))):
        keyboard.send(stroke)
    keyboard.close()
    assert output.getvalue() == f"Café{erased}\n"
    assert said == ["pressed ctrl+t"]
    assert (keyboard.is_busy(), keyboard.place()) == (False, None)


def test_nothing_is_no_line() -> None:
    output = io.StringIO()
    PrintedKeyboard(output, print).close()
    assert output.getvalue() == ""


def test_it_has_no_keys() -> None:
    with (
        pytest.raises(KeyboardError, match="--key none"),
        PrintedKeyboard(io.StringIO(), print).hotkey(parse_chord("f9"), Switch()),
    ):
        pass
