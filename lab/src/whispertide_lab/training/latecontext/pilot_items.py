"""Pilot inference's tables 4 and 5 and figures 4, 5 and 6 by a network of the paper's own kind, on spoken commands
(arXiv 2311.17065, section 7).

It takes the place of Whisper (`evaluation.items.pilot`) where the first model is a folder of `whispertide train
latecontext`. The corpus has commands then: `commands:FOLDER`, of `whispertide train commands`. Waits are of computing
after the end of speech, by processor time. The server's model is the last one, if that is a Whisper checkpoint, else
base. Needs no torch.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from whispertide.errors import OptionError
from whispertide.model.providers import thread_count
from whispertide.options import EngineOptions
from whispertide.tuning.drawing import Curve, scatter
from whispertide.tuning.page import Table
from whispertide.types import SAMPLE_RATE
from whispertide.understand.checkpoint import is_late, load_late
from whispertide.understand.intent_words import plain
from whispertide.understand.model import LateModel
from whispertide_lab.evaluation import plots, report
from whispertide_lab.evaluation.items import pilot as by_whisper
from whispertide_lab.evaluation.items.commands import Sentence
from whispertide_lab.evaluation.items.offloading import (
    Both,
    choice,
    errors_in,
    heard_there,
    in_order,
    needed,
)
from whispertide_lab.evaluation.paper import Outcome, Plot
from whispertide_lab.speech.noise import to_int16
from whispertide_lab.training.latecontext.understood import (
    AT_PAUSES,
    BASE,
    WAYS,
    CommandResult,
    Score,
    hear,
    score,
)
from whispertide_lab.training.shards import Utterance

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner

MADE_BY = (
    *(f"whispertide_lab.training.{name}" for name in ("latecontext", "augment", "shards")),
    *by_whisper.MADE_BY,
)
USUAL, OFTEN = "every 1 s", "every 0.5 s"
# The paper's delays; it has no pilots at pauses.
EVERY = {BASE: "0.168", "every 2 s": "0.145", USUAL: "0.138", OFTEN: "0.120", AT_PAUSES: None}
GOAL = by_whisper.ABOVE[0]  # points above the server's, for the paper's 15 %
PARTS = (BASE, USUAL, "no collapse", "no length cap", "no leap", "the decoder alone")


def frequency_table(runner: "Runner") -> Outcome:
    """Pilot inference, table 4: the delay by how often pilots run, alone and with a server."""
    if not _is_own(runner):
        return by_whisper.frequency_table(runner)
    said, ways = commands_of(runner), by_ways(runner, tuple(EVERY), runner.models[0])
    base = ways[BASE].wait_mean_s
    rows = tuple(
        (
            name,
            f"{way.delay:.4f}",
            f"{base / way.wait_mean_s:.2f}",
            *_measured(way),
            report.number(way.energy_j_per_s, 2),
            delay,
            None if delay is None else f"{0.168 / float(delay):.2f}",
        )
        for (name, way), delay in zip(ways.items(), EVERY.values(), strict=True)
    )
    columns = ("pilots", "delay, of real time", "times less", *_MEASURED, by_whisper.JOULES)
    alone = Table((*columns, "paper: delay, of real time", "paper: times less"), rows)
    sent = () if is_late(Path(runner.models[-1])) else (_sent_by_way(runner),)
    return Outcome((alone, *sent), note=f"{_about(runner, said)} {by_whisper.ENERGY}")


def _sent_by_way(runner: "Runner") -> Table:
    """How many must be sent by the perplexity of the newest guess, and the delay, by how often there is one."""
    rows = []
    for name in tuple(EVERY)[1:]:
        heard, _ = _both(runner, name)
        scores = [one.signals["perplexity"] for one in heard]
        each = choice("perplexity", heard, scores)
        sent = needed(each.errors, GOAL / 100)
        delay = by_whisper.delay_with(heard, scores, sent)
        rows.append((name, f"{100 * sent / len(heard):.1f}", f"{delay:.4f}"))
    columns = ("pilots", f"sent for +{GOAL:g} points, %", "delay, of real time")
    told = "With a server. The paper: guesses every 0.5 s send 14 % fewer than guesses every 2 s, for 15 % word errors"
    return Table(columns, tuple(rows), told)


def ablation_figure(runner: "Runner") -> Outcome:
    """Pilot inference, figure 5: what each part of pilot decoding does, in the first network and in its rivals."""
    if not _is_own(runner):
        return by_whisper.ablation_figure(runner)
    said, rows, bars = commands_of(runner), [], []
    for colour, model in enumerate((runner.models[0], *_rivals(runner))):
        ways = by_ways(runner, PARTS, model)
        usual = ways[USUAL].wait_mean_s
        for part, way in ways.items():
            name = f"{Path(model).name}: {part}"
            rows.append((name, f"{way.wait_mean_s / usual:.2f}", *_measured(way)))
            bars.append(plots.Bar(name, 1000 * way.wait_mean_s, colour=colour))
    caption = "The wait after the end of speech, without each part"
    drawn = Plot(plots.bars(bars, x_label="wait, mean (ms)", title=caption.lower()), caption)
    note = (
        f"{_about(runner, said)} Length cap: the paper's length prediction. Collapse: its reduced beam. Leap: its "
        "speedup of CTC's prefix scores. The decoder alone: without CTC. All but the first have a pilot every second."
    )
    return Outcome((Table(("pilots", "times the usual", *_MEASURED), tuple(rows)),), (drawn,), note)


def sending_table(runner: "Runner") -> Outcome:
    """Pilot inference, table 5: how many inputs are sent, and the delay, for some word errors."""
    return by_whisper.sending(*_both(runner))


def trade_off_figure(runner: "Runner") -> Outcome:
    """Pilot inference, figure 4: errors against delay as more and more is sent; of commands also the intents, and what
    the other networks do alone.
    """
    heard, about = _both(runner)
    words = by_whisper.trade_off(heard, about)
    if not _is_own(runner):
        return words
    said, curves, rows = commands_of(runner), list[Curve](), list[tuple[str, str, str, str]]()
    shares = by_whisper.grid_of(heard)
    for each, scores in by_whisper.scored_choices(heard):
        name, right = by_whisper.called(each), intents_right(heard, scores)
        delays = tuple(by_whisper.delay_with(heard, scores, sent) for sent in shares)
        curves.append(Curve(name, delays, tuple(right[sent] for sent in shares)))
        for what, sent in (("none", 0), ("half", len(heard) // 2), ("all", len(heard))):
            delay = f"{by_whisper.delay_with(heard, scores, sent):.4f}"
            rows.append((f"{name}, {what} sent", delay, report.percent(each.errors[sent]), f"{right[sent]:.1f}"))
    for model in _rivals(runner):
        for pilots, way in by_ways(runner, (BASE, USUAL, OFTEN), model).items():
            row = (f"{Path(model).name} alone, {pilots}", f"{way.delay:.4f}", report.percent(way.wer))
            rows.append((*row, f"{100 * way.intents:.1f}"))
    caption = "Intents against delay, from all here to all sent"
    drawn = scatter(curves, x_label="delay, of real time", y_label="intents right (%)", title=caption.lower())
    columns = ("system", "delay, of real time", "WER %", "intents right %")
    title = f"Intents, and the other networks on {len(said)} commands"
    return Outcome(
        (*words.tables, Table(columns, tuple(rows), title)), (*words.plots, Plot(drawn, caption)), words.note
    )


def intents_right(heard: Sequence[Both], scores: Sequence[float] | None) -> list[float]:
    """Per cent of right intents with the first 0, 1, 2 ... commands sent; by chance on average."""
    here, there = (
        100 * sum(kind) / len(heard)
        for kind in ([one.local_right for one in heard], [one.remote_right for one in heard])
    )
    if scores is None:
        return [float(share) for share in np.linspace(here, there, len(heard) + 1)]
    gains = [heard[at].remote_right - heard[at].local_right for at in in_order(scores)]
    return [here + 100 * float(gain) / len(heard) for gain in np.cumsum([0, *gains])]


def selection_figure(runner: "Runner") -> Outcome:
    """Pilot inference, figure 6: of the inputs that the server hears better, and of the others, how many are sent."""
    return by_whisper.selection(*_both(runner))


def _is_own(runner: "Runner") -> bool:
    return is_late(Path(runner.models[0]))


def _rivals(runner: "Runner") -> list[str]:
    """Other networks among the models that a stream can be made of."""
    late = (model for model in runner.models[1:] if is_late(Path(model)))
    return [model for model in late if load_late(Path(model)).dims.kind != "rnnt"]


_MEASURED = (
    *("wait mean ms", "p90 ms", "no final text", "WER %", "intents right %", "of last guesses %"),
    "processor s per s",
)


def _measured(way: Score) -> tuple[str, ...]:
    waits = (f"{1000 * wait:.1f}" for wait in (way.wait_mean_s, way.wait_p90_s))
    guessed = report.number(None if way.early is None else 100 * way.early, 1)
    shares = report.percent(way.wer), f"{100 * way.intents:.1f}", guessed
    return (*waits, str(way.unanswered), *shares, f"{way.cpu_s_per_s:.3f}")


def by_ways(runner: "Runner", names: Sequence[str], model: str) -> dict[str, Score]:
    """Every command by each way."""
    heard = heard_by(runner, model)
    return {name: score(heard[name]) for name in names}


def heard_by(runner: "Runner", model: str) -> dict[str, list[CommandResult]]:
    """What comes of every command, by every way."""
    names, kind = tuple(dict.fromkeys((*EVERY, *PARTS))), dict[str, list[CommandResult]]
    made = partial(_hear, runner, names, model)
    return runner.kept(f"commands: {', '.join(names)}", kind, made, *MADE_BY, models=(model,))


def _hear(runner: "Runner", names: Sequence[str], model: str) -> dict[str, list[CommandResult]]:
    """Each command by every way before the next one, so that a busy moment hits all."""
    said = commands_of(runner)
    options = EngineOptions(threads=thread_count(runner.setup.engine), precision="fp32")
    network = LateModel.open(Path(model), options)
    found: dict[str, list[CommandResult]] = {name: [] for name in names}
    for name in found:
        hear(network, utterance_of(said[0]), WAYS[name])  # once without counting
    for one in by_whisper.watched(runner, f"pilots: {Path(model).name}", said):
        for name, heard in found.items():
            heard.append(hear(network, utterance_of(one), WAYS[name]))
    return found


def utterance_of(said: Sentence) -> Utterance:
    """A command as shards have it."""
    return Utterance(to_int16(said.audio.astype(np.float64)), " ".join(said.words), "", None, intent=said.intent)


def commands_of(runner: "Runner") -> list[Sentence]:
    """Those of the corpus. Raises `OptionError` where it has none."""
    found = [one for one in by_whisper.all_sentences(runner) if one.intent is not None]
    if not found:
        raise OptionError(
            f"expected a corpus of commands for {runner.models[0]}: commands:FOLDER, of `whispertide train commands`; "
            f"got {runner.corpus.name}"
        )
    return found


def _both(runner: "Runner", way: str = USUAL) -> tuple[list[Both], str]:
    """All commands that had a pilot and a final text, understood here and heard by the server, and what they are."""
    if not _is_own(runner):
        return by_whisper.both(runner)
    here, there = runner.models[0], by_whisper.server_of(runner)
    said = commands_of(runner)
    name, measure = f"commands sent: {way}", partial(_sent, runner, said, way)
    heard = runner.kept(name, list[Both], measure, *MADE_BY, models=(here, there))
    if not heard:
        raise OptionError(f"expected commands that are long enough for a pilot; {runner.corpus.name} has none")
    trip, rate = by_whisper.LINK
    return heard, (
        f"{_about(runner, said)} {len(heard)} had a pilot, {way}, and a final text. {Path(there).name} on the server, "
        f"which has no intents: its words alone tell them. A round trip of {trip:g} s and {rate / 1e6:g} Mbit/s."
    )


def _sent(runner: "Runner", said: Sequence[Sentence], way: str) -> list[Both]:
    """Those that had a pilot and a final text, heard by the server too. Where the server's words mean nothing, what was
    understood here stands.
    """
    checkpoint, found = load_late(Path(runner.models[0])), []
    here = heard_by(runner, runner.models[0])[way]
    for one, heard, (text, took) in zip(said, here, _there(runner, said), strict=True):
        if heard.perplexity is None or heard.wait_s is None:
            continue
        meant = checkpoint.meaning(plain(text))
        found.append(
            Both(
                heard.words,
                heard.speech_s,
                {"perplexity": heard.perplexity},
                heard.errors,
                heard.wait_s,
                errors_in(text, one),
                took,
                heard.right,
                heard.right if meant is None else meant.intent == one.intent,
            )
        )
    return found


def _there(runner: "Runner", said: Sequence[Sentence]) -> list[tuple[str, float]]:
    """What the server hears of each, and the processor seconds it takes."""

    def measure() -> list[tuple[str, float]]:
        server = runner.transcriber(by_whisper.server_of(runner))
        server.warm_up()
        return [heard_there(server, one) for one in by_whisper.watched(runner, "heard by the server", said)]

    kind, models = list[tuple[str, float]], (by_whisper.server_of(runner),)
    return runner.kept("commands there", kind, measure, *MADE_BY, models=models)


def _about(runner: "Runner", said: Sequence[Sentence]) -> str:
    seconds = sum(len(one.audio) for one in said) / SAMPLE_RATE
    return (
        f"{len(said)} commands of {runner.corpus.name}, {seconds:.0f} s, {Path(runner.models[0]).name}, a network of "
        "late contextualisation. Waits are processor time."
    )
