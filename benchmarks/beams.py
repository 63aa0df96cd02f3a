"""How much cheaper a round is decoded that follows what the round before it heard: `python benchmarks/beams.py`.

The rounds are those of the recipe `whisperflow` on a stream of synthetic talks, recorded once. Each is then decoded by
every way in turn, the encoder's output being the same: the full beam, the beam pruned as WhisperFlow publishes it,
re-aligning, and what was heard checked as one block (docs/internals/agreement.md). Prints, per way, the median time of
decoding with word times, decoder runs, and how many times cheaper than the full beam it is within the same round, with
word times and without; then one JSON line. Needs the laboratory.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whispertide.decoding.draft import Reference
from whispertide.model.whisper import load_model
from whispertide.options import EngineOptions
from whispertide.recipes.assembly import make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.stages import SerialExecutor
from whispertide.tuning.profile import RecordedRound, record_rounds
from whispertide.types import SAMPLE_RATE
from whispertide_lab.speech.talks import open_talks
from whispertide_lab.speech.utterance import Beginnings

# How what was heard is used, and how many beams there are.
WAYS: dict[str, tuple[Reference | None, int]] = {
    "beam 5": (None, 5),
    "greedy": (None, 1),
    "pruned, first match": (Reference(align="first", recover=False), 5),
    "pruned, by time": (Reference(align="time"), 5),
    "pruned, bigram": (Reference(), 5),
    "verified": (Reference(block=True), 5),
    "verified, greedy": (Reference(block=True), 1),
}
BASE = "beam 5"


def following(plan: RoundPlan, how: Reference | None) -> RoundPlan:
    """The same round, and how it follows what was heard."""
    known = plan.reference
    if how is None or known is None:
        return replace(plan, reference=None)
    return replace(plan, reference=replace(known, align=how.align, recover=how.recover, block=how.block))


@dataclass(frozen=True, slots=True)
class Taken:
    """What one way to decode one round took: seconds in all, and of the decoder's runs without those for word times."""

    whole_s: float
    decode_s: float
    runs: int


def timed(executor: SerialExecutor, item: RecordedRound) -> dict[str, Taken]:
    """Every way to decode one round. The first decode after encoding meets cold caches, so one comes before that does
    not count.
    """
    opening = executor.encode(item.plan, item.audio)
    found = {}
    for name in (BASE, *WAYS):
        how, beam = WAYS[name]
        plan, options = following(item.plan, how), replace(item.options, beam=beam)
        began = time.perf_counter()
        result = executor.decode(plan, opening, options)
        stats = result.stats
        found[name] = Taken(time.perf_counter() - began, stats.decode_s, stats.decoder_runs)
    return found


def summary(rounds: Sequence[dict[str, Taken]]) -> dict[str, dict[str, float]]:
    """Per way: median milliseconds, mean runs, and the medians of its ratios to the full beam within a round."""
    return {
        name: {
            "ms": 1e3 * statistics.median(taken[name].whole_s for taken in rounds),
            "runs": statistics.mean(taken[name].runs for taken in rounds),
            "times_cheaper": statistics.median(taken[BASE].whole_s / taken[name].whole_s for taken in rounds),
            "decoder_times_cheaper": statistics.median(taken[BASE].decode_s / taken[name].decode_s for taken in rounds),
        }
        for name in WAYS
    }


def main() -> None:
    """Record, decode, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano.en", help="a checkpoint; widened ones are made by `train widen`")
    parser.add_argument("--framing", default="hush", help="hush, bare or pad30")
    parser.add_argument("--step", type=float, default=0.25, metavar="S", help="seconds between rounds")
    parser.add_argument("--seconds", type=float, default=60.0, help="of talks")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    model = load_model(arguments.model, EngineOptions("int8", "auto", arguments.threads))
    recipe = get_recipe("whisperflow").replace(search="verified", framing=arguments.framing, step_s=arguments.step)
    executor: Any = make_executor(model, recipe)
    length = round(arguments.seconds * SAMPLE_RATE)
    talks = open_talks(beginnings=Beginnings(1, length))
    audio = np.concatenate([utterance.audio() for utterance in talks.utterances()])[:length]
    recorded = record_rounds(executor, recipe, audio, most_s=float("inf"))
    rounds = [timed(executor, item) for item in recorded if item.plan.reference and item.plan.reference.words]
    figures = summary(rounds)
    print(f"{model.name}, int8, {arguments.threads} threads, {arguments.framing}, {len(rounds)} rounds that follow one")
    for name, figure in figures.items():
        whole, decoder = figure["times_cheaper"], figure["decoder_times_cheaper"]
        print(
            f"{name:20} {figure['ms']:8.1f} ms {figure['runs']:6.1f} runs {whole:6.2f} times cheaper, "
            f"{decoder:6.2f} without word times"
        )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
