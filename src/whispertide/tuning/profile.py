"""Find the fastest allocation of threads for rounds on this machine, by the same rounds with one after the other.

The rounds are those of one serial run over a recording. Returns values; printing is the command line's business, and
keeping them that of `recipes.allocation`.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from whispertide.errors import OptionError
from whispertide.model.engine import EncoderState
from whispertide.model.installed import is_accelerated
from whispertide.model.providers import choose_provider, thread_count
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.recipes.allocation import Allocation, Measured, Placement
from whispertide.recipes.assembly import make_executor
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.policy import Executor
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.stages import Pending, begin, depth_of
from whispertide.types import FloatArray, to_samples

_RECORDING_S = 20.0  # computing for so long gives rounds enough
MEASURING_S = 80.0  # for all allocations together, if they are as fast as the recorded run
LEAST_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """One round to run again, and its result."""

    plan: RoundPlan
    audio: FloatArray
    options: DecodeOptions
    seconds: float


@dataclass(slots=True)
class _Recorder:
    """An executor that records its rounds."""

    executor: Executor
    rounds: list[RecordedRound] = field(default_factory=list)

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None = None
    ) -> RoundResult[Any]:
        began = time.perf_counter()
        result = self.executor.run(plan, audio, options, state)
        self.rounds.append(RecordedRound(plan, audio, options, time.perf_counter() - began))
        return result


def record_rounds(
    executor: Executor, recipe: Recipe, audio: FloatArray, *, most_s: float = _RECORDING_S
) -> list[RecordedRound]:
    """Record the rounds of `recipe` over `audio` [n], a step at a time, until computing has taken `most_s` seconds."""
    recorder = _Recorder(executor)
    session = Session(recipe, recorder, recipe.schedule.gate())
    step = to_samples(recipe.schedule.step_s)
    for start in range(0, len(audio), step):
        session.push(audio[start : start + step])
        if sum(item.seconds for item in recorder.rounds) > most_s:
            break
    else:
        session.finish()
    return recorder.rounds


def candidates(model: WhisperModel, recipe: Recipe) -> list[Allocation]:
    """The allocations to measure, with as many threads as the model's options mean: one worker with 1 to all of them;
    two that share them, if the recipe's rounds may overlap. An accelerator may leave decoding to the processor; one
    that only torch can reach is tried next to the processor.
    """
    provider, threads = choose_provider(model.options.provider), thread_count(model.options)
    overlaps = recipe.policy.overlaps
    if provider == "cpu":
        places = [Placement("cpu", count) for count in range(1, threads + 1)]
        pairs = [(one, other) for one in places for other in places if one.threads + other.threads <= threads]
        if is_accelerated("torch"):
            there = Placement("torch", 1, "fp16")
            pairs += [(there, place) for place in places]
            places.append(there)
        return [*map(Allocation, places), *(Allocation(*pair) for pair in pairs if overlaps)]
    there = Placement(model.options.provider, threads)
    decoders = [there]
    if model.options.precision != "fp16":  # which the processor cannot compute
        decoders += [Placement("cpu", count) for count in range(1, threads + 1)]
    return [Allocation(there), *(Allocation(there, place) for place in decoders if overlaps)]


def choose_rounds(rounds: Sequence[RecordedRound], allocations: int) -> list[RecordedRound]:
    """Choose as many of the rounds as there is time for, from all of the recording, in order."""
    mean_s = sum(item.seconds for item in rounds) / max(len(rounds), 1)
    wanted = max(LEAST_ROUNDS, int(MEASURING_S / max(allocations * mean_s, 1e-6)))
    if wanted >= len(rounds):
        return list(rounds)
    return [rounds[number * len(rounds) // wanted] for number in range(wanted)]


def measure(executor: Executor, allocation: Allocation, rounds: Sequence[RecordedRound]) -> Measured:
    """Run `rounds`, each as soon as there is room for it, after one for warming up."""
    executor.run(rounds[0].plan, rounds[0].audio, rounds[0].options)
    waiting: deque[tuple[float, Pending]] = deque()
    taken: list[float] = []

    def land() -> None:
        began, pending = waiting[0]
        pending.result()
        taken.append(time.perf_counter() - began)
        waiting.popleft()

    start = time.perf_counter()
    try:
        for item in rounds:
            began = time.perf_counter()
            waiting.append((began, begin(executor, item.plan, item.audio, item.options)))
            if len(waiting) == depth_of(executor):
                land()
        while waiting:
            land()
    except BaseException:  # also an interrupt: workers shall not go on
        for _, pending in waiting:
            pending.cancel()
        raise
    return Measured(allocation, sum(taken) / len(taken), (time.perf_counter() - start) / len(taken))


def measure_all(
    model: WhisperModel, recipe: Recipe, audio: FloatArray, progress: Callable[[str, int, int], None]
) -> list[Measured]:
    """Measure every candidate on the rounds of `audio` [n] of speech, the best first.

    `progress(label, done, total)` counts allocations; recording the rounds is one of them. Raises `GraphError`, and
    `OptionError` for audio without speech.
    """
    allocations = candidates(model, recipe)
    total = 1 + len(allocations)
    recipe = recipe.replace(executor="serial")
    progress("rounds of the recording", 0, total)
    recorded = record_rounds(make_executor(model, recipe), recipe, audio)
    if not recorded:
        raise OptionError("expected a recording in which somebody speaks; the voice gate found no speech in it")
    rounds = choose_rounds(recorded, len(allocations))
    measured = []
    for number, allocation in enumerate(allocations, start=1):
        progress(label(allocation), number, total)
        executor = make_executor(model, recipe.replace(executor=allocation.executor), allocation=allocation)
        measured.append(measure(executor, allocation, rounds))
    progress("done", total, total)
    return sorted(measured, key=lambda item: item.delay_s)


def label(allocation: Allocation) -> str:
    """The name for tables."""
    if allocation.decoder is None:
        return f"serial: {allocation.encoder}"
    return f"pipelined: encoder {allocation.encoder}; decoder {allocation.decoder}"
