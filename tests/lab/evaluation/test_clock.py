"""A fake model with a known compute time gives the known latency under all clocks, and the clocks agree."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import Oracle, audio_between, make_gate, speech
from whispertide.audio.vad import GateEvent, SpeechStarted, SpeechStopped
from whispertide.checkpoint import ModelDims
from whispertide.decoding.search import Cost, Guard
from whispertide.errors import SessionError
from whispertide.events import RoundStats
from whispertide.methods.agreement.whole_window import HeardSegments
from whispertide.options import DecodeOptions
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.pipelined import PipelinedExecutor
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.schedule import BestEffort, Fixed
from whispertide.types import SAMPLE_RATE, FloatArray, Word, to_samples
from whispertide_lab.evaluation.clock import play
from whispertide_lab.evaluation.flops import encoder_gflop
from whispertide_lab.evaluation.holding import ANOTHER_ROUND
from whispertide_lab.evaluation.trace import ClockName, Trace

CLIP = Path(__file__).parents[2] / "clips" / "quiet.flac"
FIXED = Recipe("test", schedule=Fixed(step_s=1.0, vad=False))
LOADED = FIXED.replace(schedule="adaptive", step_s=0.5, longest_step_s=2.0)
BEST = Recipe("test", schedule=BestEffort(step_s=0.02, vad=False))


@dataclass
class Slow:
    """Hears exactly what was said, and takes its time over it."""

    words: Sequence[Word]
    seconds: float = 0.0

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        time.sleep(self.seconds)
        result = Oracle(self.words, jitter=0).run(plan, audio, options)
        whole = {word.start: word for word in self.words if plan.window.start <= word.start < word.end}
        heard = tuple(
            replace(
                segment,
                words=tuple(
                    whole[word.start]
                    for word in segment.words
                    if word.start in whole and whole[word.start].end <= plan.window.end
                ),
            )
            for segment in (result.heard or HeardSegments()).segments
        )
        return replace(result, heard=HeardSegments(heard), costs=(Cost("encode", 0.0, [(100, None)]),))


class AlwaysOpen:
    """A gate that takes everything for one utterance."""

    needed_from = 0
    quiet = 0
    pause_end = None

    def __init__(self) -> None:
        self.fed = 0

    def feed(self, samples: FloatArray) -> list[GateEvent]:
        first, self.fed = self.fed == 0, self.fed + len(samples)
        return [SpeechStarted(0, self.fed)] if first else []

    def finish(self) -> list[GateEvent]:
        return [SpeechStopped(self.fed, self.fed)]

    def snapshot(self) -> int:
        return self.fed

    def restore(self, state: int) -> None:
        self.fed = state


def numbered(seconds: int) -> tuple[Word, ...]:
    """A word in the middle of each second: it ends 0.75 s into it."""
    return speech(*((f"w{at}", at + 0.25, at + 0.75) for at in range(seconds)))


def audio(seconds: float) -> FloatArray:
    return audio_between(0, to_samples(seconds))


def confirmed_at(trace: Trace) -> dict[str, float]:
    return {word.strip(): shown.at_s for shown in trace.shown for word in shown.confirmed}


def first_seen_at(trace: Trace) -> dict[str, float]:
    found: dict[str, float] = {}
    for shown in trace.shown:
        for word in (*shown.confirmed, *shown.hypothesis):
            found.setdefault(word.strip(), shown.at_s)
    return found


def test_without_compute_time_the_delay_is_that_of_the_policy() -> None:
    words = numbered(5)
    trace = play(Session(FIXED, Slow(words)), audio(5), utterance="u", recogniser="me", clock="free")
    assert (trace.clock, trace.utterance, trace.recogniser, trace.audio_s) == ("free", "u", "me", 5.0)
    # a round at each full second; a word needs two rounds, the last ones the end of the audio
    assert first_seen_at(trace) == {f"w{at}": at + 1.0 for at in range(5)}
    assert confirmed_at(trace) == {"w0": 2.0, "w1": 3.0, "w2": 4.0, "w3": 5.0, "w4": 5.0}
    assert [cost.start_s for cost in trace.rounds] == [1.0, 2.0, 3.0, 4.0, 5.0, 5.0]


class Timed(Slow):
    """Rounds that took 0.57 s by the wall, as they say themselves."""

    def run(self, *args: Any) -> RoundResult[Any]:
        result = super().run(*args)
        return replace(result, stats=replace(result.stats, encode_s=0.37, decode_s=0.2))


def steps(trace: Trace) -> set[float]:
    starts = [cost.start_s for cost in trace.rounds][1:-1]
    return {round(later - earlier, 2) for earlier, later in pairwise(starts)}


@pytest.mark.parametrize(("compute", "step"), [(None, 0.5), (0.1, 0.5), (0.4, 0.8), (1.0, 2.0)])
def test_a_schedule_that_looks_at_the_load_sees_the_clocks(compute: float | None, step: float) -> None:
    """What computing really took must not come into a clock that knows better."""
    session = Session(LOADED, Timed(numbered(12)), live=True)
    if compute is None:
        trace = play(session, audio(12), clock="free")
    else:
        trace = play(session, audio(12), compute_time=lambda _: compute)
    assert steps(trace) == {step}


def test_a_schedule_sees_the_processors_seconds_and_not_what_others_did_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    idle = SimpleNamespace(perf_counter=lambda: 0.0, process_time=lambda: 0.0)
    monkeypatch.setattr("whispertide_lab.evaluation.pace.time", idle)
    trace = play(Session(LOADED, Timed(numbered(12)), live=True), audio(12), clock="processor")
    assert steps(trace) == {0.5}


def test_rounds_say_how_far_they_heard() -> None:
    trace = play(Session(FIXED, Slow(numbered(2))), audio(2), clock="free")
    assert [cost.window_end_s for cost in trace.rounds] == [1.0, 2.0, 2.0]
    assert {cost.waits for cost in trace.rounds} == {ANOTHER_ROUND, ""}


def test_compute_time_delays_what_is_shown() -> None:
    words = numbered(5)
    trace = play(Session(FIXED, Slow(words)), audio(5), compute_time=lambda _: 0.25)
    assert first_seen_at(trace) == {f"w{at}": at + 1.25 for at in range(5)}
    assert confirmed_at(trace) == {"w0": 2.25, "w1": 3.25, "w2": 4.25, "w3": 5.25, "w4": 5.5}
    assert [cost.seconds for cost in trace.rounds] == [0.25] * 6


@pytest.mark.parametrize(("clock", "told"), [("simulated", "perf_counter"), ("processor", "process_time")])
def test_the_sessions_own_work_delays_what_is_shown(
    clock: ClockName, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the voice gate takes 10 ms for each second of audio, on a clock that nothing else moves."""
    now = 0.0
    still = SimpleNamespace(**{"perf_counter": lambda: 0.0, "process_time": lambda: 0.0, told: lambda: now})
    monkeypatch.setattr("whispertide_lab.evaluation.pace.time", still)

    class Thorough(AlwaysOpen):
        def feed(self, samples: FloatArray) -> list[GateEvent]:
            nonlocal now
            now += 0.01 * len(samples) / SAMPLE_RATE
            return super().feed(samples)

    trace = play(Session(FIXED, Slow(numbered(3)), Thorough()), audio(3), block=SAMPLE_RATE, clock=clock)
    assert first_seen_at(trace) == pytest.approx({f"w{at}": at + 1.01 for at in range(3)})
    assert trace.clock == clock


def test_processor_time_is_of_computing_and_not_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    wall_s = cpu_s = 0.0

    class Busy(Slow):
        def run(self, *args: Any) -> RoundResult[Any]:
            nonlocal wall_s, cpu_s
            wall_s, cpu_s = wall_s + 0.2, cpu_s + 0.05
            return super().run(*args)

    with monkeypatch.context() as patch:
        clocks = SimpleNamespace(perf_counter=lambda: wall_s, process_time=lambda: cpu_s)
        patch.setattr("whispertide_lab.evaluation.clock.time", clocks)
        trace = play(Session(FIXED, Busy(numbered(3))), audio(3), clock="free")
    assert [cost.cpu_s for cost in trace.rounds] == [pytest.approx(0.05)] * len(trace.rounds)
    assert all(cost.cpu_s is not None for cost in play(overlapping(numbered(3)), audio(3)).rounds)
    assert all(cost.cpu_s is None for cost in play(overlapping(numbered(1)), audio(1), clock="live").rounds)


def test_a_slow_worker_takes_all_that_has_arrived() -> None:
    words = numbered(6)
    trace = play(Session(FIXED, Slow(words)), audio(6), compute_time=lambda _: 1.5)
    # rounds start when the one before is done and look at all that is there: 1.0 s, 2.5 s, 4.0 s, 5.5 s of audio
    assert [cost.start_s for cost in trace.rounds] == [1.0, 2.5, 4.0, 5.5, 7.0]
    assert [cost.window_s for cost in trace.rounds] == [1.0, 2.5, 4.0, 5.5, 6.0]
    assert first_seen_at(trace) == {"w0": 2.5, "w1": 4.0, "w2": 5.5, "w3": 5.5, "w4": 7.0, "w5": 8.5}


def test_best_effort_starts_the_next_round_at_once() -> None:
    words = numbered(3)
    trace = play(Session(BEST, Slow(words)), audio(3), compute_time=lambda _: 0.5)
    starts = [cost.start_s for cost in trace.rounds]
    assert starts == pytest.approx([0.02, 0.52, 1.02, 1.52, 2.02, 2.52, 3.02, 3.52])
    # what has arrived is whole blocks
    assert trace.rounds[1].window_s == pytest.approx(0.52)


def test_all_words_are_confirmed_and_the_last_view_is_after_the_end() -> None:
    words = numbered(4)
    trace = play(Session(FIXED, Slow(words)), audio(4), compute_time=lambda _: 0.1)
    assert [word.strip() for word in trace.words] == [word.text.strip() for word in words]
    assert trace.shown[-1].at_s >= trace.audio_s
    assert trace.shown[-1].hypothesis == ()
    assert [shown.at_s for shown in trace.shown] == sorted(shown.at_s for shown in trace.shown)


class LateError(AssertionError):
    """A time is not the expected one, which a busy machine alone may be the reason of."""


def near(found: Sequence[float], expected: Sequence[float], tolerance: float = 0.3) -> None:
    if list(found) != pytest.approx(list(expected), abs=tolerance):
        raise LateError(f"expected {expected} within {tolerance} s; got {found}")


def undisturbed(measure: Callable[[], None]) -> None:
    """Twenty times at most: a busy machine must not fail it, a clock that is wrong always does."""
    for _ in range(19):
        try:
            measure()
        except LateError:
            continue
        return
    measure()


@pytest.mark.soak
def test_the_wall_clock_agrees_with_both_simulations() -> None:
    """In real time. A round sleeps for 0.4 s; 0.3 s are allowed for all else. The recording ends between two rounds, so
    that it does not hang on a moment whether the last but one begins before the end.
    """
    words, compute = numbered(3), 0.4

    def measure() -> None:
        real = play(Session(FIXED, Slow(words, compute)), audio(3.5), clock="live")
        measured = play(Session(FIXED, Slow(words, compute)), audio(3.5))
        told = play(Session(FIXED, Slow(words)), audio(3.5), compute_time=lambda _: compute)
        policy = play(Session(FIXED, Slow(words)), audio(3.5), clock="free")
        assert real.clock == "live"
        assert real.wall_s >= 3.5
        assert (
            list(confirmed_at(real)) == list(confirmed_at(measured)) == list(confirmed_at(told)) == ["w0", "w1", "w2"]
        )
        assert confirmed_at(told)["w0"] - confirmed_at(policy)["w0"] == pytest.approx(compute)
        near([*confirmed_at(measured).values()], [*confirmed_at(told).values()])
        near([*confirmed_at(real).values()], [*confirmed_at(told).values()])
        near([cost.window_s for cost in real.rounds], [cost.window_s for cost in told.rounds])

    undisturbed(measure)


@dataclass
class InTwoStages:
    """`Slow` in two stages, each of which takes so long."""

    words: Sequence[Word]
    seconds: float = 0.0

    def encode(self, plan: RoundPlan, audio: FloatArray, state: Any) -> Any:
        time.sleep(self.seconds)
        return SimpleNamespace(audio=audio, encoded=SimpleNamespace(state=None))

    def decode(
        self, plan: RoundPlan, opening: Any, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult[Any]:
        time.sleep(self.seconds)
        result = Slow(self.words).run(plan, opening.audio, options)
        return replace(result, stats=RoundStats(encode_s=self.seconds, decode_s=self.seconds))


def overlapping(words: Sequence[Word], seconds: float = 0.0) -> Session:
    return Session(FIXED, PipelinedExecutor(InTwoStages(words, seconds)))


def test_two_workers_encode_a_round_while_the_one_before_is_decoded() -> None:
    """A round of 1.6 s a second: one worker looks at every other second, two keep up, each round 1.6 s late."""
    words = numbered(6)
    one = play(Session(FIXED, Slow(words)), audio(6), compute_time=lambda _: 1.6)
    two = play(overlapping(words), audio(6), compute_time=lambda _: 1.6)
    assert [cost.start_s for cost in one.rounds][:3] == pytest.approx([1.0, 2.6, 4.2])
    assert [cost.start_s for cost in two.rounds][:5] == pytest.approx([1.0, 2.0, 3.0, 4.0, 5.0])
    assert [cost.seconds for cost in two.rounds] == pytest.approx([1.6] * len(two.rounds))
    assert {word: confirmed_at(two)[word] for word in ("w0", "w1", "w2")} == pytest.approx(
        {"w0": 3.6, "w1": 4.6, "w2": 5.6}  # heard by two rounds, the second of which is decoded then
    )
    assert confirmed_at(two).keys() == confirmed_at(one).keys() == {f"w{at}" for at in range(6)}


@pytest.mark.soak
def test_two_workers_agree_with_the_wall_clock() -> None:
    words, stage = numbered(3), 0.4

    def measure() -> None:
        real = play(overlapping(words, stage), audio(3.5), clock="live")
        measured = play(overlapping(words, stage), audio(3.5))
        told = play(overlapping(words), audio(3.5), compute_time=lambda _: 2 * stage)
        assert (
            list(confirmed_at(real)) == list(confirmed_at(measured)) == list(confirmed_at(told)) == ["w0", "w1", "w2"]
        )
        near([*confirmed_at(measured).values()], [*confirmed_at(told).values()])
        near([*confirmed_at(real).values()], [*confirmed_at(told).values()])
        near([cost.seconds for cost in real.rounds], [2 * stage] * len(real.rounds))

    undisturbed(measure)


def test_two_workers_that_take_no_time_are_as_quick_as_one() -> None:
    words = numbered(5)
    sessions = (overlapping(words), Session(FIXED, Slow(words)))
    two, one = (play(session, audio(5), clock="free") for session in sessions)
    assert confirmed_at(two) == confirmed_at(one)
    assert [cost.start_s for cost in two.rounds] == [cost.start_s for cost in one.rounds]


@settings(max_examples=15)
@given(st.integers(1, 5), st.floats(0, 3), st.sampled_from([FIXED, BEST]), st.integers(160, 8000))
def test_every_word_is_shown_after_its_round_and_rounds_never_overlap(
    length: int, compute: float, recipe: Recipe, block: int
) -> None:
    words = numbered(length)
    recipe = recipe.replace(step_s=max(recipe.schedule.step_s, 0.2))
    trace = play(Session(recipe, Slow(words)), audio(length), block=block, compute_time=lambda _: compute)
    assert [word.strip() for word in trace.words] == [word.text.strip() for word in words]
    ends = [cost.start_s + cost.seconds for cost in trace.rounds]
    assert all(
        start >= end - 1e-9 for start, end in zip([cost.start_s for cost in trace.rounds][1:], ends, strict=False)
    )
    for at, cost in enumerate(trace.rounds):
        assert cost.window_s <= cost.start_s + 1e-9, f"round {at} looked at audio that had not been spoken"
    seen = first_seen_at(trace)
    for word in words:
        assert seen[word.text.strip()] >= word.end / SAMPLE_RATE + compute - 1e-9


def test_the_voice_gate_ends_utterances_on_the_same_clock() -> None:
    words = speech(("a", 0.5, 1.0), ("b", 1.0, 1.5), ("c", 6.0, 6.5))
    gated = FIXED.replace(vad=True)
    trace = play(Session(gated, Slow(words), make_gate(words)), audio(8), clock="free")
    at = confirmed_at(trace)
    assert 2.0 <= at["b"] <= 2.6  # half a second of silence ends the utterance, long before the next word
    assert at["c"] > 6.5


def test_rounds_know_what_the_encoder_did() -> None:
    dims = ModelDims(80, 1500, 512, 8, 6, 51864, 448, 512, 8, 6)
    known, unknown = (play(Session(FIXED, Slow(numbered(2))), audio(2), clock="free", dims=d) for d in (dims, None))
    assert {cost.encoder_gflop for cost in known.rounds} == {encoder_gflop(dims, 100)}
    assert {cost.encoder_gflop for cost in unknown.rounds} == {0.0}


def test_usage_is_measured() -> None:
    trace = play(Session(FIXED, Slow(numbered(2), 0.01)), audio(2))
    assert trace.wall_s >= 0.03  # three rounds
    assert trace.cpu_s > 0
    assert trace.peak_mb > 10


def test_empty_audio_gives_an_empty_text() -> None:
    trace = play(Session(FIXED, Slow(())), np.zeros(0, np.float32), clock="free")
    assert trace.words == ()
    assert trace.rounds == ()
    assert trace.shown[-1].at_s == 0.0


def test_a_session_without_executor_is_refused() -> None:
    with pytest.raises(SessionError, match="executor"):
        play(Session(FIXED), audio(2), clock="free")
