"""Drafts that are verified (docs/internals/agreement.md): `python benchmarks/drafter.py rounds`, `shapes --out DIR`.

`rounds`: those of a recipe on a stream of synthetic talks, recorded once; then each is decoded in every way, the
encoder's output being the same. Tokens per decoder run (end of text is one; greedy gives 1), processor milliseconds per
token, how many times cheaper than greedy search that is, and the share of rounds whose text is greedy's. Needs
the laboratory.

`shapes`: one decoder run of so many tokens at true shapes with random weights, with 50, 200 and 448 positions, and a
drafter of that shape; what follows for the speed-up where so many tokens are accepted. Processor milliseconds, medians.

A table, then a JSON line.
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from random_checkpoint import TURBO, random_checkpoint

from whispertide.decoding.draft import Drafter
from whispertide.decoding.ngrams import Ngrams
from whispertide.decoding.recurrent import Cell, CellWeights, Recurrent
from whispertide.model.engine import DecodeRequest, Encoded
from whispertide.model.runtime import in_runtime
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import PRECISIONS, EngineOptions
from whispertide.recipes.assembly import make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.streaming.stages import SerialExecutor
from whispertide.tuning.profile import RecordedRound, record_rounds
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.speech.talks import open_talks
from whispertide_lab.speech.utterance import Beginnings

SIZES = (1, 2, 3, 5, 9, 17)  # tokens in a run
KNOWN, STATE = 4096, 160  # of a drafter
ACCEPTED = (1.5, 2.0, 2.5, 3.0)
FRAMES = 1500


# --- rounds -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """How rounds are decoded: who drafts, and whether what the round before heard goes first."""

    drafter: Drafter | None = None
    earlier: bool = False


def ways(cell: Cell | None) -> dict[str, Way]:
    """All that are compared; those of the network where there is one."""
    found = {
        "greedy": Way(),
        "earlier round": Way(earlier=True),
        "n-grams, 1 x 4": Way(Ngrams(1, 4)),
        "n-grams, 4 x 4": Way(Ngrams(4, 4)),
    }
    if cell is not None:
        thrifty = Recurrent(cell)
        found |= {
            "recurrent, 1 x 4, all": Way(Recurrent(cell, 1, 4, 0.0)),
            "recurrent, 4 x 4, all": Way(Recurrent(cell, 4, 4, 0.0)),
            "recurrent, 4 x 4": Way(thrifty),
            "recurrent, 1 x 4, sure": Way(Recurrent(cell, 1, 4, 0.3)),
            "earlier, recurrent": Way(thrifty, earlier=True),
        }
    return found


def decode(executor: SerialExecutor, item: RecordedRound, by: dict[str, Way]) -> dict[str, tuple[float, int, int, Any]]:
    """Every way to decode one round: processor seconds, runs, tokens and what was heard.

    The first decode after encoding meets cold caches, so one comes before that does not count.
    """
    opening = executor.encode(item.plan, item.audio)
    found = {}
    for name in (next(iter(by)), *by):
        way = by[name]
        executor.equipment.drafter = way.drafter
        plan = item.plan if way.earlier else replace(item.plan, reference=None)
        began = time.process_time()
        result: Any = executor.decode(plan, opening, replace(item.options, beam=1, temperatures=(0.0,)))
        spent = time.process_time() - began
        found[name] = (spent, result.stats.decoder_runs, result.stats.tokens, result.heard.tokens)
    return found


def rounds(arguments: argparse.Namespace) -> None:
    """Record, decode, print."""
    options = EngineOptions(arguments.precision, "auto", 1)
    model = load_model(arguments.model, options)
    cell = None
    if arguments.drafter is not None:
        cell = Cell.of(model.checkpoint, CellWeights.load(arguments.drafter, model.checkpoint))
    by = ways(cell)
    recipe = get_recipe(arguments.recipe).replace(search="verified")
    recipe = recipe.replace(beam=1, framing="bare" if recipe.framing.kind == "auto" else recipe.framing)
    executor: Any = make_executor(model, recipe)
    length = round(arguments.seconds * SAMPLE_RATE)
    talks = open_talks(beginnings=Beginnings(2, length))
    audio = np.concatenate([utterance.audio() for utterance in talks.utterances()])[:length]
    taken = [decode(executor, item, by) for item in record_rounds(executor, recipe, audio, most_s=float("inf"))]
    figures = {}
    for name in by:
        spent, runs, tokens = (sum(one[name][place] for one in taken) for place in range(3))
        same = statistics.mean(one[name][3] == one["greedy"][3] for one in taken)
        gained = (tokens + len(taken)) / runs
        figures[name] = {"tokens_per_run": gained, "ms_per_token": 1e3 * spent / max(tokens, 1), "same": same}
    print(f"{model.name}, {arguments.precision}, 1 thread, {arguments.recipe}, {len(taken)} rounds")
    print("way                       tokens/run   ms/token   times cheaper   same text")
    for name, row in figures.items():
        row["times_cheaper"] = figures["greedy"]["ms_per_token"] / row["ms_per_token"]
        print(
            f"{name:25} {row['tokens_per_run']:10.2f} {row['ms_per_token']:10.2f} {row['times_cheaper']:15.2f} "
            f"{100 * row['same']:9.1f} %"
        )
    print(json.dumps({"recipe": arguments.recipe, "ways": figures}))


# --- shapes -----------------------------------------------------------------------------------------------------------


def spent_ms(model: WhisperModel, encoded: Encoded, cached: int, repeats: int) -> dict[int, float]:
    """Processor milliseconds of a run by the number of its tokens, up to so many positions."""
    rng = np.random.default_rng(0)
    state: Any = model.decoder(encoded)
    state.run(DecodeRequest(rng.integers(0, 50_000, (1, cached - max(SIZES))), (0,)))
    before, times = state.cache, {size: list[float]() for size in SIZES}
    for _ in range(repeats):
        for size, spent in times.items():
            state.cache = before
            request = DecodeRequest(rng.integers(0, 50_000, (1, size)), tuple(range(size)), hidden=True)
            began = time.process_time()
            state.run(request)
            spent.append(1e3 * (time.process_time() - began))
    return {size: statistics.median(spent) for size, spent in times.items()}


def random_cell(width: int) -> Cell:
    """A drafter for a decoder of that width; its speed does not depend on the values."""
    rng = np.random.default_rng(0)

    def array(*shape: int) -> FloatArray:
        return (0.1 * rng.standard_normal(shape)).astype(np.float32)

    matrices = (array(width, STATE), array(width, 3 * STATE), array(STATE, 3 * STATE), array(2, 3 * STATE))
    weights = CellWeights(np.arange(KNOWN), *matrices, array(width, STATE), array(STATE), array(KNOWN + 1))
    return Cell(weights, array(KNOWN, width))


def drafting_ms(width: int, drafts: int, repeats: int) -> float:
    """Processor milliseconds of drafting so many drafts of four tokens."""
    how, hidden, times = Recurrent(random_cell(width), drafts, 4, 0.0), np.ones(width, np.float32), []
    for _ in range(repeats):
        began = time.process_time()
        how.tree(5, hidden)
        times.append(1e3 * (time.process_time() - began))
    return statistics.median(times)


def shape(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """All of one shape, printed."""
    folder = random_checkpoint(arguments.out / name.replace(", ", "-"), name)
    model = load_model(str(folder), EngineOptions(arguments.precision, "auto", arguments.threads))
    dims, rng = model.dims, np.random.default_rng(0)
    heads = dims.n_text_head

    def windows(*size: int) -> tuple[FloatArray, ...]:
        return tuple(rng.standard_normal((1, heads, *size)).astype(np.float32) for _ in range(dims.n_text_layer))

    encoded = in_runtime(Encoded(windows(64, FRAMES), windows(FRAMES, 64), FRAMES, FRAMES))
    drafting = {drafts: drafting_ms(dims.n_text_state, drafts, 50) for drafts in (1, 4)}
    print(f"{name}, {arguments.precision}, {arguments.threads} threads; drafting 1 x 4: {drafting[1]:.2f} ms, ", end="")
    print(f"4 x 4: {drafting[4]:.2f} ms")
    print("cached  " + "".join(f"{size:8}" for size in SIZES) + "   tokens in a run, ms")
    found: dict[str, Any] = {"drafting": drafting, "runs": {}}
    for cached in (50, 200, 448):
        runs = found["runs"][cached] = spent_ms(model, encoded, cached, arguments.repeats)
        print(f"{cached:6}  " + "".join(f"{runs[size]:8.2f}" for size in SIZES))
        for drafts, size in ((1, 5), (4, 17)):
            whole = runs[size] + drafting[drafts]
            gains = ", ".join(f"{count:g}: {count * runs[1] / whole:.2f}" for count in ACCEPTED)
            print(f"        {drafts} x 4: breaks even at {whole / runs[1]:.2f} tokens per run; times faster at {gains}")
    return found


def shapes(arguments: argparse.Namespace) -> None:
    """Both shapes."""
    found = {name: shape(arguments, name) for name in ("base.en", TURBO)}
    print(json.dumps({"precision": arguments.precision, "threads": arguments.threads, "shapes": found}))


def main() -> None:
    """Whatever is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, command in (("rounds", rounds), ("shapes", shapes)):
        sub = commands.add_parser(name)
        sub.set_defaults(command=command)
        sub.add_argument("--precision", default="int8", choices=PRECISIONS)
        if name == "rounds":
            sub.add_argument("--model", default="nano.en")
            sub.add_argument("--drafter", type=Path, help="a trained one; without it the network is left out")
            sub.add_argument("--recipe", default="tide")
            sub.add_argument("--seconds", type=float, default=120.0, help="of talks")
        else:
            sub.add_argument("--out", type=Path, required=True, help="folder for the checkpoints")
            sub.add_argument("--threads", type=int, default=1)
            sub.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    arguments.command(arguments)


if __name__ == "__main__":
    main()
