"""Pilot inference's tables 4 and 5 and figures 4, 5 and 6 (arXiv 2311.17065, section 7), with Whisper in place of the
paper's network, and sentences of the corpus in place of SLURP's commands.

Whisper's encoder hears a window as a whole, so nothing of it is done while somebody speaks: what pilots save here is
the search. Delays are shares of real time, as in the paper: seconds waited after the end of speech, by seconds of
speech. The first model hears here, the last is the server's; with one model alone the server has base, since a smaller
form of one and the same model hears nearly what it hears, and there is nothing to gain by sending.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from whispertide.errors import OptionError
from whispertide.tuning.drawing import Curve, scatter
from whispertide.tuning.page import Table
from whispertide.types import SAMPLE_RATE
from whispertide.understand.checkpoint import is_late
from whispertide_lab.evaluation import plots, report
from whispertide_lab.evaluation.clips import CUT_BY, evenly
from whispertide_lab.evaluation.energy import Meter
from whispertide_lab.evaluation.items.commands import BASE, WAYS, Sentence, Way, area, hear, sentences
from whispertide_lab.evaluation.items.offloading import (
    LINKS,
    WRONG,
    Both,
    Choice,
    by_chance,
    choice,
    in_order,
    listen,
    mean_wait_s,
    needed,
    needed_by_chance,
    rates,
)
from whispertide_lab.evaluation.paper import Outcome, Plot
from whispertide_lab.evaluation.watch import showing

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner

PILOTS = "pilots"
EVERY = {BASE: "no pilots", "every 2 s": "every 2 s", "every 1 s": "every 1 s", PILOTS: "every 0.5 s"}
PUBLISHED_EVERY = {BASE: "0.168", "every 2 s": "0.145", "every 1 s": "0.138", PILOTS: "0.120"}
PARTS = (BASE, PILOTS, "no length cap", "no collapse", "no chain")
LINK = LINKS[1]
ABOVE = (4.0, 3.0, 2.0, 1.0)  # points of word errors above the server's, some 11 % in the paper: goals of table 5
JOULES = "energy J per s"
ENERGY = "Energy is RAPL's, of all that the machine did. Where it tells none, processor seconds stand in for it."
SERVER = "base"  # hears there where one model is given
GRID = 21  # points of a curve
CHANCE, FULL = "random", "perplexity of the full decode"
MADE_BY = (__name__, Sentence.__module__, Both.__module__, CUT_BY)
CALLED = {CHANCE: "random (NaiveHybrid)", "entropy": "entropy (for DeeBERT)"}
# Table 5: the share of inputs that are sent, per cent, for word errors of 15, 14, 13 and 12 %
PUBLISHED_SENT = {
    CHANCE: ("47.6", "59.8", "72.2", "84.5"),
    "cnn": ("27.6", "37.8", "49.8", "65.7"),
    "bilstm": ("21.5", "31.1", "43.0", "60.2"),
    "perplexity": ("25.0", "34.5", "47.3", "–"),
}


# --- pilots: table 4 and figure 5 ------------------------------------------------------------------------------------


def frequency_table(runner: "Runner") -> Outcome:
    """Pilot inference, table 4: the delay by how often pilots run, on the device alone, and what stands for energy."""
    said, ways = _by_ways(runner, tuple(EVERY))
    seconds = sum(len(one.audio) for one in said) / SAMPLE_RATE
    rows = tuple(
        (
            *(EVERY[name], f"{delay(way, said):.4f}", f"{mean(way.waits):.3f}", _rate(way)),
            f"{way.cpu_s / seconds:.3f}",
            report.number(None if way.energy_j is None else way.energy_j / seconds, 2),
            PUBLISHED_EVERY[name],
        )
        for name, way in ways.items()
    )
    measured = ("delay, of real time", "wait s", "WER %", "processor s per s", JOULES)
    columns = ("pilots", *measured, "paper: delay, of real time")
    return Outcome((Table(columns, rows),), note=f"{_about(runner, said)} {ENERGY}")


def ablation_figure(runner: "Runner") -> Outcome:
    """Pilot inference, figure 5: what each part of pilot decoding does."""
    said, ways = _by_ways(runner, PARTS)
    usual = mean(ways[PILOTS].waits)
    rows = tuple(
        (name, f"{1000 * mean(way.waits):.1f}", f"{mean(way.waits) / usual:.2f}", _p90(way), _rate(way))
        for name, way in ways.items()
    )
    bars = [plots.Bar(name, 1000 * mean(way.waits)) for name, way in ways.items()]
    caption = "The wait after the end of speech, without each part"
    drawing = plots.bars(bars, x_label="wait, mean (ms)", title=caption.lower())
    note = (
        f"{_about(runner, said)} Length cap: the paper's length prediction. Collapse: its reduced beam. Without the "
        "chain every pilot begins anew. Whisper has no CTC head, so the shorter prefix score is not among them. The "
        "paper: without reuse from pilot to pilot 205 ms on average in place of 156."
    )
    return Outcome(
        (Table(("pilots", "wait ms", "times the usual", "90 % wait less, ms", "WER %"), rows),),
        (Plot(drawing, caption),),
        note,
    )


def delay(way: Way, said: Sequence[Sentence]) -> float:
    """The wait as a share of real time."""
    return sum(way.waits) * SAMPLE_RATE / sum(len(one.audio) for one in said)


def _by_ways(runner: "Runner", names: Sequence[str]) -> tuple[list[Sentence], dict[str, Way]]:
    """Every sentence by each way, one after the other."""
    said = all_sentences(runner)
    found = {name: runner.kept(f"pilots: {name}", Way, partial(_hear, runner, name, said), *MADE_BY) for name in names}
    return said, found


def _hear(runner: "Runner", name: str, said: Sequence[Sentence]) -> Way:
    model, way = runner.transcriber(runner.models[0]), Way()
    hear(model, said[0], WAYS[name], False, Way())  # once without counting
    meter = Meter()
    for one in watched(runner, f"pilot: {name}", said):
        hear(model, one, WAYS[name], False, way)
    way.energy_j = meter.read().energy_j
    return way


def all_sentences(runner: "Runner") -> list[Sentence]:
    """Of the chosen corpus. Raises `OptionError` where it has none."""
    found = list(sentences(runner.corpus.utterances()))
    return evenly(found, len(found), runner.corpus)


def watched(runner: "Runner", label: str, said: Sequence[Sentence]) -> Iterable[Sentence]:
    """One after the other; the progress bar moves."""
    with showing(runner.watch, label, sum(len(one.audio) for one in said) / SAMPLE_RATE):
        for one in said:
            yield one
            runner.watch.advance(len(one.audio) / SAMPLE_RATE)


def _rate(way: Way) -> str:
    return report.percent(sum(errors for errors, _ in way.errors) / sum(words for _, words in way.errors))


def _p90(way: Way) -> str:
    return f"{1000 * float(np.percentile(way.waits, 90)):.1f}"


def _about(runner: "Runner", said: Sequence[Sentence]) -> str:
    seconds = sum(len(one.audio) for one in said) / SAMPLE_RATE
    return (
        f"{len(said)} sentences of {runner.corpus.name}, {seconds:.0f} s, {Path(runner.models[0]).name}, recipe "
        "`pilot`, processor time on a simulated clock. The paper's network is a late-contextualisation one on a board."
    )


# --- sending: table 5, figures 4 and 6 -------------------------------------------------------------------------------


def sending(heard: Sequence[Both], about: str) -> Outcome:
    """Pilot inference, table 5: how many inputs are sent, and the delay, for some word errors."""
    rows = []
    for each, scores in (*scored_choices(heard), *after_the_decode(heard)):
        cells = []
        for above in ABOVE:
            sent = needed_for(heard, each, scores, above / 100)
            delay = delay_with(heard, scores, sent, decode_first=each.name == FULL)
            cells += [f"{100 * sent / len(heard):.1f}", f"{delay:.3f}"]
        rows.append((called(each), *cells, *_areas(heard, each, scores), *PUBLISHED_SENT.get(each.name, 4 * ("–",))))
    goals = [f"+{above:g}" for above in ABOVE]
    columns = ("decided by", *(text for goal in goals for text in (f"{goal}: sent %", f"{goal}: delay")), *_AREAS)
    paper = (f"paper: sent % for WER {rate} %" for rate in (15, 14, 13, 12))
    server = report.percent(by_chance(heard).errors[-1])
    note = (
        f"{about} Goals are points of word errors above the server's, which makes {server} %. Areas are under the ROC "
        f"curve, for inputs with more than {WRONG:.0%} of word errors here and for those that the server hears better."
    )
    return Outcome((Table((*columns, *paper), tuple(rows)),), note=note)


_AREAS = ("area: wrong here", "area: better there")


def _areas(heard: Sequence[Both], each: Choice, scores: Sequence[float] | None) -> tuple[str, ...]:
    wrong = [one.local_errors > WRONG * one.words for one in heard]
    return f"{0.5 if scores is None else area(scores, wrong):.2f}", f"{each.area:.2f}"


def trade_off(heard: Sequence[Both], about: str) -> Outcome:
    """Pilot inference, figure 4: errors against delay as more and more is sent."""
    curves, rows = [], []
    shares = grid_of(heard)
    for each, scores in scored_choices(heard):
        delays = tuple(delay_with(heard, scores, sent) for sent in shares)
        name = called(each)
        curves.append(Curve(name, delays, tuple(100 * each.errors[sent] for sent in shares)))
        for what, sent in (("a quarter", len(heard) // 4), ("half", len(heard) // 2)):
            place = (f"{delay_with(heard, scores, sent):.3f}", report.percent(each.errors[sent]))
            rows.append((f"{name}, {what} sent", *place))
    ends = (("all here", 0), ("all sent", len(heard)))
    first, scores = scored_choices(heard)[0]
    rows += [(what, f"{delay_with(heard, scores, n):.3f}", report.percent(first.errors[n])) for what, n in ends]
    caption = "Word errors against delay, from all here to all sent"
    drawing = scatter(curves, x_label="delay, of real time", y_label="WER (%)", title=caption.lower())
    columns = ("system", "delay, of real time", "WER %")
    return Outcome((Table(columns, tuple(rows)),), (Plot(drawing, caption),), about)


def called(each: Choice) -> str:
    """As a reader calls it."""
    return CALLED.get(each.name, each.name)


def grid_of(heard: Sequence[Both]) -> list[int]:
    """How many are sent at the points of a curve."""
    return [round(share) for share in np.linspace(0, len(heard), min(GRID, len(heard) + 1))]


def selection(heard: Sequence[Both], about: str) -> Outcome:
    """Pilot inference, figure 6: of the inputs that the server hears better, and of the others, how many are sent."""
    better = [one.remote_errors < one.local_errors for one in heard]
    rows, bars = [], []
    for colour, above in enumerate((2.0, 1.0)):
        for each, scores in scored_choices(heard):
            sent = needed_for(heard, each, scores, above / 100)
            shares = selected(better, scores, sent) if scores is not None else 2 * (sent / len(heard),)
            name = f"{called(each)}, +{above:g}"
            rows.append((name, *(f"{100 * share:.1f}" for share in (*shares, sent / len(heard)))))
            bars.append(plots.Bar(f"{name}: those to be sent", 100 * shares[0], colour=2 * colour))
            bars.append(plots.Bar(f"{name}: the others", 100 * shares[1], colour=2 * colour + 1))
    caption = "How many of the inputs are sent that the server hears better, and how many of the others"
    drawing = plots.bars(bars, x_label="sent (%)", title=caption.lower())
    columns = ("decided by, points above the server", "sent of those to be sent %", "sent of the others %", "sent %")
    note = f"{about} {sum(better)} of them the server hears better: those are to be sent."
    return Outcome((Table(columns, tuple(rows)),), (Plot(drawing, caption),), note)


def selected(better: Sequence[bool], scores: Sequence[float], sent: int) -> tuple[float, float]:
    """The share that is sent of those that are better elsewhere, and of the others."""
    chosen = set(in_order(scores)[:sent])
    kinds = ([at in chosen for at, is_better in enumerate(better) if is_better is kind] for kind in (True, False))
    of_better, of_others = (mean(kind) if kind else 0.0 for kind in kinds)
    return float(of_better), float(of_others)


def scored_choices(heard: Sequence[Both]) -> list[tuple[Choice, list[float] | None]]:
    """Every signal with its scores, then random choice, which has none."""
    found: list[tuple[Choice, list[float] | None]] = []
    for name in heard[0].signals:
        scores = [one.signals[name] for one in heard]
        found.append((choice(name, heard, scores), scores))
    return [*found, (by_chance(heard), None)]


def after_the_decode(heard: Sequence[Both]) -> list[tuple[Choice, list[float]]]:
    """The choice by the full decode here, which what is sent must wait for; nothing where that is not known."""
    scores = [one.full for one in heard if one.full is not None]
    return [(choice(FULL, heard, scores), scores)] if len(scores) == len(heard) else []


def needed_for(heard: Sequence[Both], each: Choice, scores: Sequence[float] | None, above: float) -> int:
    """How many must be sent for so little above the server's errors; by chance on average."""
    if scores is None:
        return needed_by_chance(len(heard), partial(rates, heard), above)
    return needed(each.errors, above)


def delay_with(
    heard: Sequence[Both], scores: Sequence[float] | None, sent: int, *, decode_first: bool = False
) -> float:
    """Of real time; by chance it lies between that of sending none and that of sending all."""
    seconds = mean(one.seconds for one in heard)
    if scores is not None:
        return mean_wait_s(heard, scores, sent, LINK, decode_first=decode_first) / seconds
    none, whole = (mean_wait_s(heard, [0.0] * len(heard), count, LINK) for count in (0, len(heard)))
    return (none + (whole - none) * sent / len(heard)) / seconds


def both(runner: "Runner") -> tuple[list[Both], str]:
    """All sentences that had a pilot, heard here and by the server, and what they are."""
    said = all_sentences(runner)

    first, server = runner.models[0], server_of(runner)

    def measure() -> list[Both]:
        local, remote = runner.transcriber(first), runner.transcriber(server)
        for model in (local, remote):
            model.warm_up()
        return listen(local, remote, watched(runner, "here and by the server", said))

    heard = runner.kept("sent", list[Both], measure, *MADE_BY, models=(first, server))
    if not heard:
        raise OptionError(f"expected sentences that are long enough for a pilot; {runner.corpus.name} has none")
    trip, rate = LINK
    return heard, (
        f"{len(heard)} sentences of {runner.corpus.name} that had a pilot, {Path(first).name} here, "
        f"{Path(server).name} on the server, a round trip of {trip:g} s and {rate / 1e6:g} Mbit/s, processor time "
        "on a simulated clock. Entropy, of the first token, is what DeeBERT decides by. Trained offramps, one of its "
        "exits among them, take part if they lie next to the model here."
    )


def server_of(runner: "Runner") -> str:
    """The model of the server: the last one, if it is another than the first and a Whisper; else base."""
    last = runner.models[-1]
    return SERVER if len(runner.models) == 1 or is_late(Path(last)) else last
