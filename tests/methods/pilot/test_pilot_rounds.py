"""Pilots and the rounds after them, heard by nano.en."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whispertide
from whispertide.audio.file import decode_blocks
from whispertide.decoding.draft import Reference
from whispertide.methods.pilot.hybrid import HybridExecutor
from whispertide.methods.pilot.pilot import HeardUtterance, Pilot
from whispertide.options import DecodeOptions
from whispertide.recipes.assembly import executor_key, make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.session import Session
from whispertide.streaming.framing import BARE
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import SAMPLE_RATE, FloatArray, Span

RECIPE = get_recipe("pilot").replace(framing=BARE, vad=False)
OPTIONS = DecodeOptions(beam=5)


@cache
def demo() -> FloatArray:
    """Six seconds of speech."""
    path = Path(whispertide.__file__).parent / "bundled/audio/demo.flac"
    return np.concatenate(list(decode_blocks(path)))[: 6 * SAMPLE_RATE]


@pytest.fixture(scope="module")
def executor() -> Any:
    model = whispertide.load("nano.en", precision="fp32", threads=1).model
    return make_executor(model, RECIPE)


def heard(executor: Any, plan: RoundPlan, audio: FloatArray) -> tuple[RoundResult[Any], HeardUtterance]:
    result = executor.run(plan, audio, OPTIONS)
    assert isinstance(result.heard, HeardUtterance)
    return result, result.heard


@pytest.mark.slow
def test_a_round_that_follows_a_pilot_of_the_same_audio_finds_the_same_in_few_runs(executor: Any) -> None:
    plan = RoundPlan(0, Span(0, len(demo())), Pilot(), is_last=True)
    alone, first = heard(executor, plan, demo())
    followed = replace(plan, reference=Reference.exactly(first.tokens), hearing=Pilot(cap=len(first.tokens)))
    result, again = heard(executor, followed, demo())
    assert again.tokens == first.tokens
    assert [word.word.text for word in again.words] == [word.word.text for word in first.words]
    assert len(first.words) > 8
    assert result.stats.decoder_runs <= 2 < alone.stats.decoder_runs
    assert again.scores.perplexity == pytest.approx(first.scores.perplexity, rel=1e-3)
    assert again.scores.entropy == pytest.approx(first.scores.entropy, rel=1e-2)
    assert 1 < first.scores.perplexity < 3
    ends = [word.end for word in first.words]
    assert ends == sorted(ends)
    assert 0 < ends[0] < ends[-1] <= len(demo())


def test_a_pilot_says_no_more_than_it_may(executor: Any) -> None:
    _, found = heard(executor, RoundPlan(0, Span(0, len(demo())), Pilot(beam=1, most=4)), demo())
    assert (len(found.tokens), found.stop) == (4, "length")


def test_nothing_can_be_heard_in_less_than_10_ms(executor: Any) -> None:
    plan = RoundPlan(0, Span(0, 100), Pilot(), is_last=True)
    assert executor.run(plan, demo()[:100], OPTIONS).heard is None


def test_silence_is_no_utterance(executor: Any) -> None:
    silence = np.zeros(3 * SAMPLE_RATE, np.float32)
    session = Session(RECIPE.replace(no_speech=0.3), executor)
    for at in range(0, len(silence), 8000):
        session.push(silence[at : at + 8000])
    session.finish()
    assert session.transcript.text == ""


@pytest.mark.slow
def test_in_the_background_the_same_is_heard(executor: Any) -> None:
    texts = []
    for where in (executor, HybridExecutor(executor)):
        session = Session(RECIPE, where)
        for at in range(0, len(demo()), 8000):
            session.push(demo()[at : at + 8000])
        session.finish()
        texts.append(session.transcript.text)
    assert texts[0].split()[:8] == texts[1].split()[:8]
    assert len(texts[0].split()) > 8


def test_executors_are_shared_by_recipes_that_ask_for_the_same() -> None:
    hybrid = RECIPE.replace(executor="hybrid")
    assert executor_key(hybrid) != executor_key(RECIPE)
    assert executor_key(hybrid) != executor_key(hybrid.replace(threshold=3.0))
    assert executor_key(hybrid) == executor_key(hybrid.replace(step_s=0.7))
