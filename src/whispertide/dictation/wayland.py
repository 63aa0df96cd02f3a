"""The keyboard of a Wayland session, by a program that types: `wtype`, or `ydotool` where the compositor lets no
program type. Untried on a real desktop.

Text goes to their standard input, where no list of processes shows it. Programs have no hotkeys in Wayland: the
compositor has, and may run a command.
"""

import shutil
import subprocess
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from whispertide.dictation.chords import Chord
from whispertide.dictation.strokes import Erase, Press, Stroke, Type, backspaces
from whispertide.dictation.switch import Switch
from whispertide.errors import KeyboardError

_WTYPE_MODIFIERS = {"super": "logo"}
_WTYPE_KEYS = {
    **{"enter": "Return", "tab": "Tab", "esc": "Escape", "backspace": "BackSpace", "delete": "Delete"},
    **{"page_up": "Page_Up", "page_down": "Page_Down", "scroll_lock": "Scroll_Lock", "space": "space"},
    **{"insert": "Insert", "menu": "Menu", "pause": "Pause", "print": "Print", "home": "Home", "end": "End"},
    **{"left": "Left", "right": "Right", "up": "Up", "down": "Down"},
    **{"right_ctrl": "Control_R", "right_alt": "Alt_R", "right_shift": "Shift_R"},
    **{f"f{number}": f"F{number}" for number in range(1, 25)},
}
# The numbers of keys in Linux (input-event-codes.h). Those of letters are of a US keyboard.
_CODES = {
    **{"esc": 1, "backspace": 14, "tab": 15, "enter": 28, "ctrl": 29, "shift": 42, "right_shift": 54, "alt": 56},
    **{"space": 57, "scroll_lock": 70, "right_ctrl": 97, "print": 99, "right_alt": 100, "home": 102, "up": 103},
    **{"page_up": 104, "left": 105, "right": 106, "end": 107, "down": 108, "page_down": 109, "insert": 110},
    **{"delete": 111, "pause": 119, "super": 125, "menu": 127, "f11": 87, "f12": 88},
    **{f"f{number}": 58 + number for number in range(1, 11)},
    **{f"f{number}": 170 + number for number in range(13, 25)},
    **dict(zip("1234567890-=", range(2, 14), strict=True)),
    **dict(zip("qwertyuiop[]", range(16, 28), strict=True)),
    **dict(zip("asdfghjkl;'`", range(30, 42), strict=True)),
    **dict(zip("\\zxcvbnm,./", range(43, 54), strict=True)),
}


@dataclass(frozen=True, slots=True)
class WaylandKeyboard:
    """Types by a program. See `keyboard.Keyboard`. `command` gives its arguments and what it reads."""

    command: Callable[[Stroke], tuple[Sequence[str], str]]

    def send(self, stroke: Stroke) -> None:
        """Do what the stroke asks."""
        arguments, text = self.command(stroke)
        try:
            done = subprocess.run(arguments, input=text.encode(), capture_output=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KeyboardError(f"expected {arguments[0]} to type; it did not: {type(error).__name__}") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise KeyboardError(
                f"{arguments[0]} did not type ({said or f'exit code {done.returncode}'}). wtype needs a compositor "
                "that lets programs type (Sway, Hyprland, not GNOME or KDE); ydotool needs its service, ydotoold"
            )

    def is_busy(self) -> bool:
        """Nobody tells which keys are held."""
        return False

    def place(self) -> Hashable:
        """Nobody tells which window has the focus."""
        return None

    @contextmanager
    def hotkey(self, chord: Chord, switch: Switch) -> Iterator[None]:
        """Raise `KeyboardError`: there are no hotkeys."""
        raise KeyboardError(
            f"programs cannot have hotkeys under Wayland; got --key {chord}: run it with --key signal, and bind a key "
            "of the desktop to the command that it then prints"
        )
        yield

    def close(self) -> None:
        """There is nothing to give back."""


def find_wayland_keyboard() -> WaylandKeyboard:
    """The program that is installed. Raises `KeyboardError` if there is none."""
    for name, command in (("wtype", wtype), ("ydotool", ydotool)):
        if shutil.which(name):
            return WaylandKeyboard(command)
    raise KeyboardError(
        'expected wtype or ydotool, with which programs type under Wayland; install one: "apt install wtype" (Sway, '
        'Hyprland), "apt install ydotool" (GNOME, KDE)'
    )


def wtype(stroke: Stroke) -> tuple[Sequence[str], str]:
    """The arguments of wtype, and its input."""
    match stroke:
        case Type(text):
            return ["wtype", "-"], text
        case Erase(text):
            return ["wtype", *("-k", "BackSpace") * backspaces(text)], ""
        case Press(chord):
            modifiers = [_WTYPE_MODIFIERS.get(name, name) for name in chord.modifiers]
            down = [part for name in modifiers for part in ("-M", name)]
            up = [part for name in reversed(modifiers) for part in ("-m", name)]
            key = _WTYPE_KEYS.get(chord.key, f"U{ord(chord.key[0]):04X}")
            return ["wtype", *down, "-k", key, *up], ""


def ydotool(stroke: Stroke) -> tuple[Sequence[str], str]:
    """The arguments of ydotool, and its input. It knows the characters of a US keyboard; others are left out, with a
    `UserWarning`.
    """
    match stroke:
        case Type(text):
            if lost := sorted({character for character in text if not character.isascii()}):
                warnings.warn(f"ydotool cannot type {' '.join(lost)}: left out; wtype can", stacklevel=2)
            return ["ydotool", "type", "--file", "-"], "".join(filter(str.isascii, text))
        case Erase(text):
            return ["ydotool", "key", *_tapped("backspace") * backspaces(text)], ""
        case Press(chord):
            if chord.key not in _CODES:
                raise KeyboardError(f"expected a key of a US keyboard for ydotool; got {chord}")
            down = [f"{_CODES[name]}:1" for name in chord.modifiers]
            up = [f"{_CODES[name]}:0" for name in reversed(chord.modifiers)]
            return ["ydotool", "key", *down, *_tapped(chord.key), *up], ""


def _tapped(key: str) -> list[str]:
    return [f"{_CODES[key]}:1", f"{_CODES[key]}:0"]
