"""How long a run will take, before it starts.

What a cell was measured in part for is judged by that. Of any other a sample is computed: the beginning of the first
recording in which somebody speaks. Offline transcription costs by the window, streaming by the second of audio. It is a
guess by one sample, on a machine that may have other work.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from whispertide.plural import counted
from whispertide.types import CHUNK_SECONDS, to_samples
from whispertide_lab.evaluation.grid import OFFLINE, PEER, CellRequest
from whispertide_lab.evaluation.runner import Job, Runner
from whispertide_lab.speech.utterance import Utterance

SAMPLE_S = 30.0  # of audio, at most; it fills a window
_SHARE = 30  # one part in so many of a cell is its sample
_SHORTEST_S = 5.0
LIVE = "live"


@dataclass(frozen=True, slots=True)
class Estimate:
    """`seconds` for `audio_s` seconds of audio in `cells` cells; `unknown` cells of other programs are not in it."""

    seconds: float = 0.0
    audio_s: float = 0.0
    cells: int = 0
    unknown: int = 0

    def __str__(self) -> str:
        parts = []
        if self.cells:
            amount = f"{counted(self.cells, 'cell')} with {in_words(self.audio_s)} of audio in all"
            parts.append(f"about {in_words(self.seconds)} on this machine: {amount}")
        if self.unknown:
            parts.append(f"{counted(self.unknown, 'cell')} of other programs, whose time is not estimated")
        return ", and ".join(parts)


def estimate(
    runner: Runner, requests: Sequence[CellRequest], *, now: Callable[[], float] = time.perf_counter
) -> Estimate:
    """What is left to be computed of these requests, which can all be measured. Raises what computing raises."""
    jobs = {job.spec.key: job for request in requests for job in runner.jobs(request)}
    seconds = audio_s = 0.0
    cells = unknown = 0
    for job in jobs.values():
        left = _left(runner, job)
        length = sum(utterance.seconds for utterance in left)
        if job.spec.recogniser.startswith(PEER) and job.spec.clock != LIVE:
            unknown += bool(left)
        elif left:
            seconds += length if job.spec.clock == LIVE else _cost(runner, job, left, now)
            audio_s += length
            cells += 1
    return Estimate(seconds, audio_s, cells, unknown)


def in_words(seconds: float) -> str:
    """A length of time as a person says it."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _left(runner: Runner, job: Job) -> list[Utterance]:
    if runner.results.cell(job.spec) is not None:
        return []
    return [item for item in job.corpus.utterances() if runner.results.trace(job.spec, item.id) is None]


def _units(job: Job, utterance: Utterance) -> float:
    """What the cost of an utterance goes by: windows or seconds."""
    is_offline = job.spec.recogniser == OFFLINE
    return math.ceil(utterance.seconds / CHUNK_SECONDS) if is_offline else utterance.seconds


def _cost(runner: Runner, job: Job, left: Sequence[Utterance], now: Callable[[], float]) -> float:
    """Seconds that the rest of a cell takes."""
    done = [(item, runner.results.trace(job.spec, item.id)) for item in job.corpus.utterances()]
    known = [(trace.wall_s, _units(job, item)) for item, trace in done if trace is not None]
    spent, units = map(sum, zip(*(known or [_sampled(job, left, now)]), strict=True))
    return spent / units * sum(_units(job, utterance) for utterance in left)


def _sampled(job: Job, left: Sequence[Utterance], now: Callable[[], float]) -> tuple[float, float]:
    """Seconds and units of a sample; what is loaded first is not counted."""
    first = next((utterance for utterance in left if utterance.words), left[0])
    wanted = sum(utterance.seconds for utterance in left) / _SHARE
    sample = _beginning(first, min(SAMPLE_S, max(_SHORTEST_S, wanted)))
    recognise = job.recogniser()
    began = now()
    recognise(sample)
    return now() - began, _units(job, sample)


def _beginning(utterance: Utterance, length_s: float) -> Utterance:
    length_s = min(length_s, utterance.seconds)
    audio = utterance.audio
    return replace(
        utterance, id=f"sample of {utterance.id}", seconds=length_s, audio=lambda: audio()[: to_samples(length_s)]
    )
