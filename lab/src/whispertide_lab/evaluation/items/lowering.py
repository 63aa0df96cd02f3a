"""NPUsper's table 7 (arXiv 2607.01108, appendix D.1): linear layers as matrix products, and as convolutions of 1x1.

The paper's graphs run on an NPU, whose compiler likes convolutions. These are the same graphs on a processor.
"""

import statistics
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from whispertide.model.runtime import GraphSession
from whispertide.tuning.page import Table
from whispertide_lab.evaluation.items.static_decoding import AUDIO_S, FRAMES, Chunked, exactly, workshop
from whispertide_lab.evaluation.paper import Outcome
from whispertide_lab.evaluation.watch import showing
from whispertide_lab.npu.chunks import PLANS
from whispertide_lab.npu.encoder import StaticEncoderGraph
from whispertide_lab.npu.portable import ConvolvedBuilder, PortableBuilder

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner
from whispertide.types import FloatArray

BUILDERS = {"matrix products": PortableBuilder, "convolutions": ConvolvedBuilder}
PUBLISHED = {"encoder": "7.0", "decoder": "12.0", "both": "9.6"}  # per cent less with convolutions
FED = 30
ROUNDS, QUICK_ROUNDS = 15, 3
MADE_BY = (__name__, Chunked.__module__)


def lowering_table(runner: "Runner") -> Outcome:
    """NPUsper, table 7."""
    took = runner.kept("lowering", dict[str, dict[str, float]], partial(_times, runner), *MADE_BY)
    linear, convolved = (took[name] for name in BUILDERS)
    rows = tuple(
        (
            part,
            f"{linear[part]:.1f}",
            f"{convolved[part]:.1f}",
            f"{100 * (1 - convolved[part] / linear[part]):.1f}",
            less,
        )
        for part, less in PUBLISHED.items()
    )
    columns = ("part", *(f"{name} ms" for name in BUILDERS), "less %", "paper: less %")
    note = (
        f"{runner.models[0]}, fp32, CPU provider, {FRAMES} encoder frames, {FED} tokens in unrolled graphs. Medians of "
        "rounds in which both are run in turn. The paper's are of a phone's NPU."
    )
    return Outcome((Table(columns, rows),), note=note)


def _times(runner: "Runner") -> dict[str, dict[str, float]]:
    """Way of writing -> part -> median milliseconds."""
    ways = {name: _opened(runner, name) for name in BUILDERS}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in BUILDERS}
    window = _window(runner.transcriber(runner.models[0]).dims.n_mels)
    rounds = 1 + (QUICK_ROUNDS if runner.quick else ROUNDS)
    with showing(runner.watch, "linear layers as convolutions", rounds * len(ways) * AUDIO_S):
        for number in range(rounds):
            for name, (encoder, decoder) in ways.items():
                began = time.perf_counter()
                encoder.run(["hidden"], window)
                between = time.perf_counter()
                decoder.decode(FED)
                if number:  # the first does not count
                    taken[name].append((between - began, time.perf_counter() - between))
                runner.watch.advance(AUDIO_S)
    return {name: _medians(times) for name, times in taken.items()}


def _medians(times: list[tuple[float, float]]) -> dict[str, float]:
    columns = (*zip(*times, strict=True), [sum(both) for both in times])
    return dict(zip(PUBLISHED, (1000 * statistics.median(column) for column in columns), strict=True))


def _opened(runner: "Runner", name: str) -> tuple[GraphSession, Chunked]:
    """The encoder and the unrolled decoder, written that way."""
    checkpoint, folder, options = exactly(runner, f"lowering-{name.split()[0]}")
    with workshop(checkpoint, folder, options, BUILDERS[name]) as shop:
        encoder = shop.open(StaticEncoderGraph(checkpoint, shop.builder("encoder"), FRAMES), "encoder")
        decoder = Chunked("decoder", shop, PLANS[0])
        return encoder, decoder


def _window(n_mels: int) -> dict[str, FloatArray]:
    """What the encoder gets: noise."""
    mel = np.random.default_rng(3).standard_normal((1, n_mels, 2 * FRAMES)).astype(np.float32)
    return {"mel": mel, "attention_bias": np.zeros((1, 1, 1, FRAMES), np.float32)}
