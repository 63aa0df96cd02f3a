"""The plots of a report: cells of one group -> figures for its page. Tables are `report`'s affair, drawing `plots`'."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from whispertide.tuning import page
from whispertide.tuning.drawing import SERIES, Curve, Drawing, Line, scatter
from whispertide_lab.evaluation import plots
from whispertide_lab.evaluation.bootstrap import MANY, UNITS, figure_interval
from whispertide_lab.evaluation.grid import PEER
from whispertide_lab.evaluation.marks import latency_marks, marks_in_short
from whispertide_lab.evaluation.revisions import revisions
from whispertide_lab.evaluation.store import Cell
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.evaluation.views import look
from whispertide_lab.evaluation.waits import parts_in

MANY_CURVES = SERIES  # more than these are hard to tell apart: then one of each recogniser is enough
_POINTS = 60  # of a curve over time


def charts(cells: Sequence[Cell]) -> list[str]:
    """All that there is to draw of a group; each chart is an empty text where there is nothing."""
    drawn = [trade_off(cells)]
    drawn += [_distribution(cells, *about) for about in _DISTRIBUTIONS]
    drawn += [_waits(cells)]
    drawn += [_ablation(cells, *about) for about in _ABLATIONS]
    drawn += [_over_time(cells, *about) for about in _TIMES]
    return [chart for chart in drawn if chart]


def label(cell: Cell, others: Sequence[Cell] = ()) -> str:
    """Recogniser and changes; the step too, where others differ only in that."""
    same = {other.spec.step_s for other in others if other.spec.label == cell.spec.label}
    return f"{cell.spec.label} {cell.spec.step}" if len(same) > 1 else cell.spec.label


def _late_label(cell: Cell, others: Sequence[Cell] = ()) -> str:
    """The same for a latency, with its marks."""
    return label(cell, others) + latency_marks(cell.score)


def trade_off(cells: Sequence[Cell]) -> str:
    """Latency against WER, a curve per recogniser, a point per step."""
    if not _placed(cells):
        return ""
    note = "Each point is one step; down and to the left is better; a hollow one has a latency that is not reliable."
    return page.figure(trade_off_plot(cells), "Latency against word error rate", note)


def trade_off_plot(cells: Sequence[Cell]) -> Drawing:
    """The plot alone; offline WER is a line across it."""
    curves: dict[str, list[Cell]] = {}
    for cell in _placed(cells):
        curves.setdefault(cell.spec.label, []).append(cell)
    drawn = [
        Curve(
            name,
            tuple(float(cell.score["confirmed_mean_s"]) for cell in members),
            tuple(100 * float(cell.score["wer"]) for cell in members),
            tuple((cell.spec.step + latency_marks(cell.score)).strip() for cell in members),
        )
        for name, members in curves.items()
    ]
    offline = sorted(
        {100 * float(cell.score["wer_offline"]) for cell in cells if cell.score.get("wer_offline") is not None}
    )
    return scatter(
        drawn,
        x_label="confirmed latency, mean (s)",
        y_label="WER (%)",
        title=_late_title("latency against WER", _placed(cells)),
        levels=[Line(f"offline WER {value:.1f} %", value) for value in offline[:3]],
    )


def _placed(cells: Sequence[Cell]) -> list[Cell]:
    """Those with both coordinates."""
    return [cell for cell in cells if None not in (cell.score.get("confirmed_mean_s"), cell.score.get("wer"))]


_DISTRIBUTIONS = (  # of which latencies, caption, note
    ("confirmed_s", "How late words are confirmed", "Share of matched words confirmed within that time."),
    ("first_seen_s", "How late words are first seen", "Share of matched words on screen within that time."),
)


def _distribution(cells: Sequence[Cell], key: str, caption: str, note: str) -> str:
    chosen = [cell for cell in typical(cells) if latencies(cell, key)]
    return page.figure(latency_plot(chosen, key, caption), caption, note) if chosen else ""


def latency_plot(
    cells: Sequence[Cell], key: str = "confirmed_s", caption: str = "how late words are confirmed"
) -> Drawing:
    """The distribution of latencies alone; cells without any are left out."""
    samples = [(_late_label(cell, cells), values) for cell in cells if (values := latencies(cell, key))]
    return plots.distribution(samples, title=_late_title(caption, cells))


def _waits(cells: Sequence[Cell]) -> str:
    chosen = [cell for cell in _one_each(cells) if cell.score.get("waits_s")]
    note = (
        "From the end of a word in the audio to its confirmation, on average; a reason may be that of a word before it."
    )
    return page.figure(waits_plot(chosen), "Where the wait comes from", note) if chosen else ""


def waits_plot(cells: Sequence[Cell]) -> Drawing:
    """The parts of the mean confirmed latency of cells that have word times."""
    parts = parts_in([cell.score["waits_s"] for cell in cells])
    items = [
        (_late_label(cell, cells), {part: float(cell.score["waits_s"].get(part, 0.0)) for part in parts})
        for cell in cells
    ]
    return plots.stacked(items, x_label="mean wait (s)", title=_late_title("where the wait comes from", cells))


_ABLATIONS = (  # of what, its scale, caption, unit
    ("confirmed_mean_s", 1, "Ablation: confirmed latency", "mean (s)"),
    ("wer", 100, "Ablation: word error rate", "WER (%)"),
    ("gflop_per_s", 1, "Ablation: encoder work", "GFLOP per second of audio"),
)


def _ablation(cells: Sequence[Cell], key: str, scale: float, caption: str, unit: str) -> str:
    chosen, is_late = _variants(cells), key == "confirmed_mean_s"
    named, titled = (_late_label, _late_title) if is_late else (label, _title)
    items = [
        plots.Bar(
            named(cell, chosen),
            scale * float(cell.score[key]),
            *_spread(cell, key, scale),
            colour=0 if not cell.spec.changes else 1,
        )
        for cell in chosen
        if cell.score.get(key) is not None
    ]
    if len(items) < 2:
        return ""
    note = "Recipes as they are (blue), and changed (orange)."
    if any(item.low is not None for item in items):
        note += f" Whiskers: 95 % bootstrap intervals over {UNITS}; drawn for {MANY} or more of these."
    return page.figure(plots.bars(items, x_label=unit, title=titled(caption, chosen)), caption, note)


def _over_time(
    cells: Sequence[Cell],
    measure: Callable[[Trace, str], tuple[list[float], list[float]]],
    y_label: str,
    caption: str,
    note: str,
) -> str:
    """Of each recogniser its longest utterance."""
    curves = []
    chosen = _one_each(cells)
    for cell in chosen:
        trace = max(cell.traces(), key=lambda trace: trace.audio_s, default=None)
        x, y = measure(trace, _language(cell, trace)) if trace else ([], [])
        if x:
            curves.append(Curve(label(cell, chosen), tuple(x), tuple(y)))
    drawn = plots.over_time(curves, y_label=y_label, title=_title(caption, cells)) if curves else None
    return page.figure(drawn, caption, note) if drawn else ""


def _language(cell: Cell, trace: Trace) -> str:
    """Of its utterance; records of earlier versions do not tell it."""
    row = next((row for row in cell.utterances if row["id"] == trace.utterance), {})
    return str(row.get("language", "en"))


def revisions_over_time(trace: Trace, language: str = "en") -> tuple[list[float], list[float]]:
    """Times, and how many words that stood on the screen had been changed or removed by then. Words are compared as the
    language normalises them.
    """
    viewing = look(trace, language)
    times, counts, total = [0.0], [0.0], 0
    for before, after in pairwise(viewing.views):
        total += revisions(replace(viewing, views=(before, after)))
        times.append(after.at_s)
        counts.append(float(total))
    return (times, counts) if viewing.views else ([], [])


def lag_over_time(trace: Trace) -> tuple[list[float], list[float]]:
    """Times at which rounds were done, and how old their newest audio was then; the worst of each stretch."""
    worst: dict[int, tuple[float, float]] = {}
    for cost in trace.rounds:
        end = cost.start_s + cost.seconds
        lag = end - min(cost.start_s, trace.audio_s)
        place = int(_POINTS * cost.start_s / max(trace.audio_s, 1e-9))
        worst[place] = max(worst.get(place, (end, lag)), (end, lag), key=lambda point: point[1])
    return [end for end, _ in worst.values()], [lag for _, lag in worst.values()]


_TIMES = (
    (
        revisions_over_time,
        "words taken back, so far",
        "Revisions over time",
        "Words that were on screen and then changed or disappeared, in the longest utterance.",
    ),
    (
        lambda trace, _: lag_over_time(trace),
        "lag (s)",
        "Lag over time",
        "When a round was done, how long ago its newest audio had been spoken; the longest utterance.",
    ),
)


# --- choosing and reading --------------------------------------------------------------------------------------------


def typical(cells: Sequence[Cell]) -> list[Cell]:
    """All cells if they are few, else of each recogniser the one whose step is nearest to a second."""
    return list(cells) if len(cells) <= MANY_CURVES else _one_each(cells)


def _one_each(cells: Sequence[Cell]) -> list[Cell]:
    """Of each recogniser the cell whose step is nearest to a second."""
    nearest: dict[str, Cell] = {}
    for cell in cells:
        rival = nearest.get(cell.spec.label)
        if rival is None or abs((cell.spec.step_s or 1) - 1) < abs((rival.spec.step_s or 1) - 1):
            nearest[cell.spec.label] = cell
    return list(nearest.values())


def _variants(cells: Sequence[Cell]) -> list[Cell]:
    """Changed recipes and the recipes they are changes of, at equal steps; not those of other programs."""
    ours = [cell for cell in cells if not cell.spec.recogniser.startswith(PEER)]
    changed = {(cell.spec.recogniser, cell.spec.step_s) for cell in ours if cell.spec.changes}
    return [cell for cell in cells if (cell.spec.recogniser, cell.spec.step_s) in changed]


def latencies(cell: Cell, key: str) -> list[float]:
    """Those of all its words."""
    return [float(value) for utterance in cell.utterances for value in utterance.get(key) or ()]


def _spread(cell: Cell, key: str, scale: float) -> tuple[float | None, float | None]:
    """A 95 % bootstrap interval, where there are enough units."""
    found = figure_interval(key, cell.utterances)
    return (None, None) if found is None else (scale * found[0], scale * found[1])


def _title(what: str, cells: Sequence[Cell]) -> str:
    """What, of which weights, on what."""
    spec, clocks = cells[0].spec, dict.fromkeys(cell.spec.clock for cell in cells)
    return f"{what}: {spec.model} ({spec.model_hash}) on {spec.corpus}, clock {', '.join(clocks)}"


def _late_title(what: str, cells: Sequence[Cell]) -> str:
    """The same for latencies, with what their marks mean."""
    meant = marks_in_short(cell.score for cell in cells)
    return _title(what, cells) + (f". {meant}" if meant else "")
