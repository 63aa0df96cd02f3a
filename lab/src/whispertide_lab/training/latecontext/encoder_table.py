"""Pilot inference's table 3 (arXiv 2311.17065, section 7.3): what encoders of equal size do while somebody speaks, and
how long they take after the end of speech.

Both depend on the shape of a network and not on its weights, so these are random. Errors and the whole wait need
trained networks: they are of those folders among the models of the run that hold one. Needs the extra train, and says
so where it is missing.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from whispertide.errors import OptionError
from whispertide.extras import require
from whispertide.model.providers import thread_count
from whispertide.tuning.page import Table
from whispertide.types import SAMPLE_RATE
from whispertide.understand.checkpoint import SAMPLES_PER_FRAME, LateDims, is_late, load_late
from whispertide_lab.evaluation import report
from whispertide_lab.evaluation.items.pilot import watched
from whispertide_lab.evaluation.paper import Outcome
from whispertide_lab.training.latecontext.pilot_items import USUAL, by_ways, commands_of, utterance_of
from whispertide_lab.training.latecontext.understood import BASE

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner
    from whispertide_lab.training.latecontext.network import LateNetwork
    from whispertide_lab.training.latecontext.transducer import Transducer

SIZE = 30_000_000  # weights, as in the paper
SECONDS = 2.6  # SLURP's commands in the mean
ROUNDS, WARM_UP = 15, 3
_WAYS = (BASE, USUAL)
NETWORKS = {
    "late": LateDims(convolving=6, attending=3),
    "late, two attend": LateDims(convolving=7, attending=2),
    "late, one attends": LateDims(convolving=8, attending=1),
    "conformer": LateDims(kind="conformer", convolving=6, attending=3),
    "branchformer": LateDims(kind="branchformer", convolving=6, attending=3),
    "CNN with RNN-T": LateDims(kind="rnnt", convolving=6, attending=3),
}
PUBLISHED_WAITING = {"late": "8", "conformer": "67", "branchformer": "38", "CNN with RNN-T": "0"}


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoder: its network's weights, GFLOP for a second of speech, the share of them while it is spoken, seconds
    after its end.
    """

    weights: int
    gflop: float
    share: float
    wait_s: float


def encoding_table(runner: "Runner") -> Outcome:
    """Pilot inference, table 3: encoders of its kinds, and errors and waits of the networks among the models."""
    try:
        require("train", "the networks of pilot inference's table 3")
    except OptionError as missing:
        return Outcome(note=f"Not made here: {missing}.")
    threads = thread_count(runner.setup.engine)
    found = {name: encoding(same_size(dims, SIZE), SECONDS, threads) for name, dims in NETWORKS.items()}
    late = found["late"]
    rows = tuple(
        (
            name,
            f"{one.weights / 1e6:.1f}",
            f"{one.gflop:.2f}",
            f"{100 * (1 - one.share):.1f}",
            f"{1000 * one.wait_s:.1f}",
            f"{one.wait_s / SECONDS:.4f}",
            f"{one.wait_s / late.wait_s:.2f}",
            PUBLISHED_WAITING.get(name, "–"),
        )
        for name, one in found.items()
    )
    columns = ("network", "million weights", "GFLOP/s", "after the end %", "encoding after the end ms", "of real time")
    note = (
        f"Nine layers of random weights, {SECONDS:g} s of speech, float32 in torch, {threads} "
        f"thread{'s' if threads > 1 else ''}, median of {ROUNDS}. Work after the end is what needs audio that comes "
        "later: convolutions of ours look back only, the subsampling is one-dimensional, and an encoder whose first "
        "layer attends has nothing but the subsampling to do before. The paper: encoding after the end 3.6 to 5.4 "
        "times faster than Conformer and Branchformer."
    )
    shapes = Table((*columns, "times late", "paper: after the end %"), rows)
    trained = [model for model in runner.models if is_late(Path(model))]
    return Outcome((shapes, _errors_table(runner, trained)) if trained else (shapes,), note=note)


def _errors_table(runner: "Runner", models: Sequence[str]) -> Table:
    """What trained networks hear, as wholes, what their encoders leave for the end, and how long one waits."""
    from whispertide_lab.training.latecontext.accuracy import Listener

    said, threads, rows = commands_of(runner), thread_count(runner.setup.engine), []
    for model in models:
        network = load_late(Path(model))
        listener, ends = Listener(network), encoding(network.dims, SECONDS, threads)
        found = [listener.hear(utterance_of(one)) for one in watched(runner, model, said)]
        wrong = sum(one.errors for one in found) / sum(one.words for one in found)
        rows.append(
            (
                Path(model).name,
                network.dims.kind,
                f"{ends.weights / 1e6:.2f}",
                str(network.report.get("updates", "")),
                report.percent(wrong),
                f"{100 * mean(one.right for one in found):.1f}",
                f"{100 * (1 - ends.share):.1f}",
                f"{1000 * ends.wait_s:.2f}",
                *_waits(runner, model, network.dims),
            )
        )
    columns = ("network", "kind", "million weights", "updates", "WER %", "intents right %", "after the end %")
    waits = (f"{name}: {what}" for name in _WAYS for what in ("wait, mean ms", "of real time"))
    return Table(
        (*columns, "encoding after the end ms", *waits), tuple(rows), f"Trained networks, {len(said)} commands"
    )


def _waits(runner: "Runner", model: str, dims: LateDims) -> tuple[str, ...]:
    """From the end of speech to the text, without pilots and with them; an RNN-T has no search that could be asked."""
    if dims.kind == "rnnt":
        return 2 * len(_WAYS) * ("–",)
    found = by_ways(runner, _WAYS, model).values()
    return tuple(text for way in found for text in (f"{1000 * way.wait_mean_s:.1f}", f"{way.delay:.4f}"))


@cache
def same_size(dims: LateDims, size: int) -> LateDims:
    """That network as wide as it takes to have about `size` weights."""
    low, high = 1, 512  # of eight channels
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _weights(_wide(dims, middle)) <= size else (low, middle)
    return _wide(dims, low)


def _wide(dims: LateDims, eights: int) -> LateDims:
    return replace(dims, width=8 * eights, inner=32 * eights)


@cache
def _weights(dims: LateDims) -> int:
    import torch

    from whispertide_lab.training.latecontext.network import parameter_count

    with torch.device("meta"):
        return parameter_count(_network(dims).parameters())


def _network(dims: LateDims) -> "LateNetwork | Transducer":
    from whispertide_lab.training.latecontext.run import make_network

    network: LateNetwork | Transducer = make_network(dims, dropout=0.0).eval()
    return network


def encoding(dims: LateDims, seconds: float, threads: int) -> Encoding:
    """What an encoder of this shape, of random weights, takes for so many seconds of speech."""
    import torch

    from whispertide_lab.training.device import on_threads
    from whispertide_lab.training.latecontext.network import parameter_count
    from whispertide_lab.training.latecontext.work import encoder_work

    torch.manual_seed(0)
    network, work = _network(dims), encoder_work(dims, seconds)
    count = round(seconds * SAMPLE_RATE / SAMPLES_PER_FRAME)
    with torch.inference_mode(), on_threads(threads):
        frames = network.encoder.ingested(torch.randn(1, dims.n_mels, 4 * count))
        wait_s = _seconds(lambda: network.encoder.contextualised(frames, None))
    gflop = 2e-9 * (work.ingested + work.waiting)
    return Encoding(parameter_count(network.parameters()), gflop, work.share, wait_s)


def _seconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(WARM_UP + ROUNDS):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return median(taken[WARM_UP:])
