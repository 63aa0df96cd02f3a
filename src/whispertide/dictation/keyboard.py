"""The seam to what types into windows, and the choice of it for this system."""

import os
import sys
from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from whispertide.dictation.chords import Chord
from whispertide.dictation.strokes import Stroke
from whispertide.dictation.switch import Switch
from whispertide.errors import KeyboardError
from whispertide.extras import require

_PURPOSE = "typing into windows"


class Keyboard(Protocol):
    """What types. All methods raise `KeyboardError` if the system does not let it."""

    def send(self, stroke: Stroke) -> None:
        """Do what a stroke asks, in the window that has the focus, and return when it is done."""

    def is_busy(self) -> bool:
        """True while somebody holds a modifier down: a letter would become a shortcut."""

    def place(self) -> Hashable:
        """The window that has the focus; always the same value where the system does not tell."""

    def hotkey(self, chord: Chord, switch: Switch) -> AbstractContextManager[None]:
        """Let the keys of `chord` press and release `switch` while the context is open."""

    def close(self) -> None:
        """Leave the keyboard as it was found."""


def open_keyboard(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Keyboard:
    """Open the keyboard of this system.

    Raises `OptionError` if a package is missing, and `KeyboardError` without a display or a permission.
    """
    if platform in ("darwin", "win32"):
        require("dictate", _PURPOSE)
        from whispertide.dictation.desktop import DesktopKeyboard

        return DesktopKeyboard(platform)
    if environment.get("WAYLAND_DISPLAY"):
        from whispertide.dictation.wayland import find_wayland_keyboard

        return find_wayland_keyboard()
    if not environment.get("DISPLAY"):
        raise KeyboardError(
            "expected a display to type into (DISPLAY or WAYLAND_DISPLAY is set in a session of a desktop); there is "
            "none: run it in a terminal of the desktop, or with --print, which writes the text to standard output"
        )
    require("dictate", _PURPOSE)
    from whispertide.dictation.x11 import X11Keyboard

    return X11Keyboard()
