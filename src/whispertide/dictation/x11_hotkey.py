"""A hotkey of an X11 session: a passive grab. It brings us these keys, which the window does not see, and no others of
the user's.
"""

import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from whispertide.dictation.chords import Chord
from whispertide.dictation.switch import Switch
from whispertide.dictation.x11_display import connect, read_layout
from whispertide.dictation.x11_layout import keysym_named
from whispertide.errors import KeyboardError

_CAPS_LOCK = 2  # its mask
_ANY = 0x8000  # any modifiers
_POLL_S = 0.015


@contextmanager
def x11_hotkey(chord: Chord, switch: Switch) -> Iterator[None]:
    """Let the keys change the switch while the context is open. Raises `KeyboardError` if another program has them."""
    ended = threading.Event()
    grab = Grab(connect(), chord, switch)
    grab.begin()
    thread = threading.Thread(target=grab.watch, args=(ended,), name="hotkey", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(2)


@dataclass(slots=True)
class Grab:
    """A hotkey on a connection of its own."""

    connection: Any
    chord: Chord
    switch: Switch
    code: int = 0
    repeats: bool = False  # to be restored

    def begin(self) -> None:
        """Ask for the keys, with Caps Lock and Num Lock or without."""
        import xcffib.xproto

        keys = read_layout(self.connection).keys()
        key = keys.get(keysym_named(self.chord.key))
        if key is None:
            raise KeyboardError(f"expected --key with a key of this keyboard; its layout has no {self.chord.key!r}")
        self.code = key.code
        modifiers = _modifier_masks(self.connection)
        mask = sum(modifiers.get(keysym_named(name), 0) for name in self.chord.modifiers)
        root = self.connection.setup.roots[self.connection.pref_screen].root
        num_lock = modifiers.get(keysym_named("num_lock"), 0)
        masks = {mask, mask | _CAPS_LOCK, mask | num_lock, mask | _CAPS_LOCK | num_lock}
        if keysym_named(self.chord.key) in modifiers:  # a grab looks at the modifiers after it was pressed
            masks = {_ANY}
        try:
            for each in masks:
                self.connection.core.GrabKey(False, root, each, self.code, 1, 1, is_checked=True).check()
        except xcffib.xproto.AccessError as error:
            raise KeyboardError(
                f"expected keys that no other program has taken; {self.chord} is taken: choose others with --key"
            ) from error
        if not self.chord.modifiers:
            self._stop_repeats()

    def _stop_repeats(self) -> None:
        """Do not let the key repeat: each repetition would begin the grab again, which takes what is typed. With
        modifiers nothing is typed while they are held.
        """
        byte = self.connection.core.GetKeyboardControl().reply().auto_repeats[self.code // 8]
        self.repeats = bool(byte >> (self.code % 8) & 1)
        self._repeat(False)

    def watch(self, ended: threading.Event) -> None:
        """Press and release the switch, until `ended`."""
        import xcffib

        try:
            while not ended.is_set():
                self._wait()
                while (event := self.connection.poll_for_event()) is not None:
                    if type(event).__name__ == "KeyPressEvent":
                        self._follow(ended)
            if self.repeats:
                self._repeat(True)
            self.connection.flush()
        except (xcffib.XcffibException, xcffib.ConnectionException) as error:
            self.switch.fail(KeyboardError(f"the X11 display is gone, and with it the hotkey: {error!r}"))
        finally:
            self.connection.disconnect()

    def _wait(self) -> None:
        self.connection.flush()
        select.select([self.connection.get_file_descriptor()], [], [], 0.1)

    def _follow(self, ended: threading.Event) -> None:
        """Follow the key until it comes up. The grab is given up meanwhile: what is typed must reach the window."""
        self.connection.core.UngrabKeyboard(0)
        self.switch.press()
        while self._is_down() and not ended.is_set():
            time.sleep(_POLL_S)
        self.switch.release()
        while self.connection.poll_for_event() is not None:
            pass  # the key's own repetitions

    def _repeat(self, on: bool) -> None:
        """Let the key repeat while it is held, or not: the fields Key and AutoRepeatMode."""
        self.connection.core.ChangeKeyboardControl(1 << 6 | 1 << 7, [self.code, int(on)])

    def _is_down(self) -> bool:
        keys = self.connection.core.QueryKeymap().reply().keys
        return bool(keys[self.code // 8] >> (self.code % 8) & 1)


def _modifier_masks(connection: Any) -> dict[int, int]:
    """The mask of each modifier key, by its symbol."""
    reply = connection.core.GetModifierMapping().reply()
    width, codes = reply.keycodes_per_modifier, list(reply.keycodes)
    layout = read_layout(connection)
    masks: dict[int, int] = {}
    for row in range(8):
        for code in codes[row * width : (row + 1) * width]:
            if code:
                for symbol in layout.symbols[code - layout.first]:
                    masks.setdefault(symbol, 1 << row)
    return masks
