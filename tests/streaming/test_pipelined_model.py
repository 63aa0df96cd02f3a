"""Rounds that overlap, with a model."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from reference import nano
from round_workers import no_workers_are_left
from test_session_properties import without_stats
from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.events import RoundStats
from whispertide.model.whisper import WhisperModel
from whispertide.recipes.assembly import make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.pipelined import PipelinedExecutor
from whispertide.streaming.round import RoundResult
from whispertide.streaming.stages import begin
from whispertide.tuning.profile import record_rounds
from whispertide.types import SAMPLE_RATE

S = SAMPLE_RATE
CLIP = Path(__file__).parents[1] / "clips" / "quiet.flac"


@pytest.fixture(scope="module")
def model() -> WhisperModel:
    return nano()


def judged(result: RoundResult[Any]) -> RoundResult[Any]:
    """Without what differs from run to run: the times that stages took."""
    costs = tuple(replace(cost, seconds=0.0, features_s=0.0) for cost in result.costs)
    return replace(result, costs=costs, stats=RoundStats(tokens=result.stats.tokens))


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    [
        get_recipe("whisper-streaming").replace(beam=2, vad=False),
        get_recipe("simulstreaming").replace(framing="bare", vad=False),
        get_recipe("npusper").replace(vad=False, step_s=1.0),
    ],
    ids=lambda recipe: recipe.name,
)
def test_recorded_plans_give_the_same_results(model: WhisperModel, recipe: Recipe) -> None:
    serial = make_executor(model, recipe)
    rounds = record_rounds(serial, recipe, load_audio(CLIP)[: 3 * S])
    assert len(rounds) >= 2
    stages = cast(Any, make_executor(model, recipe))
    pipelined = PipelinedExecutor(stages)
    begun = [begin(pipelined, item.plan, item.audio, item.options) for item in rounds]
    for item, pending in zip(rounds, begun, strict=True):
        assert judged(pending.result()) == judged(serial.run(item.plan, item.audio, item.options))
    assert any(cast(Any, pending.result().heard).words for pending in begun)


@pytest.mark.slow
def test_a_transcriber_streams_pipelined_what_early_plans_say_serially(model: WhisperModel) -> None:
    recipe = get_recipe("whisper-streaming").replace(search="greedy", framing="buckets", vad=False)
    samples = load_audio(CLIP)[: 4 * S]
    blocks = [samples[at : at + S // 2] for at in range(0, len(samples), S // 2)]
    pipelined = Transcriber(model).session(recipe.replace(executor="pipelined"))
    assert isinstance(pipelined.executor, PipelinedExecutor)
    serial = Session(recipe, make_executor(model, recipe), max_in_flight=2)
    spoken = [[event for block in blocks for event in s.push(block)] + s.finish() for s in (pipelined, serial)]
    assert without_stats(spoken[0]) == without_stats(spoken[1])
    assert pipelined.transcript.text


@pytest.mark.slow
def test_leaving_a_stream_early_leaves_no_worker(model: WhisperModel) -> None:
    recipe = get_recipe("whisper-streaming").replace(
        search="greedy", framing="bare", vad=False, step_s=0.3, executor="pipelined"
    )
    samples = load_audio(CLIP)
    events = Transcriber(model).stream((samples[at : at + 4800] for at in range(0, len(samples), 4800)), recipe)
    assert next(events).seq == 0
    events.close()  # type: ignore[attr-defined]
    assert no_workers_are_left()
