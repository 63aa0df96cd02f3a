"""Decoding with a fixed full-length cache, with per-step graphs, and unrolled: `python benchmarks/unrolled.py`.

Prints what `whispertide bench paper npusper` draws as figure 9 (`evaluation.static_decoding` says what is compared),
for any shape: milliseconds per decode of so many fed tokens (the median of interleaved rounds), graph runs, and how
much slower than `unrolled` each is within the same rounds; then one JSON line. `session_mb` is what opening the graphs
added to the resident memory.
"""

import argparse
import json
import os
from typing import Any

from random_checkpoint import random_checkpoint

from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.lab.evaluation.static_decoding import (
    FED,
    FRAMES,
    QUICK_ROUNDS,
    ROUNDS,
    contenders,
    interleaved,
    speeds,
)
from whispertide.options import EngineOptions
from whispertide.streaming.allocation import processor


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--model", default="base.en-random", help="a checkpoint, or base.en's shape at random")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    home = cache_dir() / "benchmarks"
    name = arguments.model
    if name == "base.en-random":
        name = str(random_checkpoint(home / name, "base.en"))
    checkpoint = load_checkpoint(name)
    options = EngineOptions(precision="fp32", provider="cpu", threads=arguments.threads)
    ways, memory = contenders(checkpoint, home / f"unrolled-{checkpoint.content_hash[:12]}", options)
    print(f"{processor()}, {os.cpu_count()} CPUs, {checkpoint.name}, {FRAMES} frames, fp32")
    figures: dict[str, Any] = {"threads": arguments.threads, "session_mb": memory}
    for fed in FED:
        rounds = list(interleaved(ways, fed, QUICK_ROUNDS if arguments.quick else ROUNDS))
        for speed in speeds(ways, fed, rounds):
            times = f"{speed.milliseconds:9.1f} ms {speed.runs:4} runs  {speed.ratio:6.2f} x unrolled"
            print(f"{fed:3} tokens  {speed.way:10} {times}", flush=True)
            figures[f"{speed.way}_{fed}"] = round(speed.ratio, 3)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
