"""Finished cells as a Markdown page with plots next to it: what `lab/docs/peers.md` is made of.

Reads cells, computes nothing that they do not say, and does not know how they were run. Every part is a function from
cells to text; plots are files that the text names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from whispertide.plural import counted
from whispertide.tuning.drawing import Drawing
from whispertide.tuning.page import Table
from whispertide_lab.evaluation import charts
from whispertide_lab.evaluation.agreement import agreement, differences
from whispertide_lab.evaluation.grid import PEER
from whispertide_lab.evaluation.markdown import markdown_table
from whispertide_lab.evaluation.report import (
    COST,
    LATENCY,
    QUALITY,
    RECOGNISER,
    UNRELIABLE_NOTE,
    Named,
    formatted,
    is_unreliable,
    table_of,
)
from whispertide_lab.evaluation.store import Cell
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.speech.utterance import Utterance

NOTHING = "Not measured."
ENOUGH_WORDS = 1000  # for differences between rows to mean something
_STREAMING = (
    *("wer", "insertions", "confirmed_mean_s", "confirmed_median_s", "confirmed_p99_s", "first_seen_mean_s"),
    *("ttft_s", "matched", "revisions_per_100", "cpu_s_per_s", "peak_mb"),
)
_GLANCE = ("wer", "confirmed_mean_s", "first_seen_mean_s", "cpu_s_per_s")
_GLANCE_HEADS = ("word errors %", "confirmed after s", "first seen after s", "processor s per s")
_OFFLINE = ("wer", "substitutions", "insertions", "deletions", "cpu_s_per_s", "peak_mb")
_CLOCKS = ("wer", "confirmed_mean_s", "confirmed_median_s", "confirmed_p90_s", "confirmed_p99_s", "ttft_s", "matched")
_COLUMNS = {column.key: column for column in (*QUALITY, *LATENCY, *COST)}


@dataclass(frozen=True, slots=True)
class Part:
    """A section: its heading, its text in Markdown, and the plots it names, by their files' names without ".png"."""

    title: str
    text: str
    plots: Mapping[str, Drawing] = field(default_factory=dict)


def page(title: str, lead: str, parts: Iterable[Part]) -> tuple[str, dict[str, Drawing]]:
    """The page, and all its plots."""
    parts = list(parts)
    sections = (f"## {part.title}\n\n{part.text.strip()}\n" for part in parts)
    return "\n".join((f"# {title}\n\n{lead.strip()}\n", *sections)), dict(
        chain(*(part.plots.items() for part in parts))
    )


def streaming_part(title: str, note: str, cells: Sequence[Cell], name: str) -> Part:
    """Recognisers of one model on one corpus: tables and plots, which are called `name`-... and lie in `benchmarks`."""
    if not cells:
        return Part(title, f"{note}\n\n{NOTHING}")
    live = sorted((cell for cell in cells if cell.spec.streaming), key=_place)
    offline = sorted((cell for cell in cells if not cell.spec.streaming), key=_place)
    text = [f"{note} {_amount(cells)}".strip(), markdown_table(_table(live, _STREAMING, marks(live)))]
    if is_unreliable(live):
        text.append(UNRELIABLE_NOTE)
    plots: dict[str, Drawing] = {}
    if any(cell.score.get("confirmed_mean_s") is not None for cell in live):
        plots[f"{name}-trade-off"] = charts.trade_off_plot(live)
        plots[f"{name}-latency"] = charts.latency_plot(charts.typical(live))
        text.append(f"![Latency against word error rate, a point per step](benchmarks/{name}-trade-off.png)")
        text.append(f"![How late words are confirmed, as shares](benchmarks/{name}-latency.png)")
    if offline:
        text.append("Offline, for comparison: the same weights on the same audio, all of it at once.")
        text.append(markdown_table(_table(offline, _OFFLINE, {})))
    return Part(title, "\n\n".join(part for part in text if part), plots)


def glance_part(title: str, note: str, groups: Mapping[str, Sequence[Cell]], named: Callable[[Cell], str]) -> Part:
    """For each group (a name -> its cells) a table of what matters most: errors, delays, computing."""
    tables = []
    for group, cells in groups.items():
        everyone = sorted(cells, key=lambda cell: (not cell.spec.streaming, _place(cell)))
        rows = tuple((named(cell), *_glance(cell)) for cell in everyone)
        text = markdown_table(Table((group, *_GLANCE_HEADS), rows)) if rows else f"{group}: {NOTHING}"
        tables += [text, _amount(everyone) if rows else "", UNRELIABLE_NOTE if is_unreliable(everyone) else ""]
    return Part(title, "\n\n".join(text for text in (note, *tables) if text))


def _glance(cell: Cell) -> tuple[str | None, ...]:
    shown = {key: formatted(_COLUMNS[key], cell.score) for key in _GLANCE}
    if not cell.spec.streaming:
        shown |= {"confirmed_mean_s": None, "first_seen_mean_s": None}
    return tuple(shown.values())


def _place(cell: Cell) -> tuple[bool, str, float]:
    """Ours before other programs, and the steps of a recogniser together."""
    return (cell.spec.recogniser.startswith(PEER), cell.spec.label, cell.spec.step_s or 0.0)


def _amount(cells: Sequence[Cell]) -> str:
    """How much was heard, and a warning where it is little."""
    words = sum(int(item.get("words") or 0) for item in cells[0].utterances)
    said = f"{words} words in {counted(len(cells[0].utterances), 'piece')}."
    if words >= ENOUGH_WORDS:
        return said
    return f"{said} With so few, differences of some points of WER or some tenths of a second may be chance."


def _table(cells: Sequence[Cell], keys: Sequence[str], said: Mapping[str, str]) -> Table:
    about: Named = {**RECOGNISER, **({"": lambda cell: said.get(cell.key)} if said else {})}
    return table_of(cells, about, [_COLUMNS[key] for key in keys])


def marks(cells: Sequence[Cell]) -> dict[str, str]:
    """Key -> what is to be said of a cell: that it is as the program comes."""
    return {cell.key: "default" for cell in cells if _is_default(cell)}


def _is_default(cell: Cell) -> bool:
    from whispertide.recipes.catalogue import RECIPES
    from whispertide_lab.evaluation.peers import PEERS

    name, step = cell.spec.recogniser, cell.spec.step_s
    if name.startswith(PEER):
        default = PEERS[name.removeprefix(PEER)].defaults.get("step_s")
    else:
        default = RECIPES[name].schedule.step_s if name in RECIPES else None
    return not cell.spec.changes and step == default


def clocks_part(
    title: str, note: str, cells: Mapping[str, Cell], pairs: Sequence[tuple[str, str]], utterances: Sequence[Utterance]
) -> Part:
    """One recogniser on one excerpt by several clocks (a name -> its cell), and how far some are apart word by word."""
    names = {id(cell): name for name, cell in cells.items()}  # two runs in real time have the same key
    table = table_of(cells.values(), {"clock": lambda cell: names[id(cell)]}, [_COLUMNS[key] for key in _CLOCKS])
    apart = tuple(
        (f"{b} after {a}", *_apart(utterances, cells[a], cells[b])) for a, b in pairs if {a, b} <= cells.keys()
    )
    heads = ("pair", "words", "mean difference s", "median amount s", "p90 amount s")
    text = (
        note,
        markdown_table(table),
        "How much later the one confirmed words than the other, over the words that both got right:",
        markdown_table(Table(heads, apart)),
    )
    return Part(title, "\n\n".join(text))


def _apart(utterances: Sequence[Utterance], a: Cell, b: Cell) -> tuple[str | None, ...]:
    first, second = (_by_id(cell.traces()) for cell in (a, b))
    both = [item for item in utterances if item.id in first and item.id in second]
    found = agreement(tuple(chain(*(differences(item, first[item.id], second[item.id]) for item in both))))
    if found is None:
        return ("0", None, None, None)
    return (str(found.words), f"{found.mean_s:+.3f}", f"{found.median_s:.3f}", f"{found.p90_s:.3f}")


def _by_id(traces: Iterable[Trace]) -> dict[str, Trace]:
    return {trace.utterance: trace for trace in traces}


def _machine(cell: Cell) -> str:
    """Its name and, where that was measured, the speed of a core."""
    gflops = cell.score.get("core_gflops")
    return f"{cell.spec.machine}, {gflops:.0f} GFLOPS a core" if gflops else cell.spec.machine


def facts(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Where figures come from: machine, dates, commit, code, models and corpora, each with all that there are of it."""

    def every(of: Callable[[Cell], str]) -> str:
        return "; ".join(sorted({of(cell) for cell in cells} - {""}))

    return [
        ("machine", every(_machine)),
        ("date", every(lambda cell: cell.date[:10])),
        ("commit", every(lambda cell: str(cell.score.get("commit") or ""))),
        ("measured code", every(lambda cell: cell.spec.code)),
        ("threads", every(lambda cell: str(cell.score.get("threads") or ""))),
        ("models", every(lambda cell: f"{cell.spec.model} ({cell.spec.model_hash})")),
        ("corpora", every(lambda cell: f"{cell.spec.corpus_name} ({cell.spec.corpus_hash})")),
    ]
