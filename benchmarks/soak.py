"""The full-length check: hours of audio through one session, `make soak` or `python benchmarks/soak.py --hours 2`.

The bundled recordings are played again and again, with silence, noise and level changes between them, through the
recipe `whisper-streaming` on nano.en as fast as the machine can. Every minute of audio the whole state goes to disk, so
the run can be interrupted (Ctrl-C, reboot) and goes on where it was. It fails when confirmed text changes, when a word
lies outside the audio, when the session keeps more audio than its cap, or when memory grows after ten minutes.

Prints a line per ten minutes of audio, then one JSON line.
"""

import argparse
import json
import pickle
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import whispertide
from whispertide.audio.file import load_audio
from whispertide.checkpoint.cache import cache_dir
from whispertide.events import Confirmed
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


def check(condition: bool, message: str) -> None:
    """Stop with `message` unless `condition` holds."""
    if not condition:
        sys.exit(f"soak failed: {message}")


def play(run: Run, session: whispertide.Session, samples: FloatArray) -> None:
    """One minute in blocks of 0.1 s, with everything checked that can be checked on the way."""
    cap = to_samples(session.recipe.hard_cap_s + session.recipe.step_s + session.recipe.vad_pre_roll_s + 2)
    for start in range(0, len(samples), BLOCK):
        before = len(session.transcript.words)
        events = session.push(samples[start : start + BLOCK])
        fresh = [word for event in events if isinstance(event, Confirmed) for word in event.words]
        check(session.transcript.words[before:] == fresh, "confirmed events and transcript differ")
        for word in fresh:
            check(run.last_end <= word.start <= word.end <= session.received, f"{word} lies outside the audio")
            run.last_end = word.end
        run.words += len(fresh)
        check(session.buffered <= cap, f"{session.buffered / SAMPLE_RATE:.1f} s of audio are kept")
    run.position += len(samples)


def main() -> None:
    """Run, or go on with, the soak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--restart", action="store_true", help="forget an interrupted run")
    arguments = parser.parse_args()
    state = cache_dir() / "soak" / "state.pickle"
    state.parent.mkdir(parents=True, exist_ok=True)
    if arguments.restart:
        state.unlink(missing_ok=True)

    clips = [load_audio(path) for path in sorted((ROOT / "tests" / "clips").glob("*.flac"))]
    session = whispertide.load("nano.en").session("whisper-streaming")
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
        "hours": arguments.hours,
        "words": run.words,
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
