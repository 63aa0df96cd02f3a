"""A speaker and texts that need no synthesizer and no packages; also for programs that tests start."""

import numpy as np

from whispertide_lab.speech.manners import Manner
from whispertide_lab.speech.speakers import Say
from whispertide_lab.speech.voices import Spoken

TEXTS = ["The old cat sleeps here.", "A dog came from the 3rd house in 1987."]


class FakeSpeaker:
    """A tenth of a second of noise per word; every seventh text makes no sense to it."""

    opened: list["FakeSpeaker"] = []  # noqa: RUF012

    def __init__(self, manner: Manner) -> None:
        self.closed = False
        self.count = 0
        FakeSpeaker.opened.append(self)

    def __enter__(self) -> Say:
        return self.say

    def say(self, text: str) -> Spoken | None:
        self.count += 1
        words = len(text.split())
        samples = np.random.RandomState(len(text)).randint(-99, 99, 1600 * words).astype(np.int16)
        spans = tuple((1600 * at, 1600 * at + 1600) for at in range(words))
        return None if self.count % 7 == 0 else Spoken(samples, spans, "the" not in text)

    def __exit__(self, *_: object) -> None:
        self.closed = True
