"""The keyboard of macOS and Windows, through pynput. Untried on both: written from its documentation, and tested with a
stand-in.

pynput tells of every key, so that it can find the hotkey; the keys that are down are kept here, and no others.
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from whispertide.dictation.chords import MODIFIERS, Chord
from whispertide.dictation.strokes import Erase, Press, Stroke, Type, backspaces
from whispertide.dictation.switch import Switch
from whispertide.errors import KeyboardError

_NAMES = {
    "super": "cmd",
    "right_ctrl": "ctrl_r",
    "right_alt": "alt_r",
    "right_shift": "shift_r",
    "print": "print_screen",
}
_NO_ACCESS = (
    "expected the permission to type into other programs: System Settings, Privacy & Security, Accessibility and Input "
    "Monitoring; switch both on for the terminal in which whispertide runs, and start it again"
)


class DesktopKeyboard:
    """Types with pynput. See `keyboard.Keyboard`."""

    def __init__(self, platform: str) -> None:
        from pynput import keyboard

        self._pynput: Any = keyboard
        self._controller: Any = keyboard.Controller()
        self._down: set[str] = set()
        if platform == "darwin" and not self._is_trusted():
            raise KeyboardError(_NO_ACCESS)

    def send(self, stroke: Stroke) -> None:
        """Do what the stroke asks."""
        refusals = (self._controller.InvalidKeyException, self._controller.InvalidCharacterException)
        try:
            match stroke:
                case Type(text):
                    self._controller.type(text)
                case Erase(text):
                    for _ in range(backspaces(text)):
                        self._controller.tap(self._pynput.Key.backspace)
                case Press(chord):
                    key = self._key(chord.key)
                    with self._controller.pressed(*map(self._key, chord.modifiers)):
                        self._controller.tap(key)
        except refusals as error:
            raise KeyboardError(f"the system did not take a key: {type(error).__name__}") from error

    def is_busy(self) -> bool:
        """True while a modifier is held down, as far as the hotkey's listener has seen."""
        return any(name in self._down for name in MODIFIERS)

    def place(self) -> Hashable:
        """Nobody tells which window has the focus."""
        return None

    @contextmanager
    def hotkey(self, chord: Chord, switch: Switch) -> Iterator[None]:
        """Watch for the keys. The window sees them, too."""
        wanted = {*chord.modifiers, chord.key}

        def press(key: Any) -> None:
            self._down.update(self._names(key, listener.canonical(key)))
            if wanted <= self._down:
                switch.press()

        def release(key: Any) -> None:
            names = self._names(key, listener.canonical(key))
            self._down.difference_update(names)
            if names & wanted:
                switch.release()

        listener: Any = self._pynput.Listener(on_press=press, on_release=release)
        with listener:
            yield

    def close(self) -> None:
        """There is nothing to give back."""

    def _is_trusted(self) -> bool:
        import HIServices  # comes with pynput on macOS

        return bool(HIServices.AXIsProcessTrusted())

    def _key(self, name: str) -> Any:
        if len(name) == 1:
            return name
        found = getattr(self._pynput.Key, _NAMES.get(name, name), None)
        if found is None:
            raise KeyboardError(f"expected a key of this system; it has no {name!r}")
        return found

    def _names(self, key: Any, canonical: Any) -> set[str]:
        """What chords call a key: a modifier of either side also by its common name. `canonical`: the key whatever
        modifiers are held; a letter with Ctrl is another character on Windows.
        """
        character = getattr(canonical, "char", None)
        if character:
            return {character.lower()}
        names = {ours for ours, theirs in _NAMES.items() if theirs == getattr(key, "name", None)}
        name = getattr(key, "name", None)
        if name is not None:
            names.add(name)
            side = name.removesuffix("_l").removesuffix("_r").removesuffix("_gr")
            names |= {ours for ours in MODIFIERS if _NAMES.get(ours, ours) == side}
        return names
