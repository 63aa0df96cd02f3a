"""A voice gate that does not listen, but is told where somebody speaks, and a detector that takes sound for speech."""

from typing import Any

import numpy as np

from whispertide.audio.vad import GateEvent, SpeechStarted, SpeechStopped
from whispertide.types import FloatArray

SPOKEN = ((8_000, 52_000), (60_000, 75_000))  # an utterance of 2.75 s and one of under a second
STREAM = (0.1 * np.random.default_rng(3).standard_normal(80_000)).astype(np.float32)


class Loud:
    """A detector for the usual gate: every sound is speech."""

    def step(self, block: FloatArray, state: Any) -> tuple[float, Any]:
        return float(np.abs(block).max() > 0), None


class Told:
    """A gate that is told where somebody speaks; it decides 2,000 samples later, in blocks of 512."""

    def __init__(self) -> None:
        self.received = 0
        self.told = 0
        self.edges = [place for pair in SPOKEN for place in pair]

    @property
    def needed_from(self) -> int:
        return max(0, self.received - 4_000)

    @property
    def pause_end(self) -> None:
        return None

    @property
    def quiet(self) -> int:
        if self.told % 2 == 0 or self.told == len(self.edges):
            return 0
        return max(0, self.received - self.received % 512 - self.edges[self.told])

    def feed(self, samples: FloatArray) -> list[GateEvent]:
        self.received += len(samples)
        judged = self.received - self.received % 512
        events: list[GateEvent] = []
        while self.told < len(self.edges) and self.edges[self.told] + 2_000 <= judged:
            edge = self.edges[self.told]
            decided = -(-(edge + 2_000) // 512) * 512
            events.append(SpeechStopped(edge, decided) if self.told % 2 else SpeechStarted(edge, decided))
            self.told += 1
        return events

    def finish(self) -> list[GateEvent]:
        return [SpeechStopped(self.received, self.received)] if self.told % 2 else []

    def snapshot(self) -> object:
        return None

    def restore(self, state: object) -> None:
        pass
