"""The report: finished cells as tables and plots on one page.

Cells are compared only within a group, which has one model, one corpus and one clock. Reads scores, per-utterance
records and traces; computes nothing that a score already says, and knows nothing of how cells were run.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whispertide.errors import OptionError
from whispertide.plural import counted
from whispertide.tuning import page
from whispertide.tuning.page import Table
from whispertide_lab.evaluation.charts import charts, label
from whispertide_lab.evaluation.grid import OFFLINE
from whispertide_lab.evaluation.latency import FEWER
from whispertide_lab.evaluation.marks import UNRELIABLE_MARK, finds_fewer, is_aligned, latency_marks
from whispertide_lab.evaluation.store import Cell
from whispertide_lab.evaluation.trace import FREE, PROCESSOR
from whispertide_lab.evaluation.waits import parts_in

TIMED = "timed"  # live or simulated
SYNTHETIC = (
    "Corpora called talks, rooms and noisy are synthetic speech, with the synthesizer's exact word times. "
    "Times are from the moment a word ended in the audio to the moment it was shown. Nothing is clamped or rounded."
)
UNRELIABLE_NOTE = (
    f"! Latencies are marked where {100 * FEWER:g} points fewer words are matched than by the same weights offline; do "
    "not rely on them."
)
NOT_COMPARED = " not compared"
CLOCKS = {
    FREE: "Computing counts as instant, which leaves the delay that the policy itself causes.",
    TIMED: "Computing takes its measured time. Audio arrives in real time, by the wall clock (live) or in a "
    "simulation. In the simulation every round occupies the worker for its measured time.",
    PROCESSOR: "Computing takes the processor time that was measured, on one thread, in a simulation in which audio "
    "arrives in real time: what else the machine does meanwhile does not count.",
}
Format = Callable[[Any], str]


def decimals(digits: int) -> Format:
    """A format with so many decimals."""
    return lambda value: f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """A share of one, as per cent; a dash where there is none."""
    return "–" if value is None else f"{100 * value:.2f}"


def number(value: float | None, digits: int) -> str:
    """With so many decimals; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def latency(score: Mapping[str, Any], key: str = "confirmed_mean_s", digits: int = 2) -> str:
    """A latency of words in seconds, with its marks; a dash where there is none."""
    value = score.get(key)
    return number(value, digits) + latency_marks(score) if _known(value) else "–"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of cells: a key of the score, its heading, and how a value is written."""

    key: str
    heading: str
    format: Format


QUALITY = (
    Column("wer", "WER %", percent),
    Column("wer_offline", "offline WER %", percent),
    Column("wer_minus_offline", "minus offline", percent),
    Column("cer", "CER %", percent),
    Column("substitutions", "subst.", str),
    Column("insertions", "insert.", str),
    Column("deletions", "delet.", str),
    Column("hallucinated_per_min", "halluc. /min", decimals(2)),
    Column("case_punctuation_per_100", "case, punct. /100", decimals(1)),
    Column("revisions_per_100", "revisions /100", decimals(1)),
)
LATENCY = (
    Column("confirmed_mean_s", "confirmed mean s", decimals(2)),
    Column("confirmed_median_s", "median s", decimals(2)),
    Column("confirmed_p90_s", "p90 s", decimals(2)),
    Column("confirmed_p99_s", "p99 s", decimals(2)),
    Column("confirmed_p99_matched_s", "p99 of matched s", decimals(2)),
    Column("settled_mean_s", "settled mean s", decimals(2)),
    Column("first_seen_mean_s", "first seen mean s", decimals(2)),
    Column("ttft_s", "TTFT s", decimals(2)),
    Column("final_s", "final word s", decimals(2)),
    Column("laal_s", "LAAL s", decimals(2)),
    Column("first_text_s", "first text s", decimals(2)),
    Column("last_text_s", "last text s", decimals(2)),
    Column("cursor_s", "cursor s", decimals(2)),
    Column("matched", "matched %", percent),
    Column("matched_offline", "offline matched %", percent),
)
COST = (
    Column("gflop_per_s", "encoder GFLOP/s", decimals(2)),
    Column("decoder_runs_per_s", "decoder runs/s", decimals(1)),
    Column("cpu_s_per_s", "CPU s/s", decimals(3)),
    Column("peak_mb", "peak MB", decimals(0)),
    Column("avg_beam", "avg beam", decimals(2)),
    Column("reduce_ratio", "reduce ratio", decimals(2)),
    Column("threads", "threads", str),
)
UNTIMED = ("laal_s", "first_text_s", "last_text_s", "revisions_per_100")  # what can be had without word times
GLANCE = (
    *("wer", "wer_offline", "case_punctuation_per_100"),
    *("confirmed_mean_s", "confirmed_p99_s", "confirmed_p99_matched_s", "first_seen_mean_s", "matched"),
    "matched_offline",
    *UNTIMED,
    "cpu_s_per_s",
)
_TIMED_COLUMNS = frozenset(column.key for column in LATENCY) - {*UNTIMED, "matched", "matched_offline"}


def group_of(cell: Cell) -> tuple[str, ...]:
    """What cells must share to be compared; the clock comes last."""
    clock = cell.spec.clock if cell.spec.clock in (FREE, PROCESSOR) else TIMED
    return (cell.spec.model, cell.spec.model_hash, cell.spec.corpus, cell.spec.corpus_hash, clock)


Named = Mapping[str, Callable[[Cell], str | None]]  # heading -> what stands below it
RECOGNISER: Named = {"recogniser": lambda cell: cell.spec.label, "step": lambda cell: cell.spec.step or None}


def table_of(cells: Iterable[Cell], about: Named, columns: Sequence[Column], title: str = "") -> Table:
    """One row per cell: what it is about, and its figures."""
    rows = (
        (*(of(cell) for of in about.values()), *(formatted(column, cell.score) for column in columns)) for cell in cells
    )
    return Table((*about, *(column.heading for column in columns)), tuple(rows), title)


def cells_table(cells: Sequence[Cell], columns: Iterable[Column], title: str = "", more: Named | None = None) -> Table:
    """One row per cell with its recogniser, step and `more`; columns that no cell has are left out."""
    wanted = [column for column in columns if any(_known(cell.score.get(column.key)) for cell in cells)]
    return table_of(cells, {**RECOGNISER, **(more or {})}, wanted, title)


def summary_table(cells: Sequence[Cell]) -> Table:
    """What `bench run` prints: the few figures that matter, with model and corpus.

    Columns that no cell has are left out; what needs no word times is there only if some cell has none.
    """
    untimed = bool(_untimed(cells))
    columns = [
        column
        for column in (*QUALITY, *LATENCY, *COST)
        if column.key in GLANCE and (untimed or column.key not in UNTIMED)
    ]
    columns.sort(key=lambda column: GLANCE.index(column.key))
    more: Named = {"model": lambda cell: cell.spec.model, "corpus": lambda cell: cell.spec.corpus}
    return cells_table(cells, columns, more=more)


def waits_table(cells: Sequence[Cell]) -> Table:
    """The parts of the mean confirmed latency, a row each, in milliseconds; a column per cell that has word times."""
    timed = [cell for cell in _streamed(cells) if cell.score.get("waits_s")]
    waits: list[Mapping[str, float]] = [cell.score["waits_s"] for cell in timed]
    rows: list[tuple[str | None, ...]] = [
        (part, *(_milliseconds(each.get(part)) for each in waits)) for part in parts_in(waits)
    ]
    rows.append(("together", *(_milliseconds(sum(each.values())) for each in waits)))
    return Table(
        ("part of the wait (ms)", *(label(cell, timed) + latency_marks(cell.score) for cell in timed)),
        tuple(rows),
        "Where the wait comes from",
    )


def _milliseconds(value: float | None) -> str | None:
    return None if value is None else f"{1000 * value:.0f}"


def notes(cells: Sequence[Cell]) -> list[str]:
    """What has to be said below a table of these cells, a line each."""
    found = mark_notes(cell.score for cell in cells)
    if untimed := _untimed(cells):
        corpora = ", ".join(dict.fromkeys(cell.spec.corpus for cell in untimed))
        found.append(
            f"No latency of words: nobody knows exactly when each word of {corpora} was said. LAAL, first text (from "
            "the beginning of a recording), last text (from its end) and revisions need no word times; --align makes "
            "word times by forced alignment."
        )
    prompted = {cell.spec.corpus: cell.score for cell in cells if cell.score.get("prompted")}
    found += [
        f"{corpus}: {score['prompted']} of {counted(score['utterances'], 'recording')} are scored against what the "
        "speaker was asked to read; what was said otherwise counts as an error."
        for corpus, score in prompted.items()
    ]
    return found


def mark_notes(scores: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the marks of these latencies mean, a line for each mark that there is."""
    scores = list(scores)
    found = [UNRELIABLE_NOTE] if UNRELIABLE_MARK in latency_marks(*scores) else []
    if sources := sorted({_aligner(score) for score in scores if is_aligned(score)}):
        found.append(
            f"~ word times are {', '.join(sources)} (forced alignment), not exact: no claim about latency should rest "
            "on these figures."
        )
    placed = {_aligner(score): score["alignment"] for score in scores if score.get("alignment")}
    for source, error in placed.items():
        found.append(
            f"~ {source}: in {counted(error['recordings'], 'hand-labelled recording')} of the same source the end of a "
            f"word is off by {error['median_s']:.3f} s in the median and {error['p90_s']:.3f} s in nine of ten "
            f"(mean {error['mean_s']:+.3f} s; {error['placed']} of {counted(error['words'], 'word')} placed)."
        )
    return found


def _aligner(score: Mapping[str, Any]) -> str:
    """Where word times that are not exact come from."""
    return str(score["word_times"]).removesuffix(" and exact")


def _untimed(cells: Iterable[Cell]) -> list[Cell]:
    """Cells in which something is said and shown as it is heard, and nobody knows when it was said."""
    return [
        cell for cell in cells if cell.spec.streaming and cell.score.get("words") and cell.score.get("matched") is None
    ]


def is_unreliable(cells: Iterable[Cell]) -> bool:
    """Whether some cell matched too few words for its latencies to mean anything."""
    return any(finds_fewer(cell.score) for cell in cells)


def matched_mark(score: Mapping[str, Any]) -> str:
    """What is written after a share of matched words."""
    if finds_fewer(score):
        return UNRELIABLE_MARK
    is_offline = str(score.get("recipe", "")).split(" ")[0] == OFFLINE
    return "" if is_offline or score.get("matched_as_offline") else NOT_COMPARED


def build(cells: Sequence[Cell], title: str = "whispertide benchmark") -> str:
    """The page. Raises `OptionError` where there is nothing to report."""
    if not cells:
        raise OptionError("expected at least one finished cell; got none: run `whispertide bench run` first")
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(group_of(cell), []).append(cell)
    recognisers = len({cell.spec.label for cell in cells})
    lead = f"{counted(len(cells), 'cell')}, {counted(recognisers, 'recogniser')}, measured {_dates(cells)}."
    return page.page(
        title,
        lead,
        page.section(
            "At a glance",
            page.html_table(summary_table(_streamed(cells))),
            page.paragraph(SYNTHETIC, "note"),
            *(page.paragraph(line, "note") for line in notes(cells)),
        ),
        *(_group_section(_ordered(group)) for group in groups.values()),
        page.section("Where these figures come from", page.html_table(provenance(cells))),
    )


def provenance(cells: Sequence[Cell]) -> Table:
    """Machine, date, commit, model and corpus hash of every cell."""
    about: Named = {
        "cell": lambda cell: cell.key,
        **RECOGNISER,
        "model": lambda cell: cell.spec.model + (f" ({cell.spec.model_hash[:12]})" if cell.spec.model_hash else ""),
        "corpus": lambda cell: f"{cell.spec.corpus_name or cell.spec.corpus} ({cell.spec.corpus_hash})",
        "clock": lambda cell: cell.spec.clock,
        "engine": lambda cell: " ".join(f"{name}={value}" for name, value in cell.spec.engine.items()) or None,
        "commit": lambda cell: str(cell.score.get("commit") or "") or None,
        "machine": lambda cell: cell.spec.machine or None,
        "date": lambda cell: cell.date,
    }
    return table_of(cells, about, ())


# --- one group -----------------------------------------------------------------------------------------------------


def _group_section(cells: Sequence[Cell]) -> str:
    spec = cells[0].spec
    amount = sum(float(utterance["seconds"]) for utterance in cells[0].utterances)
    words = sum(int(utterance["words"]) for utterance in cells[0].utterances)
    about = (
        f"{counted(len(cells[0].utterances), 'utterance')}, {amount / 60:.1f} minutes, {words} reference words, corpus "
        f"hash {spec.corpus_hash}. {CLOCKS[group_of(cells[0])[-1]]}"
    )
    live = [cell for cell in cells if cell.spec.streaming]
    return page.section(
        f"{spec.model} on {spec.corpus}",
        page.paragraph(about, "note"),
        _few_words(words),
        page.figures(charts(live)) if live else "",
        page.html_table(cells_table(cells, QUALITY, "What was understood")),
        page.html_table(cells_table(live, LATENCY, "How late")) if live else "",
        page.html_table(waits_table(live)) if any(cell.score.get("waits_s") for cell in live) else "",
        page.html_table(cells_table(cells, COST, "What it cost")),
    )


def _few_words(words: int) -> str:
    if words >= 1000:
        return ""
    return page.paragraph(f"Only {words} words: these figures show that it works, not how well.", "note")


# --- choosing and reading --------------------------------------------------------------------------------------------


def _ordered(cells: Iterable[Cell]) -> list[Cell]:
    """By model and corpus, then by recogniser, the unchanged one first."""

    def place(cell: Cell) -> tuple[object, ...]:
        spec = cell.spec
        return (spec.model, spec.corpus, spec.recogniser, len(spec.changes), spec.label, spec.step_s or 0)

    return sorted(cells, key=place)


def _streamed(cells: Iterable[Cell]) -> list[Cell]:
    """Without those that show everything at the end, unless there is nothing else."""
    cells = _ordered(cells)
    return [cell for cell in cells if cell.spec.streaming] or cells


def _known(value: object) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def formatted(column: Column, score: Mapping[str, Any]) -> str | None:
    """The figure as it is written, None where it is not known.

    A share of matched words that is too small is marked, and so is a latency of words that rests on it or on aligned
    word times. One that was not compared with offline's says so.
    """
    value = score.get(column.key)
    if not _known(value):
        return None
    if column.key in _TIMED_COLUMNS:
        return column.format(value) + latency_marks(score)
    return column.format(value) + (matched_mark(score) if column.key == "matched" else "")


def _dates(cells: Sequence[Cell]) -> str:
    days = sorted({cell.date[:10] for cell in cells})
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
