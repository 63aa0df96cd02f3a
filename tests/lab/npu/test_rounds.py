"""Rounds in static graphs of several steps each: the same words as step by step, and guards cut inside a chunk."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from attention_ramps import looking_at, scene
from reference import remembering
from scripted_decoder import EOT, SOT, SPECIALS, VOCABULARY, ScriptedDecoder, telling
from stepwise import Stepwise
from whispertide.audio.file import load_audio
from whispertide.checkpoint import load_checkpoint
from whispertide.decoding.accept import GREEDY
from whispertide.decoding.guards import Frontier, FrontierGuard, Halt, WatchingGuard
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import SearchResult, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.events import Confirmed, Hypothesis
from whispertide.methods.attention.backward_shift import BackwardShift, BackwardShiftGuard
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.model.engine import Encoded
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.framing import Framing
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import SAMPLE_RATE, FloatArray, Span
from whispertide_lab.npu import export
from whispertide_lab.npu.chunks import UnrolledLayout
from whispertide_lab.npu.engine import StaticEngine
from whispertide_lab.npu.rounds import ChunkedExecutor
from whispertide_lab.npu.search import run_unrolled

pytestmark = pytest.mark.slow

NPUSPER, TIDE = get_recipe("npusper"), get_recipe("tide")
CLIP = Path(__file__).parents[2] / "clips" / "river.flac"
LONG = CLIP.with_name("long.flac")
LAYOUT = UnrolledLayout(2, buckets=(4, 30))


class Padded(Framing):
    """To the buckets of these tests, fewer than a recipe's so that they are built soon."""

    kind: ClassVar[str] = "padded"

    def __call__(self, model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
        valid = -(-mel.shape[1] // 2)
        room = 2 * LAYOUT.bucket(valid) - mel.shape[1]
        return model.encode(np.pad(mel, [(0, 0), (0, room)]), valid_frames=valid, taps=taps)


@pytest.fixture(scope="module")
def model() -> WhisperModel:
    return remembering(load_model("nano.en", EngineOptions(precision="fp32", provider="cpu", threads=1)))


@pytest.fixture(scope="module")
def unrolled(model: WhisperModel, tmp_path_factory: pytest.TempPathFactory) -> StaticEngine:
    folder = tmp_path_factory.mktemp("unrolled")
    export.build(load_checkpoint("nano.en"), "fp32", folder, LAYOUT)
    return StaticEngine(folder, model.checkpoint, model.options)


# --- on the bundled model ---------------------------------------------------------------------------------------------


def streamed(executor: SerialExecutor, recipe: Recipe, step: int = 8_000) -> tuple[list[tuple[str, int, int]], int]:
    """The words of six seconds of the clip with their times, and how many decoder runs they took."""
    session = Session(recipe, executor)
    samples = load_audio(CLIP)[: 6 * SAMPLE_RATE]
    events = [event for at in range(0, len(samples), step) for event in session.push(samples[at : at + step])]
    events += session.finish()
    words = [(word.text, word.start, word.end) for word in session.transcript.words]
    shown = [event.stats for event in events if isinstance(event, Confirmed | Hypothesis) and event.stats]
    return words, sum({stats.round_id: stats.decoder_runs for stats in shown}.values())


SHORT = {"framing": "buckets", "schedule": "fixed", "step_s": 1.0, "search": "greedy"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    [
        NPUSPER.replace(**SHORT, way=2, carry_most_s=2.5),
        NPUSPER.replace(**SHORT, way=2, carry_most_s=2.5, real_end=False, shift_row="fed"),
        TIDE.replace(**SHORT, rescue_logprob=0.0, context_tokens=0, window_s=2.0, hard_cap_s=4.0, lookahead_tokens=4),
    ],
)
def test_a_stream_says_the_same_in_chunks(model: WhisperModel, unrolled: StaticEngine, recipe: Recipe) -> None:
    executor = SerialExecutor(RoundResources(model, Padded()))
    chunks = ChunkedExecutor(executor.resources, unrolled)
    words, runs = streamed(executor, recipe)
    again, fewer = streamed(chunks, recipe)
    assert len(words) > 5
    assert again == words
    assert fewer < runs


def hear(executor: SerialExecutor, listen: SinglePass, *, clip: Path = CLIP, seconds: float = 3.5, **plan: Any) -> Any:
    samples = load_audio(clip)[: round(seconds * SAMPLE_RATE)]
    return executor.run(RoundPlan(0, Span(0, len(samples)), hearing=listen, **plan), samples, DecodeOptions())


def heard(result: Any) -> tuple[Any, ...]:
    """All that a policy judges by, but probabilities, which chunks round otherwise."""
    listened = result.heard
    assert listened is not None
    assert listened.words
    all_words = (*listened.words, *(listened.ending or ()))
    words = [(word.word.text, word.start, word.end, word.tokens, word.attended) for word in all_words]
    return result.heard.tokens, words, replace(listened, words=(), ending=None)


@pytest.mark.parametrize(
    "listen",
    [
        SinglePass(),
        SinglePass(watch=(Frontier(margin=60),)),
        SinglePass(watch=(Frontier(margin=60, lookahead_tokens=3),)),
        SinglePass(watch=(BackwardShift(near_end=30),), real_end=False, same_token=3),
        SinglePass(watch=(BackwardShift(row="fed", search_from=15),)),
        SinglePass(max_tokens=3),
    ],
)
def test_a_round_hears_the_same_in_chunks(model: WhisperModel, unrolled: StaticEngine, listen: SinglePass) -> None:
    executor = SerialExecutor(RoundResources(model, Padded()))
    chunks = ChunkedExecutor(executor.resources, unrolled)
    plain, chunked = hear(executor, listen), hear(chunks, listen)
    assert heard(chunked) == heard(plain)
    assert chunked.stats.decoder_runs < plain.stats.decoder_runs
    prefix = plain.heard.tokens[:1]
    assert heard(hear(chunks, listen, prefix=prefix)) == heard(hear(executor, listen, prefix=prefix))


def test_the_padded_repetition_runs_in_chunks_too(model: WhisperModel, unrolled: StaticEngine) -> None:
    executor = SerialExecutor(RoundResources(model, Padded()))
    chunks = ChunkedExecutor(executor.resources, unrolled)
    watched = SinglePass(watch=(BackwardShift(near_end=10_000),))  # whatever comes first is near the end
    first = hear(executor, watched).heard
    assert first is not None
    assert first.halt is not None
    plain, chunked = (hear(each, replace(watched, retry=first.halt)) for each in (executor, chunks))
    assert plain.heard is not None
    assert plain.heard.retried
    assert heard(chunked) == heard(plain)
    assert chunked.stats.decoder_runs < plain.stats.decoder_runs


@pytest.mark.slow
def test_text_that_outgrows_the_graphs_is_decoded_step_by_step(model: WhisperModel, unrolled: StaticEngine) -> None:
    executor = SerialExecutor(RoundResources(model, Padded()))
    chunks = ChunkedExecutor(executor.resources, unrolled)
    plain, chunked = (hear(each, SinglePass(max_tokens=45), clip=LONG, seconds=15) for each in (executor, chunks))
    assert len(plain.heard.tokens) > 30
    assert heard(chunked) == heard(plain)
    assert chunked.stats.decoder_runs < plain.stats.decoder_runs


@pytest.mark.parametrize("plan", [{"prompt": "The worst of all the days."}, {"prefix": tuple(range(1000, 1040))}])
def test_what_static_graphs_have_no_place_for(
    model: WhisperModel, unrolled: StaticEngine, plan: dict[str, Any]
) -> None:
    executor = SerialExecutor(RoundResources(model, Padded()))
    chunks = ChunkedExecutor(executor.resources, unrolled)
    plain, chunked = (hear(each, SinglePass(), **plan) for each in (executor, chunks))
    assert chunked.heard == plain.heard
    assert chunked.stats.decoder_runs == plain.stats.decoder_runs


# --- on attention that is written down --------------------------------------------------------------------------------

FRAMES = 100
CHUNKS = UnrolledLayout(1, plans=((2, 3, 4), (4, 1, 4)))
RULES = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,))


def both(places: Sequence[int], rule: Frontier | BackwardShift) -> tuple[tuple[SearchResult, Halt | None], ...]:
    """Eight tokens; query i looks at frame places[i]. Step by step, and in chunks of 2, 3 and 4 fed tokens."""

    def attend(seen: tuple[int, ...]) -> FloatArray:
        row: FloatArray = looking_at(places, FRAMES)[:, len(seen) - 1]
        return row

    def guard() -> WatchingGuard:
        kind = FrontierGuard if isinstance(rule, Frontier) else BackwardShiftGuard
        return kind(rule, scene(FRAMES, opening=1), [0, 1])  # type: ignore[arg-type]  # each its own rule

    script = telling((SOT,), [3, 1, 4, 1, 5, 9, 2, 6])
    prompt = Prompt((SOT,), sot_index=0, limit=9)
    one, other = guard(), guard()
    step_wise = run_search(TokenSearch(prompt, RULES, GREEDY, guards=[one]), ScriptedDecoder(script, attend))
    chunks = Stepwise(ScriptedDecoder(script, attend), VOCABULARY)
    chunked = run_unrolled(prompt, RULES, CHUNKS, chunks, guards=[other])
    return (step_wise, one.halt), (chunked, other.halt)


@pytest.mark.parametrize("jump", range(1, 8))
def test_a_backward_shift_cuts_where_it_is(jump: int) -> None:
    """Whichever place in its chunk the token has that looks back."""
    places = [10 + 10 * place for place in range(9)]
    places[jump] = 1
    (step_wise, halt), (chunked, same) = both(places, BackwardShift(median=1, average=1))
    assert halt == same == Halt("backward-shift", jump, (3, 1, 4, 1, 5, 9, 2, 6)[jump])
    assert chunked.best.tokens == step_wise.best.tokens == (3, 1, 4, 1, 5, 9, 2, 6)[:jump]
    assert chunked.best.stop == "guard"


def test_attention_that_moves_right_never_fires() -> None:
    (step_wise, halt), (chunked, same) = both([10 + 10 * place for place in range(9)], BackwardShift())
    assert halt is same is None
    assert chunked.best.tokens == step_wise.best.tokens == (3, 1, 4, 1, 5, 9, 2, 6)


@pytest.mark.parametrize("margin", [25, 45, 65, 85])
def test_a_frontier_cuts_where_it_is(margin: int) -> None:
    (step_wise, halt), (chunked, same) = both([10 + 10 * place for place in range(9)], Frontier(margin=margin))
    assert halt == same
    assert halt is not None
    assert chunked.best.tokens == step_wise.best.tokens
    assert len(chunked.best.tokens) < 8
    np.testing.assert_allclose(chunked.best.logprobs, step_wise.best.logprobs, atol=1e-5)
