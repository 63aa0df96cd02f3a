"""NPUsper's table 8 (arXiv 2607.01108, appendix D.3): how many tokens an unrolled chunk should feed.

A real run of `npusper` says how long its decodes are. Which chunks such a decode takes follows from the plan; what they
take is measured with graphs of that plan (`static_decoding`). How late words are comes from a run of `npusper` that
decodes with graphs of each plan, on the simulated clock. The two opening chunks are the paper's.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.cache import cache_path
from whispertide.graphs.store import build_once
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.session import Session
from whispertide.streaming.resources import RoundResources
from whispertide.tuning.page import Table
from whispertide_lab.evaluation import report
from whispertide_lab.evaluation.clock import play
from whispertide_lab.evaluation.items.static_decoding import AUDIO_S, Chunked, exactly, opening_of, timed, workshop
from whispertide_lab.evaluation.paper import Outcome
from whispertide_lab.evaluation.score import aggregate, judge
from whispertide_lab.evaluation.store import Json
from whispertide_lab.evaluation.watch import showing
from whispertide_lab.npu.chunks import MANIFEST, Plan, decoder_name, frames_of, layout_for
from whispertide_lab.npu.engine import StaticEngine
from whispertide_lab.npu.export import build
from whispertide_lab.npu.rounds import ChunkedExecutor

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel
    from whispertide_lab.evaluation.runner import Runner

OPENING: Plan = (4, 6)
SIZES: Mapping[int, Plan] = {3: (*OPENING, *[3] * 6), 5: (*OPENING, *[5] * 4), 7: (*OPENING, *[7] * 3)}
PUBLISHED = {
    3: ("1.994", "0.452", "0.575", "1.827"),
    5: ("1.943", "0.389", "0.510", "1.946"),
    7: ("2.015", "0.356", "0.475", "2.040"),
}
ROUNDS, QUICK_ROUNDS = 9, 3
MADE_BY = (__name__, Chunked.__module__)


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
    most = min(sum(plan) for plan in SIZES.values())
    lengths = [min(len(opening_of(checkpoint)) + count, most) for count in decoded]
    took = runner.kept("chunk sizes", list[float], partial(_times, runner, lengths), *MADE_BY)
    scores = {
        size: runner.kept(f"chunks of {size}", dict[str, Any], partial(score_with, runner, plan), *MADE_BY)
        for size, plan in SIZES.items()
    }
    rows = []
    for (size, plan), milliseconds in zip(SIZES.items(), took, strict=True):
        done = work(plan, lengths)
        counted = (done.runs, done.runs + len(lengths), done.positions)
        shares = (f"{count / emitted:.3f}" for count in counted)
        late = report.latency(scores[size], digits=3)
        rows.append((str(size), late, f"{milliseconds:.1f}", *shares, *PUBLISHED[size]))
    shared = ("graph runs per token", "switches per token", "positions per token")
    columns = ("later chunks", "latency of words s", "decoding ms a round", *shared)
    paper = (f"paper: {column}" for column in ("latency of words s", *shared))
    note = (
        f"{len(lengths)} decodes of `npusper` on {runner.corpus.name}, {emitted} tokens of confirmed text, fp32, CPU "
        f"provider. A decode counts as {most} tokens at most, as many as every plan feeds. The word that is forced in "
        "front is not counted. Switches: a round starts the encoder's graph, then one for each chunk. Times "
        "are medians for each length, taken in turn, averaged over the decodes. Latency: confirmed words of `npusper` "
        "with such graphs, on the simulated clock; words are shown when a round is done, not after each chunk."
    )
    note = " ".join((note, *report.mark_notes(scores.values())))
    return Outcome((Table((*columns, *paper), tuple(rows)),), note=note)


def score_with(runner: "Runner", plan: Plan) -> Json:
    """The corpus's scores, decoding with graphs of that plan."""
    transcriber = runner.transcriber(runner.models[0])
    recipe, engine = get_recipe("npusper").replace(framing="buckets"), opened(transcriber.model, plan)
    executor = ChunkedExecutor(RoundResources(transcriber.model, recipe.framing), engine)
    rows, said = [], list(runner.corpus.utterances())
    label = f"npusper in chunks of {plan[-1]} {runner.corpus.name}"
    with showing(runner.watch, label, sum(utterance.seconds for utterance in said)):
        for utterance in said:
            options = DecodeOptions(language=utterance.language)
            session = Session(recipe, executor, recipe.schedule.gate(), options=options, live=True)
            trace = play(session, utterance.audio(), utterance=utterance.id, dims=transcriber.dims)
            rows.append(judge(utterance, trace))
            runner.watch.advance(utterance.seconds)
    return aggregate(rows, {})


def opened(model: "WhisperModel", plan: Plan) -> StaticEngine:
    """Graphs of a plan, and of the same with room for a forced word; all are opened now, so that no round pays for it.

    Raises `GraphError` where they cannot be built.
    """
    layout = layout_for(model.checkpoint, plans=(plan, (*reversed(OPENING), *plan[len(OPENING) :])))
    folder = cache_path("graphs", f"{model.checkpoint.content_hash[:20]}-fp32-static_export-{layout}-v1")
    build_once(folder, (folder / MANIFEST).is_file, partial(build, model.checkpoint, "fp32", layout=layout))
    engine = StaticEngine(folder, model.checkpoint, model.options)
    for bucket, chunk in product(layout.buckets, layout.chunks):
        engine.session(decoder_name(frames_of(bucket), chunk))
    return engine


def _times(runner: "Runner", lengths: Sequence[int]) -> list[float]:
    """Mean milliseconds of a decode with each plan of `SIZES`."""
    checkpoint, folder, options = exactly(runner, "chunks")
    with workshop(checkpoint, folder, options) as shop:
        ways = [Chunked(f"of-{size}", shop, plan) for size, plan in SIZES.items()]
        rounds, different = QUICK_ROUNDS if runner.quick else ROUNDS, sorted(set(lengths))
        with showing(runner.watch, "chunks of 3, 5 and 7", len(different) * rounds * len(ways) * AUDIO_S):
            took = {length: timed(runner.watch, ways, length, rounds) for length in different}
    return [
        statistics.mean(1000 * statistics.median(times[way.name] for times in took[length]) for length in lengths)
        for way in ways
    ]
