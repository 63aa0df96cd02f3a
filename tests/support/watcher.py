"""What a server's sessions took and said, seen from inside: in the place of a recorder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whispertide.events import Confirmed
from whispertide.server.live import LiveSession
from whispertide.server.observers import Command, Observer
from whispertide.server.protocols.base import Audio, Settings
from whispertide.streaming.schedule import Recorded
from whispertide.types import FloatArray, Word, join_words


@dataclass
class Watched(Observer[LiveSession]):
    """One session. A live one forgets its words and where its rounds ended; here they are kept."""

    live: LiveSession
    commands: list[Command] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    boundaries: list[int] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        return join_words(self.words)

    @property
    def audio(self) -> FloatArray:
        return np.concatenate([command.samples for command in self.commands if isinstance(command, Audio)])

    @property
    def schedule(self) -> Recorded:
        """Its rounds once more."""
        return Recorded(tuple(self.boundaries), tuple(self.loads))

    def step(self, live: LiveSession, taken: Sequence[Command], entries: Sequence[Any]) -> None:
        self.commands += taken
        self.words += [word for entry in entries if isinstance(entry, Confirmed) for word in entry.words]
        self.boundaries += live.session.boundaries
        self.loads += live.session.loads


@dataclass
class Watcher:
    """All sessions, oldest first."""

    sessions: list[Watched] = field(default_factory=list)

    def opened(self, live: LiveSession, settings: Settings) -> Watched:
        self.sessions.append(Watched(live))
        return self.sessions[-1]
