"""Archives: what Ray costs next to plain processes, `python benchmarks/batch.py [--files 60] [--rounds 3]`.

It makes a folder of recordings (`tests/clips`, each with a piece cut off its start). Engines `ray` and `local`
transcribe it in turns, with one worker per core. The clock runs while all workers are at work, so that starting Ray or
a process does not count. Ray's own processes count: they take their share of the same cores, and of the CPU seconds.
Prints a table, then one JSON line.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path, PurePosixPath

import numpy as np

from whispertide import api
from whispertide.audio.file import load_audio
from whispertide.batch.dispatch import transcribe_all
from whispertide.batch.local import LocalWorkers
from whispertide.batch.on_ray import RayWorkers
from whispertide.batch.plan import Task
from whispertide.batch.worker import Setup
from whispertide.checkpoint import load_checkpoint
from whispertide.methods.pilot.remote import wav
from whispertide.options import DecodeOptions, EngineOptions

CLIPS = Path(__file__).parents[1] / "tests" / "clips"


def make(folder: Path, files: int) -> list[Task]:
    """Recordings of 4 to 7 s."""
    clips = map(load_audio, sorted(CLIPS.glob("*.flac")))
    short = [clip for clip in clips if len(clip) < 10 * 16_000]
    tasks = []
    for number in range(files):
        sound = short[number % len(short)][160 * (number // len(short)) :]
        path = folder / f"{number}.wav"
        path.write_bytes(wav(sound))
        tasks.append(Task(str(path), PurePosixPath(f"{number}.txt")))
    return tasks


def cpu_s() -> float:
    """CPU seconds of this process and of all below it, which are those of Ray too (Linux)."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(") ")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            used[int(path.parent.name)] = int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    while below := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= below
    return sum(used[process] for process in ours) / os.sysconf("SC_CLK_TCK")


def throughput(tasks: list[Task], workers: "LocalWorkers | RayWorkers") -> tuple[float, float]:
    """Seconds of audio per second and core, and per CPU second, from when all workers are at work until one is idle."""
    audio_s, marks = 0.0, []
    try:
        for number, (_, outcome) in enumerate(transcribe_all(tasks, workers), start=1):
            assert outcome.state == "done", outcome
            audio_s += outcome.audio_s
            if number in (workers.count, len(tasks) - workers.count):
                marks.append(np.array([audio_s, time.perf_counter() * workers.count, cpu_s()]))
    finally:
        workers.stop()
    audio, wall, cpu = marks[1] - marks[0]
    return float(audio / wall), float(audio / cpu)


def compare(model: str, files: int, rounds: int) -> dict[str, object]:
    """Both in turns."""
    # 15 by default: others on the machine would slow Ray down alone.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    weights = load_checkpoint(model).content_hash
    setup = Setup(model, None, EngineOptions(threads=1), DecodeOptions(), "txt", weights)
    api.load(model, threads=1)  # builds the graphs
    per_core, per_cpu_s = [], []
    with tempfile.TemporaryDirectory() as folder:
        tasks = make(Path(folder), files)
        for number in range(rounds):
            found = {}
            for name in ("local", "ray") if number % 2 == 0 else ("ray", "local"):
                found[name] = throughput(tasks, LocalWorkers(setup) if name == "local" else RayWorkers(setup))
            (local, local_cpu), (ray, ray_cpu) = found["local"], found["ray"]
            print(f"round {number + 1}, s of audio: local {local:.1f}, ray {ray:.1f} per second and core;", end=" ")
            print(f"local {local_cpu:.1f}, ray {ray_cpu:.1f} per CPU second", flush=True)
            per_core.append(round(ray / local, 3))
            per_cpu_s.append(round(ray_cpu / local_cpu, 3))
    return {
        "model": model,
        "files": files,
        "ray_by_local_per_core": per_core,
        "median_per_core": statistics.median(per_core),
        "ray_by_local_per_cpu_s": per_cpu_s,
        "median_per_cpu_s": statistics.median(per_cpu_s),
    }


def main() -> None:
    """Print the table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano.en")
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(json.dumps(compare(given.model, given.files, given.rounds)))


if __name__ == "__main__":
    main()
