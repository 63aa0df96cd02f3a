"""On a real X11 server without a screen (Xvfb), into a real window (Tk)."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from whispertide.dictation.chords import parse_chord
from whispertide.dictation.strokes import Erase, Press, Type
from whispertide.dictation.switch import Switch
from whispertide.dictation.x11 import X11Keyboard
from whispertide.dictation.x11_display import connect, read_layout
from whispertide.dictation.x11_layout import Layout, keysym_named
from whispertide.errors import KeyboardError
from x11_window import Window, open_window

pytestmark = pytest.mark.slow

MANY = "".join(map(chr, range(0x4E00, 0x4E28)))  # more characters than there are spare keys
TEXT = f"Hello, World! é ß Ü 漢字 кот Ω 😀 «q» “x” don't 3.5 % ŁÓDŹ\nnew\tline {MANY}"


@pytest.fixture
def keyboard(x11: str) -> Iterator[X11Keyboard]:
    keyboard = X11Keyboard()
    yield keyboard
    keyboard.close()


@pytest.fixture
def window(x11: str) -> Iterator[Window]:
    window = open_window(x11)
    yield window
    window.close()


def becomes(found: Callable[[], Any], expected: Any) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + 10
    while found() != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found() == expected


@contextmanager
def person(*keys: str) -> Iterator[None]:
    """Somebody holds keys down, one after the other."""
    connection = connect()
    other = X11Keyboard(connection)
    codes = [read_layout(connection).keys()[keysym_named(key)].code for key in keys]
    for code in codes:
        other._fake(code, True)
    other._round_trip()
    try:
        yield
    finally:
        for code in reversed(codes):
            other._fake(code, False)
        other.close()


def test_any_character_is_typed(keyboard: X11Keyboard, window: Window) -> None:
    keyboard.send(Type(TEXT))
    becomes(lambda: window.text, TEXT)


def test_what_was_typed_is_taken_back(keyboard: X11Keyboard, window: Window) -> None:
    for stroke in (Type("One. Twö 漢字."), Erase(" Twö 漢字."), Type(" Three.")):
        keyboard.send(stroke)
    becomes(lambda: window.text, "One. Three.")


def test_keys_are_pressed_together(keyboard: X11Keyboard, window: Window) -> None:
    keyboard.send(Type("One"))
    keyboard.send(Press(parse_chord("home")))
    keyboard.send(Type(">"))
    keyboard.send(Press(parse_chord("shift+end")))  # selects
    keyboard.send(Type("Two"))
    becomes(lambda: window.text, ">Two")


def test_caps_lock_changes_nothing_and_stays(keyboard: X11Keyboard, window: Window) -> None:
    keyboard._lock(2)
    try:
        keyboard.send(Type("Abc é"))
        becomes(lambda: window.text, "Abc é")
        assert keyboard._state().lockedMods == 2
    finally:
        keyboard._lock(0)


def test_in_another_layout_the_same_is_typed(keyboard: X11Keyboard, window: Window) -> None:
    """Letters of the second layout of a keyboard have other keys; characters without one are lent some."""
    before = read_layout(keyboard._connection)
    q = before.keys()[ord("q")].code
    keyboard._connection.core.ChangeKeyboardMapping(1, q, 2, [ord("z"), ord("Z")])  # as on other keyboards
    try:
        keyboard.send(Type("quiz Quiz"))
        becomes(lambda: window.text, "quiz Quiz")
    finally:
        keyboard._connection.core.ChangeKeyboardMapping(1, q, 2, [ord("q"), ord("Q")])


def test_spare_keys_are_given_back(x11: str) -> None:
    keyboard, connection = X11Keyboard(), connect()
    before = set(read_layout(connection).spare())
    keyboard.send(Type("漢字"))
    assert len(before - set(read_layout(connection).spare())) == 2
    keyboard.close()
    assert set(read_layout(connection).spare()) == before
    connection.disconnect()


def test_a_layout_that_uses_the_lent_keys_gets_them(keyboard: X11Keyboard) -> None:
    keyboard._look_after_lent(Layout(8, [[0], [0], [0x61]]))
    keyboard._lent[8].keysym = 0x10020AC
    keyboard._look_after_lent(Layout(8, [[0x10020AC], [0x62], [0]]))
    assert {code: one.keysym for code, one in keyboard._lent.items()} == {8: 0x10020AC, 10: 0}
    keyboard._lent.clear()


def test_while_a_modifier_is_held_it_is_busy(keyboard: X11Keyboard) -> None:
    assert not keyboard.is_busy()
    with person("ctrl"):
        assert keyboard.is_busy()
    assert not keyboard.is_busy()


def test_the_place_is_the_window_with_the_focus(keyboard: X11Keyboard, window: Window, x11: str) -> None:
    first = keyboard.place()
    assert keyboard.place() == first
    other = open_window(x11)
    becomes(lambda: keyboard.place() != first, True)
    other.close()


@pytest.mark.parametrize(
    ("keys", "hold", "expected"),
    [
        ("ctrl+alt+space", False, [True, True, False, False]),
        ("f9", False, [True, True, False, False]),
        ("f9", True, [True, False, True, False]),
        ("right_ctrl", True, [True, False, True, False]),
    ],
)
def test_a_hotkey_changes_the_switch(x11: str, keys: str, hold: bool, expected: list[bool]) -> None:
    chord, switch = parse_chord(keys), Switch(hold=hold)
    found = []
    with X11Keyboard().hotkey(chord, switch):
        for _ in range(2):
            with person(*chord.modifiers, chord.key):
                time.sleep(0.8)  # a key repeats after 0.66 s
                found.append(switch.on)
            time.sleep(0.2)
            found.append(switch.on)
    assert found == expected


def test_while_its_key_is_held_text_reaches_the_window(keyboard: X11Keyboard, window: Window) -> None:
    switch = Switch(hold=True)
    with keyboard.hotkey(parse_chord("f9"), switch), person("f9"):
        becomes(lambda: switch.on, True)
        for word in ("It", " is", " typed", " while", " I", " speak."):
            keyboard.send(Type(word))
            time.sleep(0.2)
        becomes(lambda: window.text, "It is typed while I speak.")


def test_other_keys_reach_the_window(keyboard: X11Keyboard, window: Window) -> None:
    with keyboard.hotkey(parse_chord("ctrl+alt+space"), switch := Switch()):
        keyboard.send(Press(parse_chord("a")))
        becomes(lambda: window.text, "a")
        assert not switch.on


def test_keys_that_are_taken_are_told(keyboard: X11Keyboard) -> None:
    chord = parse_chord("ctrl+f9")

    def grab() -> None:
        with keyboard.hotkey(chord, Switch()):
            pass

    with keyboard.hotkey(chord, Switch()), pytest.raises(KeyboardError, match=r"ctrl\+f9 is taken"):
        grab()
    grab()  # they were given back
    chord = parse_chord("ж")
    with pytest.raises(KeyboardError, match="its layout has no 'ж'"):
        grab()


def test_a_display_that_is_gone_is_told(x11: str) -> None:
    server = subprocess.Popen(["Xvfb", ":8431", "-nolisten", "tcp"], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                keyboard = X11Keyboard(connect(":8431"))
                break
            except KeyboardError:
                time.sleep(0.1)
    finally:
        server.terminate()
        server.wait(10)
    with pytest.raises(KeyboardError, match="the X11 display is gone"):
        keyboard.send(Type("x"))
