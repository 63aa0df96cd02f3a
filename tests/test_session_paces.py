"""The bundled model hears every sentence at whatever pace audio comes: at once, in bursts, after an outage."""

import os
import random
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher

import pytest

from whispertide import load
from whispertide.api import Transcriber
from whispertide.cli.bundled import bundled_audio
from whispertide.events import Event, TurnEnd, Unheard
from whispertide.types import SAMPLE_RATE, FloatArray

SESSIONS = int(os.environ.get("WHISPERTIDE_EXAMPLES", "25"))


@pytest.fixture(scope="module")
def transcriber() -> Transcriber:
    return load("nano.en", threads=1)


@pytest.fixture(scope="module")
def audio() -> FloatArray:
    return bundled_audio()


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


@pytest.fixture(scope="module")
def sentences(transcriber: Transcriber, audio: FloatArray) -> list[str]:
    text, events = hear(transcriber, audio, real_time())
    turns = sum(isinstance(event, TurnEnd) for event in events)
    found = [part.strip() + "." for part in text.split(".") if part.strip()]
    assert len(found) >= 8
    assert turns >= 8
    return found


@pytest.mark.parametrize("seed", [6, 9, 11])  # each of these lost "The farmer worked in the field every summer."
def test_a_sentence_that_comes_at_once_is_heard(
    transcriber: Transcriber, audio: FloatArray, sentences: list[str], seed: int
) -> None:
    text, events = hear(transcriber, audio, bursts(seed))
    assert lost(sentences, text) == []
    assert not any(isinstance(event, Unheard) for event in events)


@pytest.mark.slow
@pytest.mark.parametrize("pace", [bursts, outage], ids=["bursts", "outage"])
def test_no_pace_costs_a_sentence(
    transcriber: Transcriber, audio: FloatArray, sentences: list[str], pace: Callable[[int], Iterator[float]]
) -> None:
    """`WHISPERTIDE_EXAMPLES=200` for the figure in docs/server.md."""
    failures: dict[int, object] = {}
    for seed in range(SESSIONS):
        text, events = hear(transcriber, audio, pace(seed))
        unheard = [event for event in events if isinstance(event, Unheard)]
        if (missing := lost(sentences, text)) or unheard:
            failures[seed] = (missing, unheard)
    assert failures == {}


def test_a_missing_sentence_is_found_out(sentences: list[str]) -> None:
    assert lost(sentences, " ".join(sentences[:2] + sentences[3:])) == [sentences[2]]
    assert lost(sentences, " ".join(sentences)) == []
