"""Pilot inference's tables 4 and 5 and figures 4, 5 and 6 by a network of the paper's own kind, on spoken commands
(arXiv 2311.17065, section 7).

It takes the place of Whisper (`evaluation.pilot_items`) where the first model is a folder of `whispertide train
latecontext`. The corpus has commands then: `commands:FOLDER`, of `whispertide train commands`. Waits are of computing
after the end of speech, by processor time. The server's model is the last one, a Whisper checkpoint. Needs no torch.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from whispertide.checkpoint.latecontext import is_late, place_of
from whispertide.errors import OptionError
from whispertide.lab.evaluation import pilot_items as by_whisper
from whispertide.lab.evaluation import plots, report
from whispertide.lab.evaluation.commands import Sentence
from whispertide.lab.evaluation.offloading import Both, asked_of, heard_there
from whispertide.lab.evaluation.page import Table
from whispertide.lab.evaluation.paper import Outcome, Plot
from whispertide.lab.speech.noise import to_int16
from whispertide.lab.training.latecontext.understood import AT_PAUSES, BASE, WAYS, CommandResult, Score, hear, score
from whispertide.lab.training.shards import Utterance
from whispertide.model.latecontext import LateModel
from whispertide.model.providers import thread_count
from whispertide.options import EngineOptions
from whispertide.types import SAMPLE_RATE

if TYPE_CHECKING:
    from whispertide.lab.evaluation.runner import Runner

FOLDER = "lab/training/latecontext/"  # what it is measured with
USUAL = "every 1 s"
# The paper's delays; it has no pilots at pauses.
EVERY = {BASE: "0.168", "every 2 s": "0.145", USUAL: "0.138", "every 0.5 s": "0.120", AT_PAUSES: None}
PARTS = (BASE, USUAL, "no collapse", "no length cap", "no leap")


def frequency_table(runner: "Runner") -> Outcome:
    """Pilot inference, table 4: the delay by how often pilots run."""
    if not _is_own(runner):
        return by_whisper.frequency_table(runner)
    said, ways = _by_ways(runner, tuple(EVERY))
    base = ways[BASE].wait_mean_s
    rows = tuple(
        (
            name,
            f"{way.delay:.4f}",
            f"{base / way.wait_mean_s:.2f}",
            *_measured(way),
            by_whisper.per_second(way.energy_j_per_s, 1.0),
            delay,
            None if delay is None else f"{0.168 / float(delay):.2f}",
        )
        for (name, way), delay in zip(ways.items(), EVERY.values(), strict=True)
    )
    columns = ("pilots", "delay, of real time", "times less", *_MEASURED, by_whisper.JOULES)
    paper = ("paper: delay, of real time", "paper: times less")
    return Outcome((Table((*columns, *paper), rows),), note=f"{_about(runner, said)} {by_whisper.ENERGY}")


def ablation_figure(runner: "Runner") -> Outcome:
    """Pilot inference, figure 5: what each part of pilot decoding does."""
    if not _is_own(runner):
        return by_whisper.ablation_figure(runner)
    said, ways = _by_ways(runner, PARTS)
    usual = ways[USUAL].wait_mean_s
    rows = tuple((name, f"{way.wait_mean_s / usual:.2f}", *_measured(way)) for name, way in ways.items())
    caption = "The wait after the end of speech, without each part"
    bars = [plots.Bar(name, 1000 * way.wait_mean_s) for name, way in ways.items()]
    drawn = Plot(plots.bars(bars, x_label="wait, mean (ms)", title=caption.lower()), caption)
    note = (
        f"{_about(runner, said)} Length cap: the paper's length prediction. Collapse: its reduced beam. Leap: its "
        "speedup of CTC's prefix scores. All but the first have a pilot every second."
    )
    return Outcome((Table(("pilots", "times the usual", *_MEASURED), rows),), (drawn,), note)


def sending_table(runner: "Runner") -> Outcome:
    """Pilot inference, table 5: how many inputs are sent, and the delay, for some word errors."""
    return by_whisper.sending(*_both(runner))


def trade_off_figure(runner: "Runner") -> Outcome:
    """Pilot inference, figure 4: errors against delay as more and more is sent."""
    return by_whisper.trade_off(*_both(runner))


def selection_figure(runner: "Runner") -> Outcome:
    """Pilot inference, figure 6: of the inputs that the server hears better, and of the others, how many are sent."""
    return by_whisper.selection(*_both(runner))


def _is_own(runner: "Runner") -> bool:
    return is_late(Path(runner.models[0]))


_MEASURED = ("wait mean ms", "p90 ms", "no final text", "WER %", "intents right %", "processor s per s")


def _measured(way: Score) -> tuple[str, ...]:
    waits = (f"{1000 * wait:.1f}" for wait in (way.wait_mean_s, way.wait_p90_s))
    shares = report.percent(way.wer), f"{100 * way.intents:.1f}"
    return (*waits, str(way.unanswered), *shares, f"{way.cpu_s_per_s:.3f}")


def _by_ways(runner: "Runner", names: Sequence[str]) -> tuple[list[Sentence], dict[str, Score]]:
    """Every command by each way."""
    said = commands_of(runner)
    heard = _heard(runner, said, tuple(dict.fromkeys((*EVERY, *PARTS))))
    return said, {name: score(heard[name]) for name in names}


def _heard(runner: "Runner", said: Sequence[Sentence], names: Sequence[str]) -> dict[str, list[CommandResult]]:
    """All commands by these ways."""
    name, kind = f"commands: {', '.join(names)}", dict[str, list[CommandResult]]
    return runner.kept(name, kind, partial(_hear, runner, said, names), FOLDER)


def _hear(runner: "Runner", said: Sequence[Sentence], names: Sequence[str]) -> dict[str, list[CommandResult]]:
    """Each command by every way before the next one, so that a busy moment hits all."""
    model = _opened(runner)
    found: dict[str, list[CommandResult]] = {name: [] for name in names}
    for name in found:
        hear(model, utterance_of(said[0]), WAYS[name])  # once without counting
    for one in by_whisper.watched(runner, "pilots", said):
        for name, heard in found.items():
            heard.append(hear(model, utterance_of(one), WAYS[name]))
    return found


def _opened(runner: "Runner") -> LateModel:
    options = EngineOptions(threads=thread_count(runner.setup.engine), precision="fp32")
    return LateModel.open(Path(runner.models[0]), options)


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


def _both(runner: "Runner") -> tuple[list[Both], str]:
    """All commands that had a pilot and a final text, understood here and heard by the server, and what they are."""
    if not _is_own(runner):
        return by_whisper.both(runner)
    here, there = runner.models[0], runner.models[-1]
    if is_late(Path(there)):
        raise OptionError(
            f"expected the network and a Whisper checkpoint for the server: --models {here},nano.en; got {there} alone"
        )
    said = commands_of(runner)
    heard = runner.kept("commands sent", list[Both], partial(_sent, runner, said), FOLDER, models=(here, there))
    if not heard:
        raise OptionError(f"expected commands that are long enough for a pilot; {runner.corpus.name} has none")
    trip, rate = by_whisper.LINK
    return heard, (
        f"{_about(runner, said)} {len(heard)} had a pilot, one every second, and a final text. {Path(there).name} on "
        f"the server, which has no intents, a round trip of {trip:g} s and {rate / 1e6:g} Mbit/s."
    )


def _sent(runner: "Runner", said: Sequence[Sentence]) -> list[Both]:
    """Those that had a pilot and a final text, heard by the server too."""
    model, server, found = _opened(runner), runner.transcriber(runner.models[-1]), []
    asked = asked_of(place_of(Path(runner.models[0])), model.checkpoint)
    server.warm_up()
    for one in by_whisper.watched(runner, "here and by the server", said):
        heard = hear(model, utterance_of(one), WAYS[USUAL], asked if asked.offramps else None)
        if heard.perplexity is not None and heard.wait_s is not None:
            errors, took = heard_there(server, one)
            signals = {"perplexity": heard.perplexity, **asked.newest}
            found.append(Both(heard.words, heard.speech_s, signals, heard.errors, heard.wait_s, errors, took))
    return found


def _about(runner: "Runner", said: Sequence[Sentence]) -> str:
    seconds = sum(len(one.audio) for one in said) / SAMPLE_RATE
    return (
        f"{len(said)} commands of {runner.corpus.name}, {seconds:.0f} s, {Path(runner.models[0]).name}, a network of "
        "late contextualisation. Waits are processor time."
    )
