"""Ways to decode with static graphs, against each other: NPUsper's figures 9 and 13 (arXiv 2607.01108), on the CPU
provider.

All find the same tokens in fp32 (checked), so they differ in what a step attends to and in how often a graph is
started.

    fixed-200   one graph per step over a cache of 200 tokens, the paper's M, masked where nothing is yet
    fixed-30    the same with a cache of the 30 tokens that the unrolled graphs can feed
    steps       a graph per position, whose cache has just the tokens before it
    unrolled    chunks of several steps

The audio is noise, because what is said does not matter to how long it takes.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.errors import GraphError
from whispertide.graphs.builder import WeightFile
from whispertide.graphs.onnx_file import ElementType
from whispertide.model.providers import thread_count
from whispertide.model.runtime import GraphSession, open_session
from whispertide.options import EngineOptions
from whispertide.tuning.drawing import Curve, scatter
from whispertide.tuning.page import Table
from whispertide.types import FRAME_SAMPLES, seconds
from whispertide_lab.evaluation import plots
from whispertide_lab.evaluation.paper import Outcome, Plot
from whispertide_lab.evaluation.watch import Watch, showing
from whispertide_lab.npu.chunks import DUMMY, PLANS, Chunk, chunks_of, layout_for
from whispertide_lab.npu.decoder import UnrolledGraph
from whispertide_lab.npu.encoder import StaticEncoderGraph
from whispertide_lab.npu.portable import PortableBuilder

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner

FRAMES = 250
AUDIO_S = seconds(FRAMES * FRAME_SAMPLES)
FED = (10, 15, 20, 25, 30)  # tokens
PUBLISHED_CACHE = 200  # section 3.2: what Qualcomm's graphs have
UNROLLED = "unrolled"
ROUNDS, QUICK_ROUNDS = 15, 3
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
        self.position = self.graph.input("position", ElementType.INT32, [1])
        self.filled = self.graph.input("filled", ElementType.FLOAT, [1, 1, 1, DUMMY + self.length + 1])

    def _places(self, first: int, length: int) -> str:
        # The place is an input here, so its row of the table is gathered.
        graph = self.graph
        table = graph.weight("decoder.embed_positions", self.positions)
        return graph.node("Unsqueeze", graph.node("Gather", table, self.position, axis=0), graph.ints([0]))

    def _grow(self, name: str, new: str) -> str:
        past, self.cache[name] = f"past_{name}", new
        return self.graph.node("Concat", past, new, axis=2)

    def _bias(self, first: int, length: int) -> str:
        return self.filled

    def _declare_cache(self) -> None:
        for name, value in self.cache.items():
            self.graph.output(value, f"present_{name}", ElementType.FLOAT, [1, self.heads, 1, self.size])


@dataclass(frozen=True, slots=True)
class Workshop:
    """What graphs are built of and with, and where; their weights are in one file."""

    checkpoint: Checkpoint
    weights: WeightFile
    folder: Path
    options: EngineOptions
    flush: Callable[[], None]  # whoever maps the weights sees those that were written before
    builds: type[PortableBuilder] = PortableBuilder

    def builder(self, name: str) -> PortableBuilder:
        """For a graph of that name."""
        return self.builds(name, self.weights)

    def open(self, graph: UnrolledGraph | StaticEncoderGraph, name: str) -> GraphSession:
        """Write a graph next to the weights; a session that shares them, mapped."""
        graph.build().save(self.folder)
        self.flush()
        return open_session(self.folder / f"{name}.onnx", self.options, entries={"session.disable_prepacking": "1"})


class Decoding:
    """What all ways of decoding share: fixed inputs, an empty cache, and what a run of a graph gives."""

    def __init__(self, name: str, checkpoint: Checkpoint) -> None:
        self.name = name
        self.opening = opening_of(checkpoint)
        self.runs = 0
        dims, rng = checkpoint.dims, np.random.default_rng(3)
        self.heads, self.size = dims.n_text_head, dims.n_text_state // dims.n_text_head
        self.cached = [f"{which}.{layer}" for layer in range(dims.n_text_layer) for which in "kv"]
        suppress = np.zeros((2, dims.n_vocab), np.float32)
        suppress[:, checkpoint.tokenizer.eot] = -1e30  # every decode is to be of full length
        self.fixed: Arrays = {"cross_bias": np.zeros((1, 1, 1, FRAMES), np.float32), "suppress": suppress}
        for layer in range(dims.n_text_layer):
            for which, shape in (("k", (self.size, FRAMES)), ("v", (FRAMES, self.size))):
                values = rng.standard_normal((1, self.heads, *shape)).astype(np.float32)
                self.fixed[f"cross_{which}.{layer}"] = values

    def empty_cache(self, length: int) -> Arrays:
        """Keys and values of `length` places."""
        shape = (1, self.heads, length, self.size)
        return {f"past_{name}": np.zeros(shape, np.float32) for name in self.cached}

    def run(self, session: GraphSession, inputs: Arrays) -> tuple[list[int], list[Any]]:
        """The tokens that a graph finds, and its keys and values in the order of the cache."""
        names = ["tokens", *(f"present_{name}" for name in self.cached)]
        tokens, *present = session.run(names, {**inputs, **self.fixed})
        self.runs += 1
        return tokens.numpy()[0].tolist(), present

    def decode(self, fed: int) -> list[int]:
        """Greedily, until so many tokens have been fed."""
        raise NotImplementedError


class Chunked(Decoding):
    """Unrolled chunks, or with a plan of ones: per-step graphs."""

    def __init__(self, name: str, workshop: Workshop, plan: Sequence[int]) -> None:
        super().__init__(name, workshop.checkpoint)
        self.sessions = []
        for chunk in chunks_of(tuple(plan), len(self.opening)):
            graph = f"{name}-{chunk.start}-{chunk.end}"
            built = UnrolledGraph(workshop.checkpoint, workshop.builder(graph), chunk, FRAMES)
            self.sessions.append((chunk, workshop.open(built, graph)))

    def decode(self, fed: int) -> list[int]:
        """Greedily, until so many tokens have been fed."""
        cache = self.empty_cache(DUMMY)
        known, tokens = list(self.opening), list[int]()
        self.runs = 0
        for chunk, session in self.sessions:
            if chunk.start >= fed:
                break
            forced = np.full((1, chunk.length), -1, np.int32)
            forced[0, : len(known)] = known
            found, present = self.run(session, {"forced": forced, "rule": np.ones(chunk.steps, np.int32), **cache})
            tokens += found
            known = tokens[-1:]
            cache = dict(zip(cache, present, strict=True))
        return tokens[: fed - len(self.opening) + 1]


class Fixed(Decoding):
    """One graph, one step, one full-length cache."""

    def __init__(self, name: str, workshop: Workshop, length: int) -> None:
        super().__init__(name, workshop.checkpoint)
        self.length = length
        self.session = workshop.open(FixedCacheGraph(workshop.checkpoint, workshop.builder(name), length), name)

    def decode(self, fed: int) -> list[int]:
        """Greedily, until so many tokens have been fed."""
        cache = self.empty_cache(DUMMY + self.length)
        filled = np.full((1, 1, 1, DUMMY + self.length + 1), -1e30, np.float32)
        # The new token's own place, after the cache.
        filled[..., -1] = 0.0
        tokens: list[int] = []
        self.runs = 0
        for place in range(fed):
            token = self.opening[place] if place < len(self.opening) else tokens[-1]
            inputs: Arrays = {
                "forced": np.array([[token]], np.int32),
                "rule": np.ones(1, np.int32),
                "position": np.array([place], np.int32),
                "filled": filled,
                **cache,
            }
            found, present = self.run(self.session, inputs)
            for name, value in zip(cache, present, strict=True):
                cache[name][:, :, DUMMY + place] = value.numpy()[:, :, 0]
            filled[..., DUMMY + place] = 0.0
            if place + 1 >= len(self.opening):
                tokens += found
        return tokens


def opening_of(checkpoint: Checkpoint) -> tuple[int, ...]:
    """What every decode begins with: start of transcript and no timestamps, with a language where there are several."""
    return checkpoint.tokenizer.sot_sequence("en" if checkpoint.dims.is_multilingual else None, timestamps=False)


@contextmanager
def workshop(
    checkpoint: Checkpoint, folder: Path, options: EngineOptions, builds: type[PortableBuilder] = PortableBuilder
) -> Iterator[Workshop]:
    """Build graphs into `folder` meanwhile; their sessions stay usable."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "decoder.bin").open("wb") as file:
        yield Workshop(checkpoint, WeightFile("decoder.bin", file), folder, options, file.flush, builds)


def contenders(checkpoint: Checkpoint, folder: Path, options: EngineOptions) -> list[Decoding]:
    """The four ways. Raises `GraphError` where graphs cannot be built."""
    block, plan, total = layout_for(checkpoint).block, PLANS[0], sum(PLANS[0])
    with workshop(checkpoint, folder, options) as shop:
        ways = [
            Fixed(f"fixed-{PUBLISHED_CACHE}", shop, PUBLISHED_CACHE),
            Fixed("fixed-30", shop, total),
            Chunked("steps", shop, (block, *[1] * (total - block))),
            Chunked(UNROLLED, shop, plan),
        ]
    for way in ways:  # once without counting
        way.decode(block + 2)
    return ways


def interleaved(ways: Sequence[Decoding], fed: int, rounds: int) -> Iterator[dict[str, float]]:
    """Seconds of each way, round by round, one way after the other so that a busy moment hits all.

    Raises `GraphError` if one finds other tokens than the last: then the comparison is void.
    """
    expected = ways[-1].decode(fed)
    for _ in range(rounds):
        times = {}
        for way in ways:
            began = time.perf_counter()
            tokens = way.decode(fed)
            times[way.name] = time.perf_counter() - began
            if tokens != expected:
                raise GraphError(
                    f"expected {way.name} to find the tokens that {ways[-1].name} finds, {expected}; got {tokens}"
                )
        yield times


@dataclass(frozen=True, slots=True)
class Speed:
    """Of one way at one length: the median of the rounds, and of its ratio to `unrolled` within each."""

    way: str
    fed: int
    milliseconds: float
    runs: int
    ratio: float


def speeds(ways: Sequence[Decoding], fed: int, rounds: Sequence[dict[str, float]]) -> list[Speed]:
    """One for each way; `ways` have just been run."""
    return [
        Speed(
            way.name,
            fed,
            1e3 * statistics.median(times[way.name] for times in rounds),
            way.runs,
            statistics.median(times[way.name] / times[UNROLLED] for times in rounds),
        )
        for way in ways
    ]


def dispatch_table(runner: "Runner") -> Outcome:
    """NPUsper, figure 3, as far as it is about what starting graphs costs: a graph per step against chunks of steps."""
    found, note = _found(runner)
    rows = []
    for fed in FED:
        steps, chunks = (next(s for s in found if (s.way, s.fed) == (way, fed)) for way in ("steps", UNROLLED))
        more = steps.milliseconds - chunks.milliseconds
        costs = (more, more / (steps.runs - chunks.runs), 100 * more / steps.milliseconds)
        rows.append((str(fed), str(steps.runs), str(chunks.runs), *(f"{cost:.2f}" for cost in costs)))
    columns = ("tokens fed", "graph runs, one per step", "unrolled", "ms more", "ms for each start", "of a decode %")
    return Outcome((Table(columns, tuple(rows)),), note=f"{note} What a start costs is what chunks save.")


def static_figure(runner: "Runner") -> Outcome:
    """NPUsper, figure 9: fixed full-length cache, per-step graphs, unrolled."""
    found, note = _found(runner)
    rows = tuple(
        (str(speed.fed), speed.way, f"{speed.milliseconds:.1f}", str(speed.runs), f"{speed.ratio:.2f}")
        for speed in found
    )
    table = Table(("tokens fed", "graphs", "ms", "graph runs", "times unrolled"), rows)
    names = list(dict.fromkeys(speed.way for speed in found))
    bars = [plots.Bar(f"{s.way}, {s.fed} tokens", s.milliseconds, colour=names.index(s.way)) for s in found]
    drawing = plots.bars(bars, x_label="time of a decode (ms)", title="static graphs")
    return Outcome((table,), (Plot(drawing, "Decoding with static graphs"),), note)


def length_figure(runner: "Runner") -> Outcome:
    """NPUsper, figure 13: the same by number of tokens."""
    found, note = _found(runner)
    curves = []
    for way in dict.fromkeys(speed.way for speed in found):
        members = [speed for speed in found if speed.way == way]
        times = tuple(speed.milliseconds for speed in members)
        curves.append(Curve(way, tuple(float(speed.fed) for speed in members), times))
    rows = tuple(
        (str(fed), *(f"{speed.milliseconds:.1f}" for speed in found if speed.fed == fed))
        for fed in dict.fromkeys(speed.fed for speed in found)
    )
    title = "static graphs by number of tokens"
    drawing = scatter(curves, x_label="tokens fed", y_label="time of a decode (ms)", title=title)
    columns = ("tokens fed", *(f"{curve.label} ms" for curve in curves))
    return Outcome((Table(columns, rows),), (Plot(drawing, "Decoding with static graphs by number of tokens"),), note)


def exactly(runner: "Runner", name: str) -> tuple[Checkpoint, Path, EngineOptions]:
    """The first model, a folder of that name for its graphs, and an engine that rounds nothing."""
    checkpoint = load_checkpoint(runner.models[0])
    options = EngineOptions(precision="fp32", provider="cpu", threads=thread_count(runner.setup.engine))
    return checkpoint, cache_dir() / "benchmarks" / f"{name}-{checkpoint.content_hash[:12]}", options


def _found(runner: "Runner") -> tuple[list[Speed], str]:
    """All ways at all lengths, and what they were measured on."""
    checkpoint, folder, options = exactly(runner, "static")
    measure = partial(_measure, runner, checkpoint, folder, options)
    found = runner.kept("static decoding", list[Speed], measure, __name__)
    return found, (
        f"{checkpoint.name}, fp32, CPU provider, {options.threads} threads, {FRAMES} encoder frames of noise. Medians "
        "of interleaved rounds, all with the same tokens. The paper measures a phone's NPU; this is a processor."
    )


def _measure(runner: "Runner", checkpoint: Checkpoint, folder: Path, options: EngineOptions) -> list[Speed]:
    ways = contenders(checkpoint, folder, options)
    rounds = QUICK_ROUNDS if runner.quick else ROUNDS
    with showing(runner.watch, "decoding with static graphs", len(FED) * rounds * len(ways) * AUDIO_S):
        return [speed for fed in FED for speed in speeds(ways, fed, timed(runner.watch, ways, fed, rounds))]


def timed(watch: Watch, ways: Sequence[Decoding], fed: int, rounds: int) -> list[dict[str, float]]:
    """All that `interleaved` gives; the progress bar moves."""
    found = []
    for times in interleaved(ways, fed, rounds):
        found.append(times)
        watch.advance(len(ways) * AUDIO_S)
    return found
