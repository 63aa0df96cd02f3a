"""Intents of a session, sent while people speak: a stream of understanding next to the session's words.

It hears the same audio. What it says becomes events with the session's positions. Knows no sockets and no clients.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from whispertide.audio.buffer import AudioBuffer
from whispertide.events import Event, Intent
from whispertide.types import FloatArray
from whispertide.understand.model import LateModel
from whispertide.understand.understanding import Understanding, Understood


@dataclass(slots=True)
class Intents:
    """Of one session. `start` is the session's sample that the stream began with."""

    stream: Understanding
    start: int = 0
    _told_of: FloatArray | None = None  # audio that a lost stream was told of, to be heard before any other

    def hear(self, samples: FloatArray) -> list[Event]:
        """16 kHz mono [n], as the session gets it."""
        self._catch_up()
        return self._told(self.stream.push(samples))

    def end(self) -> list[Event]:
        """An utterance that goes on ends here."""
        self._catch_up()
        return self._told(self.stream.finish())

    def clear(self) -> None:
        """Forget an utterance that goes on."""
        self._catch_up()
        self.stream.clear()

    def go_on(self, audio: AudioBuffer) -> None:
        """A new stream for one that is lost, from the audio that the session still has. Takes no time: what computes
        comes with the next command.
        """
        self.start, self._told_of = audio.start, audio.read(audio.start, audio.end)

    def _catch_up(self) -> None:
        """Hear again what the client was told of already."""
        if self._told_of is not None:
            samples, self._told_of = self._told_of, None
            self.stream.push(samples)

    def _told(self, said: Iterable[Understood]) -> list[Event]:
        return [self._event(each) for each in said]

    def _event(self, said: Understood) -> Event:
        start, end = self.start + said.start, self.start + said.end
        return Intent(0, end, start, end, said.intent, said.text, said.perplexity, said.final)


def intents_of(model: LateModel | None) -> tuple[str, ...]:
    """The names that a network can tell."""
    return () if model is None else model.checkpoint.vocabulary.intents
