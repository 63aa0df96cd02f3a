"""A view of a run that types its confirmed words. What cannot be typed yet, because somebody holds a modifier down,
waits; text is composed when it is typed, so that the window that has the focus then counts.
"""

import time
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from whispertide.cli.meter import Meter
from whispertide.cli.pump import Watcher
from whispertide.dictation.composer import Composer
from whispertide.dictation.keyboard import Keyboard
from whispertide.dictation.strokes import Stroke
from whispertide.dictation.switch import Switch
from whispertide.errors import KeyboardError
from whispertide.events import Confirmed, Event, TurnEnd

_POLL_S = 0.02


@dataclass(slots=True)
class Typist(Watcher):
    """Types what is confirmed. `switch` is turned off by the command that ends a dictation.

    _waiting  texts to come; None: an utterance ends
    _held     what the composer held back before it was given the first of them
    """

    composer: Composer
    keyboard: Keyboard
    switch: Switch
    _waiting: deque[str | None] = field(default_factory=deque)
    _held: str = ""
    _place: Hashable = None

    def begin(self) -> None:
        """Begin a dictation."""
        self.composer.begin()

    def event(self, event: Event) -> None:
        """Type the words of an event."""
        if isinstance(event, Confirmed):
            self._waiting.append("".join(word.text for word in event.words))
        elif isinstance(event, TurnEnd) and not event.eager:
            self._waiting.append(None)
        self._type()

    def tick(self, meter: Meter) -> None:
        """Type what waited for a key to come up."""
        self._type()

    def end(self) -> None:
        """Type the rest, as soon as no modifier is held down."""
        self._waiting.append(None)
        while self._waiting:
            self._type()
            if self._waiting:
                time.sleep(_POLL_S)

    @property
    def untyped(self) -> str:
        """The confirmed text that was not typed, after a `KeyboardError`."""
        return self._held + "".join(text or "" for text in self._waiting)

    def _type(self) -> None:
        while self._waiting and not self.keyboard.is_busy():
            place = self.keyboard.place()
            if place != self._place:
                self.composer.forget()
                self._place = place
            text, stopped = self._waiting[0], self.composer.stopped
            self._held = self.composer.part if self.composer.undecided else ""
            for stroke in self.composer.pause() if text is None else self.composer.hear(text):
                self._send(stroke)
            self._waiting.popleft()
            if self.composer.stopped and not stopped:  # once: then it may be on for the next dictation
                self.switch.turn_off()

    def _send(self, stroke: Stroke) -> None:
        try:
            self.keyboard.send(stroke)
        except KeyboardError:
            self.switch.turn_off()
            raise
