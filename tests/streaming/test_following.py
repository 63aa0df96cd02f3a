"""A recorded stream with searches that follow what the round before heard: nothing is lost, and it costs less."""

from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from reference import nano
from whispertide.audio.file import load_audio
from whispertide.decoding.search import NO_STEPS, Steps
from whispertide.events import Confirmed
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.recipes.assembly import make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.session import Session
from whispertide.streaming.policy import Executor
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.searches import Beam, Greedy, Pruned, Search, Verified
from whispertide.types import SAMPLE_RATE, FloatArray, Word

CLIP = Path(__file__).parents[1] / "clips" / "river.flac"
RECIPE = get_recipe("whisper-streaming").replace(framing="bare", step_s=0.8, vad=False)
FOLLOWING = (Pruned(), Verified())


@cache
def model() -> WhisperModel:
    return nano()


@dataclass
class Counting:
    """An executor that notes what searching has cost."""

    executor: Executor
    steps: list[Steps] = field(default_factory=list)
    plans: list[RoundPlan] = field(default_factory=list)

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        result = self.executor.run(plan, audio, options)
        self.plans.append(plan)
        self.steps.append(sum((cost.steps for cost in result.costs if cost.stage == "decode"), NO_STEPS))
        return result


@cache
def streamed(search: Search) -> tuple[tuple[Word, ...], Steps]:
    """The words of seven seconds of the clip, and what finding them took."""
    recipe = RECIPE.replace(search=search)
    counting = Counting(make_executor(model(), recipe))
    session = Session(recipe, counting, options=DecodeOptions(temperatures=(0.0,)))
    samples = load_audio(CLIP)[: 7 * SAMPLE_RATE]
    before: list[Word] = []
    for at in range(0, len(samples), SAMPLE_RATE // 5):
        events = session.push(samples[at : at + SAMPLE_RATE // 5])
        confirmed = [word for event in events if isinstance(event, Confirmed) for word in event.words]
        assert session.transcript.words == [*before, *confirmed]
        before = list(session.transcript.words)
    session.finish()
    assert session.transcript.words[: len(before)] == before
    told = [plan.reference is not None for plan in counting.plans]
    assert any(told) == isinstance(search, Pruned | Verified)
    return tuple(session.transcript.words), sum(counting.steps, NO_STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("search", FOLLOWING)
def test_the_text_is_complete(search: Search) -> None:
    full, found = streamed(Beam())[0], streamed(search)[0]
    assert len(full) > 5
    assert len(found) >= 0.8 * len(full)
    assert abs(found[0].start - full[0].start) < SAMPLE_RATE
    assert abs(found[-1].end - full[-1].end) < SAMPLE_RATE
    assert all(a.end <= b.start for a, b in pairwise(found))


@pytest.mark.slow
def test_a_pruned_search_runs_fewer_rows() -> None:
    (_, full), (_, pruned) = streamed(Beam()), streamed(Pruned())
    assert pruned.rows < full.rows
    assert pruned.narrow > full.narrow


@pytest.mark.slow
def test_blocks_find_what_the_pruned_search_finds_in_fewer_runs() -> None:
    (pruned, single), (verified, blocks) = streamed(Pruned()), streamed(Verified())
    assert [word.text for word in verified] == [word.text for word in pruned]
    assert blocks.runs < single.runs


@pytest.mark.slow
def test_verified_with_a_beam_of_one_is_greedy_in_fewer_runs() -> None:
    (greedy, single), (verified, blocks) = streamed(Greedy()), streamed(Verified(beam=1))
    assert [(word.text, word.start, word.end) for word in verified] == [
        (word.text, word.start, word.end) for word in greedy
    ]
    assert blocks.runs < single.runs
