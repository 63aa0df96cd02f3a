"""With a stand-in for pynput: neither macOS nor Windows is here."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from whispertide.dictation.chords import parse_chord
from whispertide.dictation.desktop import DesktopKeyboard
from whispertide.dictation.strokes import Erase, Press, Type
from whispertide.dictation.switch import Switch
from whispertide.errors import KeyboardError


class Key(Enum):
    backspace = 1
    ctrl = 2
    ctrl_l = 3
    ctrl_r = 4
    alt = 5
    alt_l = 6
    cmd = 7
    space = 8
    f9 = 9


class Controller:
    class InvalidKeyException(Exception):  # noqa: N818
        pass

    class InvalidCharacterException(Exception):  # noqa: N818
        pass

    did: list[Any]

    def __init__(self) -> None:
        self.did = []

    def type(self, text: str) -> None:
        if "\x00" in text:
            raise self.InvalidCharacterException(0, text)
        self.did.append(text)

    def tap(self, key: Any) -> None:
        self.did.append(key)

    @contextmanager
    def pressed(self, *keys: Any) -> Iterator[None]:
        self.did += [("down", key) for key in keys]
        yield
        self.did += [("up", key) for key in reversed(keys)]


class Listener:
    last: "Listener"

    def __init__(self, on_press: Callable[[Any], None], on_release: Callable[[Any], None]) -> None:
        self.press, self.release = on_press, on_release
        Listener.last = self

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def canonical(self, key: Any) -> Any:
        """As pynput documents it: the same key whatever modifiers are held. Of Ctrl and a letter Windows makes another
        character.
        """
        character = getattr(key, "char", None)
        return SimpleNamespace(char=chr(ord(character) + 96)) if character and ord(character) < 27 else key


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    answer = [True]
    package = ModuleType("pynput")
    package.keyboard = SimpleNamespace(Controller=Controller, Key=Key, Listener=Listener)  # type: ignore[attr-defined]
    services = ModuleType("HIServices")
    services.AXIsProcessTrusted = lambda: answer[0]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynput", package)
    monkeypatch.setitem(sys.modules, "HIServices", services)
    return answer


def test_strokes_are_typed(trusted: list[bool]) -> None:
    keyboard = DesktopKeyboard("win32")
    for stroke in (Type("Café\n"), Erase("é\n"), Press(parse_chord("ctrl+super+t"))):
        keyboard.send(stroke)
    assert keyboard._controller.did == [
        *("Café\n", Key.backspace, Key.backspace),
        *(("down", Key.ctrl), ("down", Key.cmd), "t", ("up", Key.cmd), ("up", Key.ctrl)),
    ]


def test_what_the_system_does_not_take_is_told(trusted: list[bool]) -> None:
    keyboard = DesktopKeyboard("win32")
    with pytest.raises(KeyboardError, match="did not take a key"):
        keyboard.send(Type("\x00"))
    with pytest.raises(KeyboardError, match="it has no 'menu'"):
        keyboard.send(Press(parse_chord("menu")))


def test_macos_is_asked_for_its_permission(trusted: list[bool]) -> None:
    DesktopKeyboard("darwin")
    trusted[0] = False
    DesktopKeyboard("win32")
    with pytest.raises(KeyboardError, match="Privacy & Security, Accessibility"):
        DesktopKeyboard("darwin")


def test_a_letter_is_the_same_key_while_ctrl_is_held(trusted: list[bool]) -> None:
    keyboard, switch, letter = DesktopKeyboard("win32"), Switch(hold=True), SimpleNamespace(char="\x04")
    with keyboard.hotkey(parse_chord("ctrl+d"), switch):
        keys = Listener.last
        keys.press(Key.ctrl_l)
        keys.press(letter)
        assert switch.on
        keys.release(Key.ctrl_l)
        keys.release(SimpleNamespace(char="d"))
        assert not switch.on
        keys.press(Key.ctrl_l)
        assert not switch.on, "nothing else is held"


def test_the_keys_change_the_switch(trusted: list[bool]) -> None:
    keyboard, switch = DesktopKeyboard("win32"), Switch(hold=True)
    with keyboard.hotkey(parse_chord("ctrl+alt+space"), switch):
        keys = Listener.last
        for key in (Key.ctrl_l, Key.alt_l):
            keys.press(key)
            assert not switch.on
        keys.press(Key.space)
        keys.press(Key.space)  # it repeats
        assert switch.on
        assert keyboard.is_busy()  # a letter would be a shortcut now
        keys.release(Key.space)
        assert not switch.on
        keys.release(Key.ctrl_l)
        keys.release(Key.alt_l)
        assert not keyboard.is_busy()
        keys.press(None)  # what it does not know
        keys.press(SimpleNamespace(char="a"))
        assert not switch.on


def test_a_modifier_alone_may_be_the_key(trusted: list[bool]) -> None:
    switch = Switch()
    with DesktopKeyboard("win32").hotkey(parse_chord("right_ctrl"), switch):
        Listener.last.press(Key.ctrl_l)
        assert not switch.on
        Listener.last.press(Key.ctrl_r)
        assert switch.on
