"""Intents of a session, sent while people speak: a stream of understanding next to the session's words.

It gets the same audio. Its results become events with the session's positions. Knows no sockets and no clients.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from whispertide.audio.buffer import AudioBuffer
from whispertide.events import Event, Intent
from whispertide.types import FloatArray
from whispertide.understand.understanding import Understanding, Understood


@dataclass(slots=True)
class Intents:
    """The intents of one session. `start` is the session's sample that the stream began with."""

    stream: Understanding
    start: int = 0
    _lost_audio: FloatArray | None = None  # what a lost stream had, to be replayed before any other

    def hear(self, samples: FloatArray) -> list[Event]:
        """Push 16 kHz mono [n], as the session gets it."""
        self._catch_up()
        return self._events(self.stream.push(samples))

    def end(self) -> list[Event]:
        """End the open utterance here."""
        self._catch_up()
        return self._events(self.stream.finish())

    def clear(self) -> None:
        """Forget the open utterance."""
        self._catch_up()
        self.stream.clear()

    def restore(self, audio: AudioBuffer) -> None:
        """Replace a lost stream by a new one, from the audio that the session still has. Takes no time: it is computed
        with the next command.
        """
        self.start, self._lost_audio = audio.start, audio.read(audio.start, audio.end)

    def _catch_up(self) -> None:
        """Replay the audio of the lost stream without its events, which the client has already."""
        if self._lost_audio is not None:
            samples, self._lost_audio = self._lost_audio, None
            self.stream.push(samples)

    def _events(self, understood: Iterable[Understood]) -> list[Event]:
        return [self._event(each) for each in understood]

    def _event(self, understood: Understood) -> Event:
        start, end = self.start + understood.start, self.start + understood.end
        return Intent(0, end, start, end, understood.intent, understood.text, understood.perplexity, understood.final)
