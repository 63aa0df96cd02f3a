"""A server for the other services' own clients, and audio to send it, for the tests."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import soxr

from watcher import Watcher
from whispertide.api import Transcriber
from whispertide.server.protocols.base import Audio, Configure, Finish, Flush
from whispertide.session import Session
from whispertide.types import SAMPLE_RATE, FloatArray, join_words

PATIENCE_S = 60.0
PACE = 6.0  # times faster than life


@dataclass
class Served:
    """A server in a thread of its own."""

    model: Transcriber
    watcher: Watcher
    port: int = 0
    tcp: dict[str, int] = field(default_factory=dict)

    def replayed(self) -> str:
        """What a local session writes that gets the same audio, flushes and rounds as the last one on the server."""
        watched = self.watcher.sessions[-1]
        live = watched.live
        executor = self.model.session(live.asked_recipe).executor
        session = Session(
            live.asked_recipe, executor, live.asked_recipe.schedule.gate(),
            options=live.asked_options, schedule=watched.schedule,
        )  # fmt: skip
        for command in watched.commands:
            match command:
                case Audio(samples):
                    session.push(samples)
                case Flush():
                    session.flush()
                case Configure(changes):
                    session.configure(**changes)
                case Finish():
                    session.finish()
        return join_words(session.transcript.words)

    @property
    def is_settled(self) -> bool:
        """Whether the newest session has done all that it can do."""
        live = self.watcher.sessions[-1].live if self.watcher.sessions else None
        return live is not None and not live.unheard and not live.running and live.queued_at is None

    def check(self, text: str) -> None:
        assert text == self.watcher.sessions[-1].text
        assert text == self.replayed()
        assert len(text.split()) > 5


def pcm(samples: FloatArray, rate: int = SAMPLE_RATE) -> bytes:
    if rate != SAMPLE_RATE:
        samples = soxr.resample(samples, SAMPLE_RATE, rate)
    return (np.clip(samples, -1, 1) * 32_767).astype("<i2").tobytes()


def pieces(data: bytes, bytes_per_s: int, piece_s: float = 0.1) -> Iterator[bytes]:
    """The audio as it would come live, only faster."""
    step = 2 * round(bytes_per_s * piece_s / 2)
    for at in range(0, len(data), step):
        yield data[at : at + step]
        time.sleep(piece_s / PACE)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the server did not answer in time"
        time.sleep(0.02)
