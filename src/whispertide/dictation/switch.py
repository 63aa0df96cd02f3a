"""Dictation on and off, by a hotkey: one press begins and the next one ends, or it is held down while one speaks."""

import queue
from contextlib import suppress

from whispertide.errors import KeyboardError


class Switch:
    """The switch between a hotkey, which another thread watches, or a signal, and a dictation. Begins as off."""

    def __init__(self, *, hold: bool = False) -> None:
        """`hold`: on as long as the key is down; else each press changes it."""
        self.hold = hold
        self._down = False
        self._on = False
        # In place of an event, whose lock the thread that waits may hold when a signal comes to it.
        self._turned_on = queue.SimpleQueue[None]()
        self._problem: KeyboardError | None = None

    @property
    def on(self) -> bool:
        """True while one dictates."""
        return self._on

    def press(self) -> None:
        """Take note that the key went down. A key that repeats while it is down counts once."""
        if self._down:
            return
        self._down = True
        if self.hold or not self.on:
            self.turn_on()
        else:
            self.turn_off()

    def release(self) -> None:
        """Take note that the key came up."""
        self._down = False
        if self.hold:
            self.turn_off()

    def tap(self) -> None:
        """Change it, as a press of a key does without `hold`."""
        self._down = False
        if self.on:
            self.turn_off()
        else:
            self.turn_on()

    def turn_on(self) -> None:
        """Begin without a key."""
        self._on = True
        self._turned_on.put(None)

    def turn_off(self) -> None:
        """End what goes on, as a spoken command does."""
        self._on = False

    def fail(self, problem: KeyboardError) -> None:
        """End what goes on, because the key cannot be watched any more."""
        self._problem = problem
        self.turn_off()

    def wait(self, seconds: float) -> bool:
        """Wait until it is on, at most so long. Returns whether it is. Raises what it was told by `fail`."""
        if self._problem is not None:
            raise self._problem
        if not self.on:
            with suppress(queue.Empty):
                self._turned_on.get(timeout=seconds)
        return self.on
