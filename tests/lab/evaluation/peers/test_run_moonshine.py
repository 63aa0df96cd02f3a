"""How Moonshine's lines become words, with a stream that is written by hand."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from whispertide_lab.evaluation.peers.run_moonshine import Lines


def line(number: int, text: str, *, done: bool) -> Any:
    return SimpleNamespace(line_id=number, text=text, is_complete=done, start_time=float(number))


@dataclass
class Stream:
    """Says what it is told to, an update after the other."""

    updates: list[list[Any]]
    heard: int = 0
    did: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.did.append("start")

    def add_audio(self, samples: list[float]) -> None:
        self.heard += len(samples)

    def update_transcription(self) -> Any:
        return SimpleNamespace(lines=self.updates.pop(0))

    def stop(self) -> Any:
        return self.update_transcription()

    def close(self) -> None:
        self.did.append("close")


def test_lines_that_are_complete_are_committed_and_the_open_one_is_a_guess() -> None:
    stream = Stream(
        [
            [line(1, "Hello", done=False)],
            [line(1, "Hello there.", done=True), line(2, "How", done=False)],
            [line(2, "How are you?", done=False)],
            [line(2, "How are you today?", done=True)],
        ]
    )
    lines = Lines(stream)
    audio = np.zeros(8000, np.float32)
    assert lines.feed(audio) == ((), ("Hello",))
    assert lines.feed(audio) == (("Hello", "there."), ("How",))
    assert lines.feed(audio) == (("Hello", "there."), ("How", "are", "you?")), "a line that is not told of again stays"
    assert lines.finish() == ("Hello", "there.", "How", "are", "you", "today?")
    assert (stream.heard, stream.did) == (24_000, ["start", "close"])
