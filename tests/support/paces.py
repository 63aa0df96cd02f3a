"""Paces at which audio may come, and the sentences that a pace costs."""

import random
from collections.abc import Iterator
from difflib import SequenceMatcher

from whispertide.api import Transcriber
from whispertide.events import Event
from whispertide.types import SAMPLE_RATE, FloatArray


def real_time() -> Iterator[float]:
    while True:
        yield 0.1


def bursts(seed: int) -> Iterator[float]:
    """Portions of up to half a second; after an outage, now and then, 3 to 8 s at once."""
    dice = random.Random(seed)
    while True:
        yield dice.uniform(3, 8) if dice.random() < 1 / 7 else dice.uniform(0.02, 0.5)


def outage(seed: int) -> Iterator[float]:
    """Real time; once nothing comes for 3 to 8 s, and then what was kept in 20 times the pace."""
    dice = random.Random(seed)
    before, backlog = round(dice.uniform(10, 300)), round(dice.uniform(3, 8))
    yield from [0.1] * before
    yield from [2.0] * (backlog // 2)
    yield from real_time()


def hear(transcriber: Transcriber, audio: FloatArray, portions: Iterator[float]) -> tuple[str, list[Event]]:
    session = transcriber.session("tide")
    events: list[Event] = []
    while session.received < len(audio):
        events += session.push(audio[session.received :][: round(next(portions) * SAMPLE_RATE)])
    return session.transcript.text, events + session.finish()


def sentences_of(text: str) -> list[str]:
    return [part.strip() + "." for part in text.split(".") if part.strip()]


def lost(sentences: list[str], text: str) -> list[str]:
    """The sentences of which less than half of the words are in `text`, in their place."""
    words = [word for sentence in sentences for word in sentence.split()]
    blocks = SequenceMatcher(None, words, text.split(), autojunk=False).get_matching_blocks()
    found = {block.a + offset for block in blocks for offset in range(block.size)}
    missing, at = [], 0
    for sentence in sentences:
        length = len(sentence.split())
        if len(found & set(range(at, at + length))) < length / 2:
            missing.append(sentence)
        at += length
    return missing
