"""What a block of 100 ms costs a causal encoder, early and late in a stream: `python benchmarks/incremental.py`.

A stream is encoded block by block (`model.incremental`), at base.en's shape with random weights: speed does not depend
on their values, and base has the same encoder. Several streams are encoded, the precisions in turn, so that all meet
the same machine. Prints for each the median milliseconds of a block, counted from each mark of the stream on, and what
the state takes in memory there.
"""

import argparse
import os
import statistics
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from random_checkpoint import random_checkpoint, random_features

from whispertide.checkpoint.cache import cache_dir
from whispertide.model.engine import EncoderState
from whispertide.model.incremental import START, Growing
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import PRECISIONS, EngineOptions
from whispertide.recipes.allocation import processor

FIRST, BLOCK, SECOND = 30, 5, 50  # encoder frames: the first block, every other one, one second
MARKS = (0.6, 4, 8, 12, 16, 20, 24, 28)  # seconds of the stream


def memory_mb(state: EncoderState) -> float:
    """What a state keeps, its room for more included, in 10^6 bytes."""
    arrays = (tensor.room if isinstance(tensor, Growing) else tensor for tensor in state.tensors.values())
    return sum(np.asarray(array).nbytes for array in arrays) / 1e6


def blocks_of(model: WhisperModel, blocks: int, kept: dict[float, float] | None = None) -> dict[float, list[float]]:
    """Seconds of each of the first `blocks` blocks after every mark, in one stream; `kept` gets the memory there."""
    rng, mels = np.random.default_rng(0), model.dims.n_mels
    state = model.encode(random_features(mels, 2 * FIRST + 1, rng), state=START).state
    assert state is not None
    starts = {round(mark * SECOND): mark for mark in MARKS}
    taken: dict[float, list[float]] = {}
    measured: list[float] = []
    while state.frames < max(starts) + blocks * BLOCK:
        if state.frames in starts:
            measured = taken[starts[state.frames]] = []
            if kept is not None:
                kept[starts[state.frames]] = memory_mb(state)
        columns = random_features(mels, 2 * BLOCK, rng)
        began = time.perf_counter()
        state = model.encode(columns, state=state).state
        assert state is not None
        if len(measured) < blocks:
            measured.append(time.perf_counter() - began)
    return taken


def main() -> None:
    """Measure every precision, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=cache_dir() / "benchmarks" / "base.en-random")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--streams", type=int, default=5, help="of each precision")
    parser.add_argument("--blocks", type=int, default=8, help="that are measured after each mark of a stream")
    parser.add_argument("--precisions", nargs="*", choices=PRECISIONS, default=["fp32", "int8", "int8-weights"])
    arguments = parser.parse_args()
    folder = str(random_checkpoint(arguments.folder, "base.en"))
    models = {
        precision: load_model(folder, EngineOptions(precision=precision, threads=arguments.threads))
        for precision in arguments.precisions
    }
    taken: dict[str, dict[float, list[float]]] = {name: defaultdict(list) for name in models}
    kept: dict[float, float] = {}
    for model in models.values():
        blocks_of(model, arguments.blocks, kept)  # the graph is built and opened
    for _ in range(arguments.streams):
        for name, model in models.items():
            for mark, seconds in blocks_of(model, arguments.blocks).items():
                taken[name][mark] += seconds

    print(f"{processor()}, {os.cpu_count()} CPUs, {arguments.threads} thread(s)")
    print("| seconds of stream | " + " | ".join(f"{mark:g}" for mark in MARKS) + " |")
    print("|---|" + "---:|" * len(MARKS))
    for name, marks in taken.items():
        print(f"| {name} | " + " | ".join(f"{1000 * statistics.median(marks[mark]):.1f}" for mark in MARKS) + " |")
    print("| state, MB | " + " | ".join(f"{kept[mark]:.1f}" for mark in MARKS) + " |")


if __name__ == "__main__":
    main()
