"""Ways to decode with static graphs, against each other: NPUsper's figure 9 (arXiv 2607.01108), on the CPU provider.

All find the same tokens in fp32 (checked), so they differ in what a step attends to and in how often a graph is
started.

    fixed-448   one graph per step over a cache of the whole text context, masked where nothing is yet
    fixed-30    the same with a cache of the 30 tokens that the unrolled graphs can feed
    steps       a graph per position, whose cache has just the tokens before it
    unrolled    chunks of several steps

The audio is noise, because what is said does not matter to how long it takes.
"""

import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.errors import GraphError
from whispertide.graphs.builder import WeightFile
from whispertide.graphs.chunks import DUMMY, PLANS, Chunk, UnrolledLayout, chunks_of, layout_for
from whispertide.graphs.portable import PortableBuilder
from whispertide.graphs.unrolled import UnrolledGraph
from whispertide.lab.evaluation import plots
from whispertide.lab.evaluation.page import Table
from whispertide.lab.evaluation.paper import Outcome, Plot
from whispertide.model.runtime import GraphSession, open_session, thread_count
from whispertide.options import EngineOptions

if TYPE_CHECKING:
    from whispertide.lab.evaluation.runner import Runner

FRAMES = 250  # 5 s of audio
FED = (10, 20, 30)  # tokens
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
        self.opening = opening_of(checkpoint)
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
        """Write a graph next to the weights."""
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
        self.chunks = chunks_of(tuple(plan), len(self.opening))
        self.sessions = []
        for chunk in self.chunks:
            graph = f"{name}-{chunk.start}-{chunk.end}"
            self.save(UnrolledGraph(checkpoint, PortableBuilder(graph, weights), chunk, FRAMES))
            self.sessions.append(self.open(graph))

    def decode(self, fed: int) -> list[int]:
        """Greedily, until so many tokens have been fed."""
        shape = (1, self.heads, DUMMY, self.size)
        cache: Arrays = {f"past_{name}": np.zeros(shape, np.float32) for name in self.cache_names()}
        known, tokens = list(self.opening), []
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
        return tokens[: fed - len(self.opening) + 1]


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
            token = self.opening[place] if place < len(self.opening) else tokens[-1]
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
            if place + 1 >= len(self.opening):
                tokens.append(int(values[0].numpy()[0, 0]))
        return tokens


def resident_mb() -> float:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def opening_of(checkpoint: Checkpoint) -> tuple[int, ...]:
    """What every decode begins with: start of transcript and no timestamps, with a language where there are several."""
    return checkpoint.tokenizer.sot_sequence("en" if checkpoint.dims.is_multilingual else None, timestamps=False)


def contenders(checkpoint: Checkpoint, folder: Path, options: EngineOptions) -> tuple[list[Decoding], dict[str, float]]:
    """The four ways, and how many MB each added to memory. Raises `GraphError` where graphs cannot be built."""
    folder.mkdir(parents=True, exist_ok=True)
    layout: UnrolledLayout = layout_for(checkpoint)
    plan, total = PLANS[0], sum(PLANS[0])
    with (folder / "decoder.bin").open("wb") as file:
        weights = WeightFile("decoder.bin", file)
        rest = (weights, folder, options)
        makers: dict[str, Callable[[str], Decoding]] = {
            "fixed-448": lambda name: Fixed(name, checkpoint, *rest, checkpoint.dims.n_text_ctx),
            "fixed-30": lambda name: Fixed(name, checkpoint, *rest, total),
            "steps": lambda name: Chunked(name, checkpoint, *rest, (layout.block, *[1] * (total - layout.block))),
            "unrolled": lambda name: Chunked(name, checkpoint, *rest, plan),
        }
        made, memory = [], {}
        for name, make in makers.items():
            before = resident_mb()
            made.append(make(name))
            file.flush()
            made[-1].decode(layout.block + 2)
            memory[name] = round(resident_mb() - before, 1)
    return made, memory


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
            statistics.median(times[way.name] / times["unrolled"] for times in rounds),
        )
        for way in ways
    ]


def static_figure(runner: "Runner") -> Outcome:
    """NPUsper, figure 9: fixed full-length cache, per-step graphs, unrolled."""
    checkpoint = load_checkpoint(runner.models[0])
    options = EngineOptions(precision="fp32", provider="cpu", threads=thread_count(runner.setup.engine))
    folder = cache_dir() / "benchmarks" / f"static-{checkpoint.content_hash[:12]}"
    found = runner.once("static decoding", lambda: _measure(checkpoint, folder, options, quick=runner.quick))
    rows = tuple(
        (str(speed.fed), speed.way, f"{speed.milliseconds:.1f}", str(speed.runs), f"{speed.ratio:.2f}")
        for speed in found
    )
    table = Table(("tokens fed", "graphs", "ms", "graph runs", "times unrolled"), rows)
    names = list(dict.fromkeys(speed.way for speed in found))
    bars = [plots.Bar(f"{s.way}, {s.fed} tokens", s.milliseconds, colour=names.index(s.way)) for s in found]
    drawing = plots.bars(bars, x_label="time of a decode (ms)", title="static graphs")
    note = (
        f"{checkpoint.name}, fp32, CPU provider, {options.threads} threads, {FRAMES} encoder frames of noise. Medians "
        "of interleaved rounds, all with the same tokens. The paper measures a phone's NPU; this is a processor."
    )
    return Outcome((table,), (Plot(drawing, "Decoding with static graphs"),), note)


def _measure(checkpoint: Checkpoint, folder: Path, options: EngineOptions, *, quick: bool) -> list[Speed]:
    ways, _ = contenders(checkpoint, folder, options)
    rounds = QUICK_ROUNDS if quick else ROUNDS
    return [speed for fed in FED for speed in speeds(ways, fed, list(interleaved(ways, fed, rounds)))]
