"""The full-length check: hours of audio through one session, `make soak` or `python benchmarks/soak.py --hours 2`.

The bundled recordings are played again and again, with silence, noise and level changes between them, through a recipe
(`tide`, or --recipe) on nano.en as fast as the machine can. Every minute of audio the whole state goes to disk, so the
run can be interrupted (Ctrl-C, reboot) and goes on where it was. It fails when confirmed text changes, when a word lies
outside the audio, when the session keeps more audio than its cap, or when memory grows after ten minutes.

Prints a line per ten minutes of audio, then one JSON line. There `lag_s` and `largest_mb` are a pair each: the longest
that a word waited for its confirmation, computing included, and the largest resident memory, in the first and in the
last quarter of the run (memory: of what this process ran of it).
"""

import argparse
import json
import pickle
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import whispertide
from whispertide.audio.file import load_audio
from whispertide.checkpoint.cache import cache_dir
from whispertide.events import Confirmed
from whispertide.options import DEFAULT_RECIPE
from whispertide.streaming.recipes import RECIPES
from whispertide.types import SAMPLE_RATE, FloatArray, to_samples

ROOT = Path(__file__).parents[1]
MINUTE = 60 * SAMPLE_RATE
SETTLED_MIN = 10  # memory counts from here on
GROWTH_MB = 40.0  # what a transcript of hours may add, and the allocator's slack
BLOCK = SAMPLE_RATE // 10


@dataclass
class Run:
    """What survives an interruption."""

    position: int = 0
    words: int = 0
    last_end: int = 0
    wall_s: float = 0.0
    memory_mb: dict[int, float] = field(default_factory=dict)  # minute of audio -> resident MB
    lag_s: dict[int, float] = field(default_factory=dict)  # minute of audio -> the longest that a word waited
    session: Any = None


def audio_minute(minute: int, clips: list[FloatArray]) -> FloatArray:
    """Minute number `minute` of the endless recording: clips at changing levels, pauses, now and then noise."""
    rng = np.random.default_rng(minute)
    parts: list[FloatArray] = []
    total = 0
    while total < MINUTE:
        level = 10 ** (-rng.uniform(0, 25) / 20)
        clip = clips[rng.integers(len(clips))] * level
        gap = np.zeros(rng.integers(SAMPLE_RATE // 4, 8 * SAMPLE_RATE), np.float32)
        if rng.random() < 0.3:
            gap += 0.003 * rng.standard_normal(len(gap)).astype(np.float32)
        parts += [clip.astype(np.float32), gap]
        total += len(clip) + len(gap)
    return np.concatenate(parts)[:MINUTE]


def resident_mb() -> float:
    """Current resident memory where the system tells, else the peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * resource.getpagesize() / 2**20


def quarters(values: Mapping[int, float]) -> tuple[float, float]:
    """The largest of the first quarter of the minutes that have a value, and that of the last; 0 where none has one."""
    if not values:
        return 0.0, 0.0
    ordered = [values[minute] for minute in sorted(values)]
    count = -(-len(ordered) // 4)
    return max(ordered[:count]), max(ordered[-count:])


def check(condition: bool, message: str) -> None:
    """Stop with `message` unless `condition` holds."""
    if not condition:
        sys.exit(f"soak failed: {message}")


def play(run: Run, session: whispertide.Session, samples: FloatArray) -> None:
    """One minute in blocks of 0.1 s, with everything checked that can be checked on the way."""
    minute = run.position // MINUTE
    cap = to_samples(session.recipe.hard_cap_s + session.recipe.step_s + session.recipe.vad_pre_roll_s + 2)
    for start in range(0, len(samples), BLOCK):
        before, began = len(session.transcript.words), time.perf_counter()
        events = session.push(samples[start : start + BLOCK])
        computed_s = time.perf_counter() - began
        fresh = [word for event in events if isinstance(event, Confirmed) for word in event.words]
        check(session.transcript.words[before:] == fresh, "confirmed events and transcript differ")
        for word in fresh:
            check(run.last_end <= word.start <= word.end <= session.received, f"{word} lies outside the audio")
            run.last_end = word.end
            waited_s = (session.received - word.end) / SAMPLE_RATE + computed_s
            run.lag_s[minute] = max(run.lag_s.get(minute, 0.0), waited_s)
        run.words += len(fresh)
        check(session.buffered <= cap, f"{session.buffered / SAMPLE_RATE:.1f} s of audio are kept")
    run.position += len(samples)


def main() -> None:
    """Run, or go on with, the soak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--recipe", default=DEFAULT_RECIPE, choices=list(RECIPES))
    parser.add_argument("--restart", action="store_true", help="forget an interrupted run")
    arguments = parser.parse_args()
    state = cache_dir() / "soak" / f"{arguments.recipe}.pickle"
    state.parent.mkdir(parents=True, exist_ok=True)
    if arguments.restart:
        state.unlink(missing_ok=True)

    clips = [load_audio(path) for path in sorted((ROOT / "tests" / "clips").glob("*.flac"))]
    session = whispertide.load("nano.en").session(arguments.recipe)
    # our own file in our own cache folder
    run: Run = pickle.loads(state.read_bytes()) if state.is_file() else Run()
    if run.session is not None:
        session.restore(run.session)
        run.memory_mb.clear()  # another process
        print(f"going on at minute {run.position // MINUTE}")
    first = run.position // MINUTE
    bar = Progress(
        TextColumn("soak"), BarColumn(), TextColumn("{task.completed}/{task.total} min"), TimeRemainingColumn()
    )
    with bar as progress:
        task = progress.add_task("soak", total=round(arguments.hours * 60), completed=first)
        for minute in range(first, round(arguments.hours * 60)):
            began = time.perf_counter()
            play(run, session, audio_minute(minute, clips))
            run.wall_s += time.perf_counter() - began
            run.memory_mb[minute] = resident_mb()
            run.session = session.snapshot()
            unfinished = state.with_suffix(".new")
            unfinished.write_bytes(pickle.dumps(run))
            unfinished.replace(state)
            progress.advance(task)
            if minute % 10 == 9:
                progress.console.print(f"minute {minute + 1}: {run.words} words, {run.memory_mb[minute]:.0f} MB")
    session.finish()
    state.unlink(missing_ok=True)
    settled = [memory for minute, memory in run.memory_mb.items() if minute >= min(run.memory_mb) + SETTLED_MIN]
    growth = max(settled) - settled[0] if settled else 0.0
    report = {
        "recipe": arguments.recipe,
        "hours": arguments.hours,
        "words": run.words,
        "lag_s": [round(lag, 2) for lag in quarters(run.lag_s)],
        "largest_mb": [round(memory) for memory in quarters(run.memory_mb)],
        "memory_growth_mb": round(growth, 1),
        "memory_mb": round(resident_mb()),
        "real_time_factor": round(run.wall_s / (run.position / SAMPLE_RATE), 3),
    }
    print(json.dumps(report))
    check(growth <= GROWTH_MB, f"memory grew by {growth:.0f} MB after the first {SETTLED_MIN} minutes")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on where this stopped")
