"""Our engine against faster-whisper's (CTranslate2), at base.en's shape with random weights: `make bench`.

Speed does not depend on the values of the weights. Each engine lives in a process of its own; the two are asked in
turn, round after round, so that both meet the same machine, and ratios are taken within a round. CTranslate2 runs int8,
with and without `CT2_FORCE_CPU_ISA=AVX512`, and the faster of the two counts.

    encoder_5s, encoder_30s   peer's time / ours for one window of 5 s (no padding) and of 30 s
    step_1, step_5            peer's time / ours per decoder step, greedy and beam 5 (whole search loops, 5 s of audio)
    cold_start_s              a new process, graphs cached: from its start to the first text of a 5 s clip (nano's graph
                              cache and base.en's shape; 20 tokens)
    peak_mb                   the largest resident size of that process after it also decoded 30 s with beam 5

Prints a table, then one JSON line per thread count.
"""

import argparse
import importlib.metadata
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from random_checkpoint import random_checkpoint, random_features

from whispertide.checkpoint.cache import cache_dir
from whispertide.types import FloatArray
from whispertide_lab.evaluation.peers.convert_ct2 import convert

FEW, MANY = 20, 100  # decoder steps; their difference leaves out what a call costs once
CALLS = 3  # of which the fastest counts
MEASURES = ("encoder_5s", "encoder_30s", "step_1", "step_5")


def mel(seconds: int) -> FloatArray:
    """Random features of that length, [80, 100 * seconds]."""
    return random_features(80, 100 * seconds, 1)


class Ours:
    """whispertide, int8."""

    def __init__(self, folder: Path, threads: int) -> None:
        from whispertide.model.whisper import load_model
        from whispertide.options import EngineOptions

        self.model = load_model(str(folder), EngineOptions(precision="int8", threads=threads))
        self.encoded = self.model.encode(mel(5))

    def encode(self, seconds: int, calls: int) -> float:
        """One window; its features are there before."""
        features = mel(seconds)
        return timed(lambda: self.model.encode(features), calls)

    def step(self, rows: int, calls: int) -> float:
        """One decoder step within a whole search."""
        return per_step(lambda count: self._decode(rows, count), calls)

    def _decode(self, rows: int, count: int) -> int:
        from whispertide.decoding.window import decode_window
        from whispertide.options import DecodeOptions

        options = DecodeOptions(
            beam=rows,
            timestamps=False,
            temperatures=(0.0,),
            suppress_tokens=(self.model.tokenizer.eot,),
            suppress_blank=False,
            max_tokens=count,
        )
        return len(decode_window(self.model, self.encoded, options).tokens)


class Peer:
    """CTranslate2, int8: what faster-whisper runs."""

    def __init__(self, folder: Path, threads: int) -> None:
        import ctranslate2

        self.ct2 = ctranslate2
        converted = folder.with_name(f"{folder.name}-ct2")
        if not (converted / "model.bin").is_file():
            convert(str(folder), converted)
        self.model = ctranslate2.models.Whisper(
            str(converted), compute_type="int8", intra_threads=threads, inter_threads=1
        )
        self.encoded = self.model.encode(self._view(5))

    def _view(self, seconds: int) -> Any:
        return self.ct2.StorageView.from_array(mel(seconds)[None])

    def encode(self, seconds: int, calls: int) -> float:
        """One window; its features are there before. CTranslate2 takes features of any length."""
        features = self._view(seconds)
        return timed(lambda: np.array(self.model.encode(features)), calls)

    def step(self, rows: int, calls: int) -> float:
        """One decoder step within a whole search."""
        return per_step(lambda count: self._decode(rows, count), calls)

    def _decode(self, rows: int, count: int) -> int:
        # it samples half of max_length
        result = self.model.generate(
            self.encoded,
            [[50257, 50362]],
            beam_size=rows,
            max_length=2 * count,
            suppress_tokens=[50256],
            suppress_blank=False,
        )
        return len(result[0].sequences_ids[0])


def timed(call: Callable[[], Any], repeats: int = CALLS) -> float:
    """The best of a few calls."""
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


def per_step(decode: Callable[[int], int], calls: int) -> float:
    """Seconds per decoder step; `decode(count)` returns how many tokens it really sampled."""
    counts: dict[int, int] = {}
    times: dict[int, float] = {}
    for count in (FEW, MANY):
        counts[count] = decode(count)
        times[count] = timed(partial(decode, count), calls)
    return (times[MANY] - times[FEW]) / (counts[MANY] - counts[FEW])


def serve(engine: Ours | Peer) -> None:
    """A worker: measure what each line on standard input names, as the best of so many calls; answer with seconds."""
    ways = (partial(engine.encode, 5), partial(engine.encode, 30), partial(engine.step, 1), partial(engine.step, 5))
    print("ready", flush=True)
    for line in sys.stdin:
        what, calls = line.split()
        print(ways[MEASURES.index(what)](int(calls)), flush=True)


def cold_start(folder: Path, threads: int) -> None:
    """A fresh process: print seconds of this process until its first text, then its peak memory in MB."""
    from whispertide import DecodeOptions, load

    options = DecodeOptions(max_tokens=20, temperatures=(0.0,), word_timestamps=False)
    speech = (0.1 * np.random.default_rng(0).standard_normal(30 * 16000)).astype(np.float32)
    model = load(str(folder), threads=threads)
    model.transcribe(speech[: 5 * 16000], options=options)
    print("first", flush=True)
    model.transcribe(speech, options=DecodeOptions(beam=5, temperatures=(0.0,)))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)


@dataclass
class Worker:
    """A process that measures one engine."""

    name: str
    process: subprocess.Popen[str]
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})

    def measure(self, what: str, calls: int) -> None:
        """Ask for one figure."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what} {calls}\n")
        self.process.stdin.flush()
        self.seconds[what].append(float(self.line()))

    def end(self) -> None:
        """Let it go."""
        self.process.kill()
        self.process.communicate()

    def line(self) -> str:
        """The next answer."""
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the {self.name} worker ended early")
        return answer


def start(kind: str, folder: Path, threads: int, **environment: str) -> Worker:
    """Start a worker and wait until it is ready."""
    command = [sys.executable, __file__, "--worker", kind, "--folder", str(folder), "--threads", str(threads)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
    )
    name = " ".join([kind, *(f"{key}={value}" for key, value in environment.items())])
    worker = Worker(name, process)
    assert worker.line().strip() == "ready"
    return worker


def measure_cold_start(folder: Path, threads: int, repeats: int) -> tuple[float, float]:
    """Median seconds to the first text, and the largest peak in MB, of fresh processes."""
    command = [sys.executable, __file__, "--worker", "cold", "--folder", str(folder), "--threads", str(threads)]
    seconds, peaks = [], []
    for _ in range(repeats):
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "first"
            seconds.append(time.perf_counter() - began)
            peaks.append(float(process.stdout.readline()))
    return statistics.median(seconds), max(peaks)


def has_avx512() -> bool:
    """Whether CTranslate2 can be made to use it here; elsewhere it ends at once."""
    try:
        return " avx512f " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def compare(folder: Path, threads: int, rounds: int, calls: int = CALLS) -> dict[str, float]:
    """The figures for one thread count, each the best of so many calls in a round; prints the table."""
    ours = start("ours", folder, threads)
    peers = [start("peer", folder, threads)]
    if has_avx512():
        peers.append(start("peer", folder, threads, CT2_FORCE_CPU_ISA="AVX512"))
    workers = [ours, *peers]
    for turn in range(rounds):
        print(f"\r{threads} thread(s): round {turn + 1} of {rounds}", end="", file=sys.stderr, flush=True)
        for what in MEASURES:
            for worker in workers:
                worker.measure(what, calls)
                time.sleep(0.2)  # let a spinning thread pool go to sleep before the next engine's turn
    print(file=sys.stderr)
    for worker in workers:
        worker.end()

    print(f"{threads} thread(s)    " + "".join(f"{what:>14}" for what in MEASURES))
    for worker in workers:
        row = "".join(f"{1000 * statistics.median(worker.seconds[what]):11.2f} ms" for what in MEASURES)
        print(f"{worker.name:<14}"[:34].ljust(14) + row)
    figures: dict[str, float] = {}
    for what in MEASURES:
        best = min(peers, key=lambda peer: statistics.median(peer.seconds[what]))
        ratios = [theirs / mine for theirs, mine in zip(best.seconds[what], ours.seconds[what], strict=True)]
        figures[what] = round(statistics.median(ratios), 3)
    print("peer / ours   " + "".join(f"{figures[what]:13.2f}x" for what in MEASURES))
    return figures


def main() -> None:
    """Run the comparison, or one of its workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--worker", choices=("ours", "peer", "cold"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=cache_dir() / "benchmarks" / "base.en-random")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    arguments = parser.parse_args()
    if arguments.worker == "cold":
        return cold_start(arguments.folder, arguments.threads[0])
    if arguments.worker:
        kind = Ours if arguments.worker == "ours" else Peer
        return serve(kind(arguments.folder, arguments.threads[0]))

    from whispertide.recipes.allocation import processor  # not in the workers, whose time and memory count

    folder = random_checkpoint(arguments.folder, "base.en")
    rounds = 2 if arguments.quick else 7
    versions = {name: importlib.metadata.version(name) for name in ("onnxruntime", "ctranslate2", "faster-whisper")}
    print(f"{processor()}, {os.cpu_count()} CPUs, {versions}")
    for threads in arguments.threads:
        figures = compare(folder, threads, rounds)
        seconds, peak = measure_cold_start(folder, threads, 2 if arguments.quick else 5)
        print(f"cold start {seconds:.2f} s, peak {peak:.0f} MB\n")
        print(json.dumps({**figures, "cold_start_s": round(seconds, 3), "peak_mb": round(peak), "threads": threads}))
    return None


if __name__ == "__main__":
    main()
