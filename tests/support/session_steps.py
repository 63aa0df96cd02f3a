"""A session under the rounds of whisper_streaming, pushed step by step, and what came of it."""

import random
from collections.abc import Iterable, Sequence

from oracle import Oracle, audio_between, plain, speech
from whispertide.events import (
    Confirmed,
    Event,
)
from whispertide.recipes.catalogue import get_recipe
from whispertide.session import Session
from whispertide.types import SAMPLE_RATE, Span, Word

S = SAMPLE_RATE
RECIPE = get_recipe("whisper-streaming")
TALK = speech(
    ("One", 0.3, 0.7), ("two", 0.8, 1.2), ("three", 1.3, 1.8), ("four", 2.2, 2.6), ("five", 2.7, 3.3), ("six", 3.4, 3.9)
)
PAUSED = (*TALK, *speech(("seven", 9.0, 9.4), ("eight", 9.4, 9.9)))
SENTENCE = speech(("And", 0.5, 0.9), ("so", 1.0, 1.4), ("ask", 2.4, 2.8), ("not.", 2.9, 3.3), ("Ask", 4.2, 4.6))
TURNS = RECIPE.replace(vad_turn_s=1.5)


class Verbatim(Oracle):
    """Case and marks as they are said; of a word that is cut nothing is heard."""

    def _text(self, word: Word, window: Span, rng: random.Random) -> str | None:
        return word.text if window.start <= word.start and word.end <= window.end else None


def push(session: Session, until: float, step: float = 0.5) -> list[Event]:
    """Push in portions of `step` seconds, up to second `until`."""
    events: list[Event] = []
    while session.received < round(until * S):
        end = min(session.received + round(step * S), round(until * S))
        events += session.push(audio_between(session.received, end))
    return events


def exact(words: Sequence[Word] = TALK) -> Oracle:
    return Oracle(words, jitter=0)


def said(words: Iterable[Word]) -> str:
    return " ".join(plain(word.text) for word in words)


def confirmed(events: Iterable[Event]) -> str:
    return said(word for event in events if isinstance(event, Confirmed) for word in event.words)


def kinds(events: Iterable[Event]) -> list[str]:
    return [event.kind for event in events]
