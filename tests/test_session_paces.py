"""The bundled model hears every sentence of the demo at whatever pace it comes: at once, in bursts, after an outage."""

import os
from collections.abc import Callable, Iterator

import pytest

from paces import bursts, hear, lost, outage, sentences_of
from whispertide import load
from whispertide.api import Transcriber
from whispertide.cli.bundled import bundled_audio, bundled_files
from whispertide.events import Unheard
from whispertide.types import SAMPLE_RATE, FloatArray

AT_ONCE_S = 19.0  # five sentences: what comes at once with the third, and some more
SESSIONS = int(os.environ.get("WHISPERTIDE_EXAMPLES", "1"))


@pytest.fixture(scope="module")
def transcriber() -> Transcriber:
    return load("nano.en", threads=1)


@pytest.fixture(scope="module")
def audio() -> FloatArray:
    return bundled_audio()


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    with bundled_files() as (_, transcript):
        return sentences_of(transcript.read_text(encoding="utf-8"))


@pytest.mark.slow
# each of these lost the third, "The farmer worked in the field every summer."
@pytest.mark.parametrize("seed", [6, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (9, 11))])
def test_a_sentence_that_comes_at_once_is_heard(
    transcriber: Transcriber, audio: FloatArray, sentences: list[str], seed: int
) -> None:
    text, events = hear(transcriber, audio[: round(AT_ONCE_S * SAMPLE_RATE)], bursts(seed))
    assert lost(sentences[:5], text) == []
    assert not any(isinstance(event, Unheard) for event in events)


@pytest.mark.slow
@pytest.mark.parametrize("pace", [bursts, outage], ids=["bursts", "outage"])
def test_no_pace_costs_a_sentence(
    transcriber: Transcriber, audio: FloatArray, sentences: list[str], pace: Callable[[int], Iterator[float]]
) -> None:
    """`WHISPERTIDE_EXAMPLES=200` for the figure in docs/reference/server.md."""
    failures: dict[int, object] = {}
    for seed in range(SESSIONS):
        text, events = hear(transcriber, audio, pace(seed))
        unheard = [event for event in events if isinstance(event, Unheard)]
        if (missing := lost(sentences, text)) or unheard:
            failures[seed] = (missing, unheard)
    assert failures == {}


def test_a_missing_sentence_is_found_out() -> None:
    sentences = ["the boats left early", "nobody saw the storm", "the harbour was empty", "they came back at night"]
    assert lost(sentences, " ".join(sentences[:2] + sentences[3:])) == [sentences[2]]
    assert lost(sentences, " ".join(sentences)) == []
