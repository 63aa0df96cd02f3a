"""Strokes on standard output in place of a keyboard: to try commands out, and for pipes."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TextIO

from whispertide.dictation.chords import Chord
from whispertide.dictation.strokes import Erase, Press, Stroke, Type, backspaces
from whispertide.dictation.switch import Switch
from whispertide.errors import KeyboardError


class PrintedKeyboard:
    """Writes what would be typed. What is taken back is a backspace (U+0008) for each character; on a terminal it
    vanishes, too. Keys are told to `say`.
    """

    def __init__(self, output: TextIO, say: Callable[[str], None]) -> None:
        self._output, self._say = output, say
        self._backspace = "\b \b" if output.isatty() else "\b"
        self._wrote = False

    def send(self, stroke: Stroke) -> None:
        """Write the stroke."""
        match stroke:
            case Type(text):
                self._output.write(text)
                self._wrote = True
            case Erase(text):
                self._output.write(self._backspace * backspaces(text))
            case Press(chord):
                self._say(f"pressed {chord}")
        self._output.flush()

    def is_busy(self) -> bool:
        """Nobody holds a key of a pipe."""
        return False

    def place(self) -> Hashable:
        """There is one place only."""
        return None

    @contextmanager
    def hotkey(self, chord: Chord, switch: Switch) -> Iterator[None]:
        """Raise `KeyboardError`: there are no keys."""
        raise KeyboardError(f"expected --key none with --print, which has no keys; got {chord}")
        yield

    def close(self) -> None:
        """End the last line."""
        if self._wrote:
            self._output.write("\n")
            self._output.flush()
