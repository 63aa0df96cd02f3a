"""WhisperFlow's tables and figures, one function per item; those of paddings and of divided cores are in other files.

Each takes a `Runner`, which measures and remembers cells, and gives an `Outcome`. Where a paper's own definition
flatters itself (truncated timers, truncated texts) ours is used instead.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from whispertide.errors import OptionError
from whispertide.tuning.drawing import Curve
from whispertide.tuning.page import Table
from whispertide_lab.evaluation import charts, plots, report
from whispertide_lab.evaluation.bootstrap import MANY, UNITS, latencies, times
from whispertide_lab.evaluation.marks import latency_marks
from whispertide_lab.evaluation.paper import Outcome, Plot

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner
    from whispertide_lab.evaluation.store import Cell

BASELINE, SYSTEM = "whisper-streaming", "whisperflow"
# As fast as it can be. A fixed step takes all that has arrived when a round is done, so best effort would be the same
# rounds (`streaming.schedule`), and the cells are those of figure 8.
BEST_EFFORT = ("step_s=0.1",)
# WhisperFlow, figure 10: each adds to the one before
ABLATION = (
    ("baseline, best effort", ()),
    ("+ hush word", ("framing=hush",)),
    ("+ beam pruning", ("search=pruned", "align=first", "recover=false", "follows=shown")),
    # ours, not the paper's
    ("+ place found by time", ("align=time", "recover=true", "follows=heard")),
    ("+ what breaks off waits", ("reread=false",)),
    ("+ unlikely words wait", ("least_probability=0.8", "settle_s=0.6")),
    ("+ two workers", ("executor=pipelined",)),
)
BEAM_STEPS = (0.5, 0.75, 1.0)  # WhisperFlow, table 4
BEAM_WAYS = (  # the paper's first, ours after it; all end in a hush word
    ("framing=hush", "search=pruned", "align=first", "recover=false", "follows=shown"),
    ("framing=hush", "search=pruned", "align=time"),
    ("framing=hush", "search=verified"),
)
BEAMS = (("1", ("search=greedy",)), ("5", ("search=beam", "beam=5")))  # WhisperFlow, table 2
STEPS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # WhisperFlow, figure 8
QUICK_STEPS = (0.5, 1.0, 2.0)
_BIN_S = 5.0
_MODEL: report.Named = {"model": lambda cell: cell.spec.model}


# --- WhisperFlow, the baseline's share -----------------------------------------------------------------------------


def stage_table(runner: "Runner") -> Outcome:
    """WhisperFlow, table 2: what each stage of a round takes on this machine's processor, by beam."""
    rows = []
    for model in runner.models:
        for beam, settings in BEAMS:
            cell = runner.cell(BASELINE, *settings, model=model)
            rounds = [cost for trace in cell.traces() for cost in trace.rounds]
            if not rounds:
                continue
            stages = ([c.encoder_s for c in rounds], [c.decode_s for c in rounds], [c.align_s for c in rounds])
            means = (f"{1000 * float(np.mean(stage)):.0f}" for stage in stages)
            rows.append((model, beam, *means, str(len(rounds))))
    columns = ("model", "beam", "encode ms", "decode ms", "word times ms", "rounds")
    return Outcome(tables=(Table(columns, tuple(rows)),), note="Means over the rounds of the baseline, on the CPU.")


def beam_table(runner: "Runner") -> Outcome:
    """WhisperFlow, table 4: the beam as it is pruned in the paper, with re-alignment, and with checks in blocks."""
    cells = [
        runner.cell(BASELINE, *way, model=model, step_s=step)
        for model in runner.models
        for step in BEAM_STEPS
        for way in BEAM_WAYS
    ]
    columns = [
        column for column in (*report.QUALITY, *report.LATENCY, *report.COST) if column.key in _BEAM_TABLE_COLUMNS
    ]
    return Outcome(
        tables=(report.cells_table(cells, columns, more=_MODEL),),
        note=" ".join(report.mark_notes(cell.score for cell in cells)),
    )


_BEAM_TABLE_COLUMNS = ("wer", "confirmed_mean_s", "decoder_runs_per_s", "cpu_s_per_s", "avg_beam", "reduce_ratio")


def model_figure(runner: "Runner") -> Outcome:
    """WhisperFlow, figure 7: latency by model and executor; baseline and system are both as fast as they can be."""
    cells = [
        runner.cell(recipe, *BEST_EFFORT, f"executor={executor}", model=model)
        for model in runner.models
        for recipe in (BASELINE, SYSTEM)
        for executor in ("serial", "pipelined")
    ]
    return _latencies(cells, "Confirmed latency by model and executor", [cell.spec.label for cell in cells], 4)


def step_figure(runner: "Runner") -> Outcome:
    """WhisperFlow, figure 8: latency against WER over steps, with one worker and with two, offline WER as a line."""
    steps = QUICK_STEPS if runner.quick else STEPS
    systems = ((BASELINE, ()), (SYSTEM, ()), (SYSTEM, ("executor=pipelined",)))
    rounds = [(recipe, settings, step) for recipe, settings in systems for step in steps]
    by_model = {
        model: [runner.cell(recipe, *settings, step_s=step, model=model) for recipe, settings, step in rounds]
        for model in runner.models
    }
    cells = [cell for found in by_model.values() for cell in found]
    caption = "Latency against word error rate"
    return Outcome(
        tables=(report.cells_table(cells, (*report.QUALITY, *report.LATENCY), more=_MODEL),),
        note=" ".join(report.mark_notes(cell.score for cell in cells)),
        plots=tuple(
            Plot(charts.trade_off_plot(found), f"{caption}: {Path(model).name}", "Each point is one step.")
            for model, found in by_model.items()
        ),
    )


def ablation_figure(runner: "Runner") -> Outcome:
    """WhisperFlow, figure 10: each part added to those before, all with best effort; both ways to wait are our own."""
    parts = [settings for _, settings in ABLATION]
    cells = [
        runner.cell(BASELINE, *BEST_EFFORT, *(setting for part in parts[: count + 1] for setting in part), model=model)
        for model in runner.models
        for count in range(len(parts))
    ]
    names = [name for _ in runner.models for name, _ in ABLATION]
    return _latencies(cells, "Confirmed latency as parts are added", names, len(parts))


def _latencies(cells: "Sequence[Cell]", caption: str, names: Sequence[str], of_a_model: int) -> Outcome:
    """A bar for each cell that has a latency, with its model's name and its own, and a table of all; next to the first
    of the `of_a_model` cells of its model, how many times sooner it is.
    """
    items = [
        plots.Bar(
            f"{Path(cell.spec.model).name}: {name}{latency_marks(cell.score)}",
            float(cell.score["confirmed_mean_s"]),
        )
        for name, cell in zip(names, cells, strict=True)
        if _is_late(cell)
    ]
    drawing = plots.bars(items, x_label="confirmed latency, mean (s)", title=caption)
    table = report.cells_table(cells, (*report.QUALITY, *report.LATENCY, *report.COST), more=_MODEL)
    sooner = [
        (Path(cell.spec.model).name, name, *_times_sooner(cells[place - place % of_a_model], cell))
        for place, (name, cell) in enumerate(zip(names, cells, strict=True))
        if place % of_a_model
    ]
    columns = ("model", "", "times sooner than the first", "95 % interval")
    note = (
        f"Intervals are over {UNITS}.",
        *report.mark_notes(cell.score for cell in cells),
        report.CLOCKS.get(cells[0].spec.clock, report.CLOCKS[report.TIMED]),
    )
    return Outcome((table, Table(columns, tuple(sooner))), (Plot(drawing, caption),), " ".join(note))


def _times_sooner(first: "Cell", cell: "Cell") -> tuple[str, str]:
    """How many times the latency of `cell` that of `first` is, and its interval, if both have latencies."""
    late = latencies(cell.utterances)
    try:
        found, low, high = times(latencies(first.utterances), late)
    except OptionError:  # nothing matched, or no word times
        return "–", "–"
    few = f" (only {len(late)}: too narrow)" if len(late) < MANY else ""
    return f"{found:.2f}", f"{low:.2f} to {high:.2f}{few}"


def load_figure(runner: "Runner") -> Outcome:
    """WhisperFlow, figure 9: processor time over the recording, in place of power."""
    curves = [load_curve(runner.cell(recipe)) for recipe in (BASELINE, SYSTEM)]
    drawing = plots.over_time(curves, y_label="processor time (% of one core)", title="load over time")
    return Outcome(
        plots=(Plot(drawing, "Processor time over audio time", "Not power: this machine has no meter we read."),)
    )


def load_curve(cell: "Cell") -> Curve:
    """Processor time over the cell's longest recording, in per cent of a core."""
    trace = max(cell.traces(), key=lambda trace: trace.audio_s, default=None)
    if trace is None or not trace.rounds:
        raise OptionError("expected a record with rounds; got none: run it again")
    if any(cost.cpu_s is None for cost in trace.rounds):
        raise OptionError(
            f"expected the processor time of each round; the record of {cell.spec.label} in {cell.folder} has none (it "
            "is from an earlier version, or its rounds overlapped): remove it and run it again"
        )
    count = int(trace.audio_s // _BIN_S) + 1
    busy = np.zeros(count)
    for cost in trace.rounds:
        busy[min(int(cost.start_s // _BIN_S), count - 1)] += cost.cpu_s or 0.0
    places = tuple(_BIN_S * (n + 0.5) for n in range(count))
    return Curve(cell.spec.label, places, tuple(float(b) for b in 100 * busy / _BIN_S))


def _is_late(cell: "Cell") -> bool:
    return cell.score.get("confirmed_mean_s") is not None
