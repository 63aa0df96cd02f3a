"""NPUsper's table 8 (arXiv 2607.01108, appendix D.3): how many tokens an unrolled chunk should feed.

A real run of `npusper` says how long its decodes are. Which chunks such a decode takes follows from the plan; what they
take is measured with graphs of that plan (`static_decoding`). The two opening chunks are the paper's.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whispertide.checkpoint import load_checkpoint
from whispertide.graphs.chunks import Plan
from whispertide.lab.evaluation.page import Table
from whispertide.lab.evaluation.paper import Outcome
from whispertide.lab.evaluation.static_decoding import Chunked, exactly, interleaved, opening_of, workshop

if TYPE_CHECKING:
    from whispertide.lab.evaluation.runner import Runner

OPENING: Plan = (4, 6)
SIZES: Mapping[int, Plan] = {3: (*OPENING, *[3] * 6), 5: (*OPENING, *[5] * 4), 7: (*OPENING, *[7] * 3)}
PUBLISHED = {3: ("1.994", "0.452", "1.827"), 5: ("1.943", "0.389", "1.946"), 7: ("2.015", "0.356", "2.040")}
ROUNDS, QUICK_ROUNDS = 9, 3


@dataclass(frozen=True, slots=True)
class Work:
    """What decodes of some lengths take with one plan: graph runs, and positions that were computed."""

    runs: int
    positions: int


def work(plan: Plan, lengths: Sequence[int]) -> Work:
    """Of decodes that feed so many tokens each; a plan runs chunk after chunk until all are fed."""
    runs = positions = 0
    for fed in lengths:
        done = 0
        for chunk in plan:
            if done >= fed:
                break
            done += chunk
            runs += 1
        positions += done
    return Work(runs, positions)


def chunk_table(runner: "Runner") -> Outcome:
    """NPUsper, table 8."""
    checkpoint = load_checkpoint(runner.models[0])
    cell = runner.cell("npusper")
    decoded = [cost.tokens for trace in cell.traces() for cost in trace.rounds if cost.search_runs]
    emitted = sum(len(checkpoint.tokenizer.encode(text)) for trace in cell.traces() if (text := "".join(trace.words)))
    lengths = [len(opening_of(checkpoint)) + count for count in decoded]
    held = [length for length in lengths if length <= min(sum(plan) for plan in SIZES.values())]
    took = runner.once("chunk sizes", lambda: _times(runner, held))
    rows = []
    for size, plan in SIZES.items():
        done = work(plan, held)
        counted = (f"{done.runs / emitted:.3f}", f"{done.positions / emitted:.3f}")
        rows.append((str(size), f"{took[size]:.1f}", *counted, *PUBLISHED[size]))
    columns = ("later chunks", "decoding ms a round", "graph runs per token", "positions per token")
    paper = ("paper: latency of words s", "paper: graph runs per token", "paper: positions per token")
    note = (
        f"{len(held)} decodes of `npusper` on {runner.corpus.name}, {emitted} tokens of confirmed text, fp32, CPU "
        f"provider. {len(lengths) - len(held)} decodes were longer than every plan and are left out. The word that is "
        "forced in front is not counted. Times are medians for each length, taken in turn, averaged over the decodes."
    )
    return Outcome((Table((*columns, *paper), tuple(rows)),), note=note)


def _times(runner: "Runner", lengths: Sequence[int]) -> dict[int, float]:
    """Size of the later chunks -> mean milliseconds of a decode."""
    checkpoint, folder, options = exactly(runner, "chunks")
    with workshop(checkpoint, folder, options) as shop:
        ways = {size: Chunked(f"of-{size}", shop, plan) for size, plan in SIZES.items()}
        shop.flush()
        rounds = QUICK_ROUNDS if runner.quick else ROUNDS
        took = {length: list(interleaved(list(ways.values()), length, rounds)) for length in sorted(set(lengths))}
    return {
        size: statistics.mean(1000 * statistics.median(times[way.name] for times in took[length]) for length in lengths)
        for size, way in ways.items()
    }
