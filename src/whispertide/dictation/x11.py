"""The keyboard of an X11 session: the extension XTEST types.

XTEST presses keys, and programs read the layout to know what they mean. A character that no key has is lent a spare
one. A program reads the layout when it works off the key, so a lent key keeps its character for a while after it was
pressed.
"""

import time
from collections.abc import Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from whispertide.dictation.chords import Chord
from whispertide.dictation.strokes import Erase, Press, Stroke, Type, backspaces
from whispertide.dictation.switch import Switch
from whispertide.dictation.x11_display import connect, read_layout, talking, xtest_device
from whispertide.dictation.x11_hotkey import x11_hotkey
from whispertide.dictation.x11_layout import Key, Layout, keysym_named, keysym_of, pieces
from whispertide.errors import KeyboardError

_PRESS, _RELEASE = 2, 3  # events of the protocol
_LOCK = 2  # the mask of Caps Lock
_CORE = 0x100  # the keyboard that programs see, in XKB's requests
_GAP_S = 0.002  # between two keys: some programs lose what comes faster
_KEEP_S = 0.3  # a lent key keeps its character so long after it was pressed
_SETTLE_S = 0.03  # until programs have heard that the layout changed: some read a key before the news of it


@dataclass(slots=True)
class _Lent:
    """A spare key with the symbol that it was lent, and when it was last pressed."""

    code: int
    keysym: int = 0
    pressed: float = 0.0


@dataclass(slots=True)
class X11Keyboard:
    """Types with XTEST. See `keyboard.Keyboard`."""

    _connection: Any = field(default_factory=connect)
    _device: int | None = None
    _lent: dict[int, _Lent] = field(default_factory=dict)  # spare keys that are ours now, by their number

    def __post_init__(self) -> None:
        with talking():
            self._device = xtest_device(self._connection)

    def send(self, stroke: Stroke) -> None:
        """Do what the stroke asks."""
        with talking():
            layout, caps_lock = self._layout(), self._state().lockedMods & _LOCK
            if caps_lock:
                self._lock(0)
            try:
                match stroke:
                    case Type(text):
                        self._type(text, layout)
                    case Erase(text):
                        self._repeat("backspace", backspaces(text), layout)
                    case Press(chord):
                        self._press_chord(chord, layout)
            finally:
                if caps_lock:
                    self._lock(_LOCK)

    def is_busy(self) -> bool:
        """True while a modifier is held down."""
        with talking():
            return bool(self._state().baseMods)

    def place(self) -> Hashable:
        """The window with the focus."""
        with talking():
            return int(self._connection.core.GetInputFocus().reply().focus)

    def hotkey(self, chord: Chord, switch: Switch) -> AbstractContextManager[None]:
        """Grab the keys. Raises `KeyboardError` if another program has them."""
        return x11_hotkey(chord, switch)

    def close(self) -> None:
        """Take the lent keys back, and disconnect."""
        with talking():
            for lent in self._lent.values():
                self._name(lent.code, 0)
            self._round_trip()
        self._connection.disconnect()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        """The layout that XTEST's keys have now. They are on a device of their own, whose symbols may be others than
        those of the keyboard that was used last; which group is on is the same for all.
        """
        return replace(read_layout(self._connection, self._device), group=self._state().group)

    def _type(self, text: str, layout: Layout) -> None:
        self._look_after_lent(layout)
        keys = {symbol: key for symbol, key in layout.keys().items() if key.code not in self._lent}
        for piece in pieces(text, keys, len(self._lent)):
            symbols = [keysym_of(character) for character in piece]
            lent = self._lend({symbol for symbol in symbols if symbol not in keys})
            for symbol in symbols:
                self._tap(keys.get(symbol) or lent[symbol], keys)

    def _look_after_lent(self, layout: Layout) -> None:
        """Find the spare keys. If another layout was loaded, a key that was lent may be free again, or used by it."""
        spare = layout.spare()
        kept = {code: one for code, one in self._lent.items() if layout.has(code, one.keysym)}
        self._lent = {code: _Lent(code) for code in spare} | kept

    def _lend(self, symbols: set[int]) -> dict[int, Key]:
        """Give each symbol a spare key; those that were pressed longest ago get new ones."""
        missing = sorted(symbols - {one.keysym for one in self._lent.values()})
        free = sorted((one for one in self._lent.values() if one.keysym not in symbols), key=lambda one: one.pressed)
        for symbol, one in zip(missing, free, strict=False):
            time.sleep(max(0.0, one.pressed + _KEEP_S - time.monotonic()))
            one.keysym = symbol
            self._name(one.code, symbol)
        if missing:
            time.sleep(_SETTLE_S)
        using = [one for one in self._lent.values() if one.keysym in symbols]
        for one in using:
            one.pressed = time.monotonic()
        return {one.keysym: Key(one.code) for one in using}

    def _repeat(self, name: str, times: int, layout: Layout) -> None:
        keys = layout.keys()
        for _ in range(times):
            self._tap(self._key(name, keys))

    def _press_chord(self, chord: Chord, layout: Layout) -> None:
        keys = layout.keys()
        held = [self._key(name, keys).code for name in chord.modifiers]
        key = keys.get(symbol := keysym_named(chord.key))
        if key is None:  # the "a" of ctrl+a in a layout without Latin letters
            self._look_after_lent(layout)
            key = self._lend({symbol}).get(symbol) or self._key(chord.key, keys)
        for code in held:
            self._fake(code, True)
        try:
            self._tap(Key(key.code))
        finally:
            for code in reversed(held):
                self._fake(code, False)
            self._round_trip()

    @staticmethod
    def _key(name: str, keys: Any) -> Key:
        key: Key | None = keys.get(keysym_named(name))
        if key is None:
            raise KeyboardError(f"expected a key {name!r} on this keyboard; its layout has none")
        return key

    def _name(self, code: int, keysym: int) -> None:
        """Give a key a symbol, with Shift and without; 0 takes it away."""
        self._connection.core.ChangeKeyboardMapping(1, code, 2, [keysym, keysym])
        self._round_trip()

    def _tap(self, key: Key, keys: Any = None) -> None:
        shift = self._key("shift", keys).code if key.shift else None
        if shift is not None:
            self._fake(shift, True)
        self._fake(key.code, True)
        self._fake(key.code, False)
        if shift is not None:
            self._fake(shift, False)
        self._round_trip()
        time.sleep(_GAP_S)

    def _fake(self, code: int, down: bool) -> None:
        import xcffib.xtest

        test = self._connection(xcffib.xtest.key)
        test.FakeInput(_PRESS if down else _RELEASE, code, 0, 0, 0, 0, 0)

    def _state(self) -> Any:
        import xcffib.xkb

        return self._connection(xcffib.xkb.key).GetState(_CORE).reply()

    def _lock(self, mask: int) -> None:
        """Switch Caps Lock on or off."""
        import xcffib.xkb

        self._connection(xcffib.xkb.key).LatchLockState(_CORE, _LOCK, mask, False, 0, 0, False, 0)

    def _round_trip(self) -> None:
        """Wait until the server has done all that it was asked."""
        self._connection.core.GetInputFocus().reply()
