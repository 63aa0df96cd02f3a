"""What a session fed from blocks says, when the audio breaks off; by an engine that knows what is said."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from oracle import Oracle, audio_between, speech
from whispertide import Session, get_recipe
from whispertide.errors import AudioError
from whispertide.events import Confirmed, End, Event
from whispertide.feed import afeed, feed
from whispertide.types import FloatArray

WORDS = speech(("one", 0.3, 0.7), ("two", 0.8, 1.2), ("three", 1.3, 1.8))
WHOLE = [audio_between(at, at + 8000) for at in range(0, 32_000, 8000)]


def session() -> Session:
    return Session(get_recipe("whisper-streaming").replace(search="greedy"), Oracle(WORDS, jitter=0))


@pytest.mark.parametrize("cause", ["the source", "a block"])
def test_audio_that_breaks_off_ends_first(cause: str) -> None:
    def blocks(audio: list[FloatArray]) -> Iterator[Any]:
        yield from audio
        if cause == "the source":
            raise AudioError("cut off")
        yield np.zeros(9, np.int32)

    async def source(audio: list[FloatArray]) -> AsyncIterator[Any]:
        for block in blocks(audio):
            yield block

    async def afed(audio: list[FloatArray]) -> tuple[list[Event], str]:
        events, error = list[Event](), ""
        try:
            async for event in afeed(session(), source(audio), live=False):
                events += [event]
        except AudioError as broken:
            error = str(broken)
        return events, error

    def fed(audio: list[FloatArray]) -> tuple[list[Event], str]:
        events = list[Event]()
        with pytest.raises(AudioError) as broken:
            events.extend(feed(session(), blocks(audio), live=False))
        return events, str(broken.value)

    events, error = fed(WHOLE)
    assert events == list(feed(session(), WHOLE, live=False))
    assert isinstance(events[-1], End)
    assert [
        word.text.strip(" .,!").lower() for event in events if isinstance(event, Confirmed) for word in event.words
    ] == ["one", "two", "three"]
    assert ("cut off" if cause == "the source" else "int32") in error
    assert asyncio.run(afed(WHOLE)) == (events, error)
    # Where there is no audio at all, nothing ends.
    assert fed([]) == asyncio.run(afed([])) == ([], error)
