"""Decoding with a fixed full-length cache, with per-step graphs, and unrolled: `python benchmarks/unrolled.py`.

What figure 9 of NPUsper (arXiv 2607.01108) compares on a phone's NPU, measured on the CPU provider. All graphs are
static and find the same tokens in fp32 (checked), so they differ in what a step attends to and in how often a graph is
started.

fixed-448   one graph per step over a cache of the whole text context, masked where nothing is yet
fixed-30    the same with a cache of the 30 tokens that the unrolled graphs can feed
steps       a graph per position, whose cache has just the tokens before it
unrolled    chunks of several steps

Prints milliseconds per decode of T fed tokens (the median of interleaved rounds), graph runs, and how much slower than
`unrolled` each is within the same rounds; then one JSON line. `session_mb` is what opening the graphs added to the
resident memory.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto
from random_checkpoint import random_checkpoint

from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.graphs.builder import WeightFile
from whispertide.graphs.chunks import DUMMY, PLANS, Chunk, UnrolledLayout, chunks_of
from whispertide.graphs.portable import PortableBuilder
from whispertide.graphs.static_export import layout_for
from whispertide.graphs.unrolled import UnrolledGraph
from whispertide.model.runtime import GraphSession, open_session
from whispertide.options import EngineOptions

FRAMES = 250  # 5 s of audio
START = (50257, 50362)
Arrays = dict[str, Any]


class FixedCacheGraph(UnrolledGraph):
    """One step over a cache of fixed length: the place of the new token and a mask of the filled places are inputs.

    It gives the new keys and values back by themselves; the caller writes them into its cache.
    """

    def __init__(self, checkpoint: Checkpoint, builder: PortableBuilder, length: int) -> None:
        super().__init__(checkpoint, builder, Chunk(length, 1), FRAMES)
        self.length = length

    def _caches(self) -> None:
        super()._caches()
        self.position = self.graph.input("position", TensorProto.INT32, [1])
        self.filled = self.graph.input("filled", TensorProto.FLOAT, [1, 1, 1, DUMMY + self.length + 1])

    def _position_rows(self, at: int, length: int) -> np.ndarray[Any, Any]:
        return self.positions

    def _run(self, ids: str, first: int) -> str:
        # the place is an input here, so its row of the table is gathered
        graph = self.graph
        table = graph.weight("decoder.embed_positions", self.positions)
        where = graph.node("Unsqueeze", graph.node("Gather", table, self.position, axis=0), graph.ints([0]))
        embedded = graph.transpose(graph.node("Gather", self.vocabulary, ids, axis=1), 1, 2, 0)
        hidden = graph.node("Add", embedded, where)
        for layer in range(self.dims.n_text_layer):
            hidden = self._block(hidden, layer, first, 1)
        return self.layers.norm(hidden, "decoder.layer_norm")

    def _grow(self, name: str, new: str, first: int) -> str:
        past, self.cache[name] = f"past_{name}", new
        return self.graph.node("Concat", past, new, axis=2)

    def _bias(self, first: int, length: int) -> str:
        return self.filled

    def _declare_cache(self) -> None:
        for name, value in self.cache.items():
            self.graph.output(value, f"present_{name}", TensorProto.FLOAT, [1, self.heads, 1, self.size])


class Decoding:
    """What all ways of decoding share: weights in one file, fixed inputs, sessions."""

    def __init__(self, name: str, checkpoint: Checkpoint, folder: Path, options: EngineOptions) -> None:
        self.name = name
        self.dims = checkpoint.dims
        self.folder = folder
        self.options = options
        self.runs = 0
        rng = np.random.default_rng(3)
        self.heads = checkpoint.dims.n_text_head
        self.size = checkpoint.dims.n_text_state // self.heads
        self.audio: Arrays = {"cross_bias": np.zeros((1, 1, 1, FRAMES), np.float32)}
        for layer in range(checkpoint.dims.n_text_layer):
            keys, values = (1, self.heads, self.size, FRAMES), (1, self.heads, FRAMES, self.size)
            self.audio[f"cross_k.{layer}"] = rng.standard_normal(keys).astype(np.float32)
            self.audio[f"cross_v.{layer}"] = rng.standard_normal(values).astype(np.float32)
        self.suppress = np.zeros((2, checkpoint.dims.n_vocab), np.float32)
        self.suppress[:, checkpoint.tokenizer.eot] = -1e30  # every decode is to be of full length

    def save(self, graph: UnrolledGraph) -> None:
        """Write a graph beside the weights."""
        graph.build().save(self.folder)

    def open(self, name: str) -> GraphSession:
        """A session that shares the mapped weights."""
        return open_session(self.folder / f"{name}.onnx", self.options, entries={"session.disable_prepacking": "1"})

    def cache_names(self) -> list[str]:
        """Of keys and values."""
        return [f"{which}.{layer}" for layer in range(self.dims.n_text_layer) for which in "kv"]

    def decode(self, fed: int) -> list[int]:
        """Greedily, until so many tokens have been fed."""
        raise NotImplementedError


class Chunked(Decoding):
    """Unrolled chunks, or with a plan of ones: per-step graphs."""

    def __init__(
        self,
        name: str,
        checkpoint: Checkpoint,
        weights: WeightFile,
        folder: Path,
        options: EngineOptions,
        plan: Sequence[int],
    ) -> None:
        super().__init__(name, checkpoint, folder, options)
        self.chunks = chunks_of(tuple(plan), len(START))
        self.sessions = []
        for chunk in self.chunks:
            graph = f"{name}-{chunk.start}-{chunk.end}"
            self.save(UnrolledGraph(checkpoint, PortableBuilder(graph, weights), chunk, FRAMES))
            self.sessions.append(self.open(graph))

    def decode(self, fed: int) -> list[int]:
        """Greedily, until so many tokens have been fed."""
        shape = (1, self.heads, DUMMY, self.size)
        cache: Arrays = {f"past_{name}": np.zeros(shape, np.float32) for name in self.cache_names()}
        known, tokens = list(START), []
        self.runs = 0
        names = ["tokens", *(f"present_{name}" for name in self.cache_names())]
        for chunk, session in zip(self.chunks, self.sessions, strict=True):
            if chunk.start >= fed:
                break
            forced = np.full((1, chunk.length), -1, np.int32)
            forced[0, : len(known)] = known
            rule = np.ones(chunk.steps, np.int32)
            values = session.run(
                names, {"forced": forced, "rule": rule, "suppress": self.suppress, **cache, **self.audio}
            )
            self.runs += 1
            tokens += values[0].numpy()[0].tolist()
            known = tokens[-1:]
            cache = dict(zip(cache, values[1:], strict=True))
        return tokens[: fed - len(START) + 1]


class Fixed(Decoding):
    """One graph, one step, one full-length cache."""

    def __init__(
        self, name: str, checkpoint: Checkpoint, weights: WeightFile, folder: Path, options: EngineOptions, length: int
    ) -> None:
        super().__init__(name, checkpoint, folder, options)
        self.length = length
        self.save(FixedCacheGraph(checkpoint, PortableBuilder(name, weights), length))
        self.session = self.open(name)

    def decode(self, fed: int) -> list[int]:
        """Greedily, until so many tokens have been fed."""
        shape = (1, self.heads, DUMMY + self.length, self.size)
        cache = {name: np.zeros(shape, np.float32) for name in self.cache_names()}
        filled = np.full((1, 1, 1, DUMMY + self.length + 1), -1e30, np.float32)
        filled[..., -1] = 0.0
        tokens: list[int] = []
        self.runs = 0
        names = ["tokens", *(f"present_{name}" for name in self.cache_names())]
        for place in range(fed):
            token = START[place] if place < len(START) else tokens[-1]
            inputs: Arrays = {
                "forced": np.array([[token]], np.int32),
                "rule": np.ones(1, np.int32),
                "position": np.array([place], np.int32),
                "filled": filled,
                "suppress": self.suppress,
                **{f"past_{name}": value for name, value in cache.items()},
                **self.audio,
            }
            values = self.session.run(names, inputs)
            self.runs += 1
            for name, value in zip(cache, values[1:], strict=True):
                cache[name][:, :, DUMMY + place] = value.numpy()[:, :, 0]
            filled[..., DUMMY + place] = 0.0
            if place + 1 >= len(START):
                tokens.append(int(values[0].numpy()[0, 0]))
        return tokens


def resident_mb() -> float:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def contenders(checkpoint: Checkpoint, folder: Path, options: EngineOptions) -> tuple[list[Decoding], dict[str, float]]:
    """The four ways, and what each added to memory."""
    folder.mkdir(parents=True, exist_ok=True)
    layout: UnrolledLayout = layout_for(checkpoint)
    plan, total = PLANS[0], sum(PLANS[0])
    assert layout.block == len(START)
    with (folder / "decoder.bin").open("wb") as file:
        weights = WeightFile("decoder.bin", file)
        rest = (weights, folder, options)
        makers: dict[str, Callable[[str], Decoding]] = {
            "fixed-448": lambda name: Fixed(name, checkpoint, *rest, checkpoint.dims.n_text_ctx),
            "fixed-30": lambda name: Fixed(name, checkpoint, *rest, total),
            "steps": lambda name: Chunked(name, checkpoint, *rest, (len(START), *[1] * (total - len(START)))),
            "unrolled": lambda name: Chunked(name, checkpoint, *rest, plan),
        }
        made, memory = [], {}
        for name, make in makers.items():
            before = resident_mb()
            made.append(make(name))
            file.flush()
            made[-1].decode(4)
            memory[name] = round(resident_mb() - before, 1)
    return made, memory


def measure(ways: list[Decoding], fed: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each way in each round, one after the other so that a busy moment hits all."""
    expected = ways[-1].decode(fed)
    times: dict[str, list[float]] = {way.name: [] for way in ways}
    for number in range(rounds):
        print(f"\r{fed} tokens: round {number + 1} of {rounds}", end="", file=sys.stderr, flush=True)
        for way in ways:
            began = time.perf_counter()
            tokens = way.decode(fed)
            times[way.name].append(time.perf_counter() - began)
            if tokens != expected:
                raise SystemExit(f"{way.name} says {tokens}, unrolled {expected}: the comparison is void")
    print(file=sys.stderr)
    return times


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
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, {checkpoint.name}, {FRAMES} frames, fp32"
    )
    figures: dict[str, Any] = {"threads": arguments.threads, "session_mb": memory}
    for fed in (10, 20, 30):
        times = measure(ways, fed, 3 if arguments.quick else 15)
        for way in ways:
            pairs = zip(times[way.name], times["unrolled"], strict=True)
            ratio = statistics.median(one / unrolled for one, unrolled in pairs)
            milliseconds = 1e3 * statistics.median(times[way.name])
            print(f"{fed:3} tokens  {way.name:10} {milliseconds:9.1f} ms {way.runs:4} runs  {ratio:6.2f} x unrolled")
            figures[f"{way.name}_{fed}"] = round(ratio, 3)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
