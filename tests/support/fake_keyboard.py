"""A keyboard without a system: screens that show what was typed, and keys that a test presses."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from whispertide.dictation.chords import Chord
from whispertide.dictation.strokes import Erase, Press, Stroke, Type
from whispertide.dictation.switch import Switch
from whispertide.errors import KeyboardError


@dataclass
class FakeKeyboard:
    """`busy`: how often it says that a modifier is held. Erasing what is not there is an error."""

    busy: int = 0
    window: str = "first"
    broken: bool = False
    closed: bool = False
    screens: dict[str, str] = field(default_factory=dict)
    switch: Switch | None = None
    chord: Chord | None = None

    @property
    def screen(self) -> str:
        return self.screens.get(self.window, "")

    def send(self, stroke: Stroke) -> None:
        if self.broken:
            raise KeyboardError("the display is gone")
        before = self.screen
        match stroke:
            case Type(text):
                self.screens[self.window] = before + text
            case Erase(text):
                assert before.endswith(text)
                self.screens[self.window] = before.removesuffix(text)
            case Press(chord):
                self.screens[self.window] = f"{before}<{chord}>"

    def is_busy(self) -> bool:
        self.busy = max(0, self.busy - 1)
        return self.busy > 0

    def place(self) -> Hashable:
        return self.window

    @contextmanager
    def hotkey(self, chord: Chord, switch: Switch) -> Iterator[None]:
        self.chord, self.switch = chord, switch
        yield
        self.switch = None

    def close(self) -> None:
        self.closed = True
