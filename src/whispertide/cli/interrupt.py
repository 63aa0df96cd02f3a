"""Ctrl-C that lets a running step finish, so that its words are kept. Knows nothing of audio or sessions."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

_HANGUP = getattr(signal, "SIGHUP", None)
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def end_as_after_ctrl_c() -> None:
    """Let SIGTERM and SIGHUP raise `KeyboardInterrupt`, so that the program cleans up, ends the programs that it
    started and removes its temporary folders.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


class Interrupts:
    """While entered, the first Ctrl-C (or SIGTERM, SIGHUP) sets `pressed`; a second one raises `KeyboardInterrupt`,
    unless it is SIGHUP, which may come twice when a terminal is closed.

    Inside `waiting()` even the first raises, because nothing else would end a wait for input; inside `holding()` none
    does. Signals reach the main thread alone; in any other this does nothing.
    """

    def __init__(self) -> None:
        self.pressed = False
        self._waiting = self._holding = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # A signal that is ignored (nohup) stays ignored.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.pressed = self.pressed, True
        if not self._holding and (self._waiting or (again and number != _HANGUP)):
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark a block that a first Ctrl-C may break off."""
        self._waiting = True
        try:
            # Pressed just before the block: the signal itself will not come again.
            if self.pressed:
                raise KeyboardInterrupt
            yield
        finally:
            self._waiting = False

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Mark a block that no Ctrl-C breaks off, however often it is pressed."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
