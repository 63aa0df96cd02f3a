"""NPUsper's comparisons of whole systems: tables 1, 5, 6 and figures 7, 8, 11 (arXiv 2607.01108), of the same cells.

As in the paper every system has a round every 2 s; figure 7 has each at its own step besides. Times are computed on the
processor, so table 6, where the paper does the same, is the one to compare with. Where the paper measures power, the
processor's time stands in its place.

Some of the paper's systems end before the audio does. Ours cannot: what is late is computed later. What such a run
would have lost is the text that was not confirmed yet when the audio ended, and that is what table 5 has in its place.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from whispertide.errors import CheckpointNotFoundError
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import parse_overrides
from whispertide.tuning.page import Table
from whispertide_lab.evaluation import plots, report
from whispertide_lab.evaluation.bootstrap import UNITS, Ratio, by_unit, times, units_in
from whispertide_lab.evaluation.items.whisperflow import load_curve
from whispertide_lab.evaluation.marks import latency_marks
from whispertide_lab.evaluation.paper import Outcome, Plot
from whispertide_lab.evaluation.views import look
from whispertide_lab.evaluation.wer import align

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner
    from whispertide_lab.evaluation.store import Cell
    from whispertide_lab.evaluation.trace import RoundCost, Trace
    from whispertide_lab.speech.utterance import Utterance

STEP_S = 2.0  # between the rounds of every system, as in the paper
SYSTEM = "npusper"


@dataclass(frozen=True, slots=True)
class System:
    """A system of the paper, or ours: its recipe, and how that is changed to be it; at a fixed step `at_step` too."""

    name: str
    recipe: str
    changes: tuple[str, ...] = ()
    at_step: tuple[str, ...] = ()


SYSTEMS = (
    System("Whisper-Streaming", "whisper-streaming"),
    System("WhisperFlow", "whisperflow", at_step=("schedule=fixed",)),
    System("SimulStreaming", "simulstreaming"),
    System("Simul-Whisper", "simulstreaming", ("truncate=detector",)),
    System("NPUsper", SYSTEM),
    System("tide", "tide", at_step=("schedule=fixed",)),
)
# Table 5: system, corpus, then word and character errors of the whole text and of what was reached, per cent
PUBLISHED_ERRORS = (
    ("Whisper-Streaming", "Meanwhile", "30.69±24.23", "24.89±25.07", "11.79±6.32", "5.29±8.62"),
    ("WhisperFlow", "Meanwhile", "25.13±22.95", "18.69±23.89", "16.64±19.56", "9.58±20.72"),
    ("SimulStreaming", "Meanwhile", "12.06±4.00", "5.40±1.89", "–", "–"),
    ("Simul-Whisper", "Meanwhile", "12.93±4.49", "5.85±2.20", "–", "–"),
    ("NPUsper", "Meanwhile", "16.36±11.21", "8.44±6.29", "–", "–"),
    ("Whisper-Streaming", "TED-LIUM 3", "91.15±5.16", "90.09±5.73", "11.04±3.56", "2.81±1.08"),
    ("WhisperFlow", "TED-LIUM 3", "90.25±18.95", "89.63±19.70", "32.73±41.22", "29.04±43.47"),
    ("SimulStreaming", "TED-LIUM 3", "11.26±3.34", "3.36±1.11", "–", "–"),
    ("Simul-Whisper", "TED-LIUM 3", "11.40±2.90", "3.53±1.12", "–", "–"),
    ("NPUsper", "TED-LIUM 3", "14.18±2.94", "5.46±1.26", "–", "–"),
)


# --- what is measured ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """A system's cell on one model."""

    system: System
    model: str
    cell: "Cell"
    length_s: Callable[[float], float]  # of a window, to the encoder

    @property
    def rounds(self) -> "list[RoundCost]":
        """Of all recordings."""
        return [cost for trace in self.cell.traces() for cost in trace.rounds]

    @property
    def label(self) -> str:
        """With the model's name."""
        return f"{self.model}: {self.system.name}"


def _at_step(runner: "Runner") -> tuple[list[Measured], str]:
    """Every system with a round every 2 s on every model, and what is said of those that cannot run."""
    return _measure(runner, STEP_S)


def _measure(runner: "Runner", step_s: float | None) -> tuple[list[Measured], str]:
    found, missing = [], []
    for model in runner.models:
        for system in SYSTEMS:
            changes = system.changes + (system.at_step if step_s is not None else ())
            try:
                cell = runner.cell(system.recipe, *changes, model=model, step_s=step_s)
            except CheckpointNotFoundError as reason:
                missing.append(f"{system.name} with {Path(model).name}: {reason}")
                continue
            framed = runner.transcriber(model).framed(parse_overrides(get_recipe(system.recipe), changes)).recipe
            found.append(Measured(system, Path(model).name, cell, framed.framing.length_s))
    return found, f" Not measured: {'; '.join(missing)}." if missing else ""


# --- tables 5 and 6 --------------------------------------------------------------------------------------------------


def errors_table(runner: "Runner") -> Outcome:
    """NPUsper, table 5: word and character errors of each recording."""
    measured, missing = _at_step(runner)
    rows = []
    for one in measured:
        whole, ended, reached = zip(*_errors(runner, one), strict=True)
        rows.append((one.label, str(len(whole)), *(text for kind in (whole, ended, reached) for text in spread(kind))))
    kinds = ("", " when the audio ended", " of what was reached then")
    columns = ("system", "recordings", *(f"{what} %{kind}" for kind in kinds for what in ("WER", "CER")))
    paper = ("system", "corpus", "WER %", "CER %", "WER % of what was reached", "CER % of what was reached")
    note = (
        f"Mean and standard deviation over the recordings of {runner.corpus.name}, a round every {STEP_S:g} s. "
        "Reached: up to the last word of the reference that is right when the audio ends. The paper's are with Whisper "
        f"base; some of its systems end before the audio does, ours never do.{missing}"
    )
    return Outcome((Table(columns, tuple(rows)), Table(paper, PUBLISHED_ERRORS, "The paper's")), note=note)


def _errors(runner: "Runner", one: Measured) -> "list[tuple[Rates, Rates, Rates]]":
    """Of each recording, as `errors_of` has them."""
    said = {utterance.id: utterance for utterance in runner.corpus.utterances()}
    return [errors_of(said[trace.utterance], trace) for trace in one.cell.traces()]


Rates = tuple[float, float] | None


def errors_of(utterance: "Utterance", trace: "Trace") -> tuple[Rates, Rates, Rates]:
    """Errors per word and per character, in per cent: of the final text, of the text that was confirmed when the audio
    ended, and of that against the reference up to the last word that is right. None where there is nothing to hear.
    """
    said = [word.text for word in utterance.words]
    final = look(trace, utterance.language).words
    shown = tuple(view for view in trace.shown if view.at_s <= trace.audio_s)
    ended = look(replace(trace, shown=shown), utterance.language).words
    right = align(said, ended, utterance.language).matched_words()
    reached = said[: max(right, default=-1) + 1]
    pairs = ((said, final), (said, ended), (reached, ended))
    whole, early, part = (_rates(reference, text, utterance.language) for reference, text in pairs)
    return whole, early, part


def _rates(reference: Sequence[str], text: Sequence[str], language: str) -> Rates:
    found = align(reference, text, language)
    if found.words.rate is None or found.characters.rate is None:
        return None
    return 100 * found.words.rate, 100 * found.characters.rate


def spread(found: Sequence[Rates]) -> tuple[str, str]:
    """Mean ± standard deviation of both, over recordings that have them, and how many these are if not all."""
    known = np.array([rates for rates in found if rates is not None])
    if not len(known):
        return "–", "–"
    some = f" ({len(known)} of {len(found)})" if len(known) < len(found) else ""
    both = zip(known.mean(axis=0), known.std(axis=0), strict=True)
    words, letters = (f"{mean:.1f}±{std:.1f}{some}" for mean, std in both)
    return words, letters


def processor_table(runner: "Runner") -> Outcome:
    """NPUsper, table 6: all systems on the processor alone, a round every 2 s."""
    measured, missing = _at_step(runner)
    rows = []
    for one in measured:
        rounds, score = one.rounds, one.cell.score
        if not rounds:
            continue
        slow = sum(cost.seconds > STEP_S for cost in rounds)
        reached, _ = spread([rates for _, _, rates in _errors(runner, one)])
        rows.append(
            (
                one.label,
                report.percent(score["wer"]),
                reached,
                report.latency(score),
                f"{statistics.mean(one.length_s(cost.window_s) for cost in rounds):.1f}",
                *(f"{1000 * mean:.0f}" for mean in stages(rounds).values()),
                f"{100 * slow / len(rounds):.0f}",
            )
        )
    words = ("WER %", "WER % of what was reached", "latency of words s")
    columns = ("system", *words, "input s", *(f"{stage} ms" for stage in _STAGES))
    note = (
        f"Means over the rounds on {runner.corpus.name}. Reached: as in table 5, mean and standard deviation over the "
        "recordings. Input: what the encoder gets, with its padding. Decoding has "
        "the prompt in it. The last column: rounds that took longer than the step, in which a "
        f"live system falls back.{missing}{_caution(measured)}"
    )
    return Outcome((Table((*columns, "rounds over the step %"), tuple(rows)),), note=note)


_STAGES = ("log-mel", "encoding", "decoding", "word times")


def stages(rounds: "Sequence[RoundCost]") -> dict[str, float]:
    """Mean seconds of each stage of a round."""
    taken = [(cost.features_s, cost.encoder_s, cost.decode_s, cost.align_s) for cost in rounds]
    return {stage: statistics.mean(column) for stage, column in zip(_STAGES, zip(*taken, strict=True), strict=True)}


# --- figures 7 and 8 -------------------------------------------------------------------------------------------------


def word_figure(runner: "Runner") -> Outcome:
    """NPUsper, figure 7: how late words are, and how many are wrong, at the paper's step and at each system's own."""
    measured, missing = _at_step(runner)
    own, _ = _measure(runner, None)
    late = [*_bars(measured, f"every {STEP_S:g} s", 0), *_bars(own, "own step", 1)]
    wrong = [plots.Bar(f"{one.label}, every {STEP_S:g} s", 100 * one.cell.score["wer"]) for one in measured]
    wrong += [plots.Bar(f"{one.label}, own step", 100 * one.cell.score["wer"], colour=1) for one in own]
    table = report.cells_table([one.cell for one in (*measured, *own)], (*report.QUALITY, *report.LATENCY))
    drawn = tuple(
        Plot(plots.bars(bars, x_label=label, title=caption.lower()), caption)
        for bars, label, caption in (
            (late, "latency of confirmed words, mean (s)", "How late words are confirmed"),
            (wrong, "WER (%)", "Word errors of the confirmed text"),
        )
    )
    note = f"{_times_sooner(measured)} The paper: 1.71 to 4.62 times on a phone, 1.69 to 4.84 on a laptop.{missing}"
    return Outcome((table,), drawn, note + _caution((*measured, *own)))


def _bars(measured: Sequence[Measured], step: str, colour: int) -> list[plots.Bar]:
    """How late each confirms words, if it does."""
    return [
        plots.Bar(f"{one.label}, {step}{latency_marks(one.cell.score)}", value, colour=colour)
        for one in measured
        if (value := _late(one))
    ]


def _caution(measured: Sequence[Measured]) -> str:
    """What ends a note about latencies that are marked."""
    return "".join(f" {line}" for line in report.mark_notes(one.cell.score for one in measured))


def _late(one: Measured) -> float | None:
    value: float | None = one.cell.score["confirmed_mean_s"]
    return value


def _times_sooner(measured: Sequence[Measured]) -> str:
    """How many times sooner NPUsper confirms than each other system, model by model; marked as both latencies are."""
    parts = []
    for model, members in _by_model(measured):
        late = {one.system: value for one in members if (value := _late(one))}
        base = next((one for one in members if one.system.recipe == SYSTEM and one.system in late), None)
        if base is None:
            continue
        others = [
            f"{one.system.name} {late[one.system] / late[base.system]:.2f}"
            f"{latency_marks(one.cell.score, base.cell.score)}"
            for one in members
            if one.system.recipe != SYSTEM and one.system in late
        ]
        parts.append(f"{model}: {', '.join(others)}")
    return f"With a round every {STEP_S:g} s, how many times later than NPUsper others confirm. {'; '.join(parts)}."


def _by_model(measured: Sequence[Measured]) -> Iterator[tuple[str, list[Measured]]]:
    for model in dict.fromkeys(one.model for one in measured):
        yield model, [one for one in measured if one.model == model]


def stage_figure(runner: "Runner") -> Outcome:
    """NPUsper, figure 8: what an inference takes, stage by stage, and when the first text comes."""
    measured, missing = _at_step(runner)
    rows, bars = [], []
    for _, members in _by_model(measured):
        taken = [(one, stages(rounds)) for one in members if (rounds := one.rounds)]
        base = next((one for one, _ in taken if one.system.recipe == SYSTEM), None)
        for one, means in taken:
            bars.append((one.label, {stage: 1000 * mean for stage, mean in means.items()}))
            first = (_first_text_ms(one), report.latency(one.cell.score, "ttft_s"))
            rows.append((one.label, *(f"{1000 * mean:.0f}" for mean in means.values()), *_against(one, base), *first))
    firsts = ("first text, from the start of its round ms", "first text s")
    spent = ("processor ms", "times NPUsper's", "95 % interval")
    columns = ("system", *(f"{stage} ms" for stage in _STAGES), *spent, *firsts)
    caption = "What a round takes, stage by stage"
    drawing = plots.stacked(bars, x_label="mean over the rounds (ms)", title=caption.lower())
    note = (
        f"A round every {STEP_S:g} s on one processor for all stages. Stages are in the wall's time, what is compared "
        f"in the processor's; intervals are over {UNITS}. The paper: other systems' inferences take 5.52 to 13.09 "
        "times as long on a phone and 7.92 to 19.10 on a laptop, with theirs on a GPU and NPUsper's on an NPU. It "
        "times the first text from the start of an inference, which is 2.2 to 14.2 times sooner than with "
        f"others. In seconds it is from the beginning of the first word.{missing}{_caution(measured)}"
    )
    return Outcome((Table(columns, tuple(rows)),), (Plot(drawing, caption),), note)


def _spent(one: Measured) -> list[Ratio]:
    """Processor seconds and rounds, unit by unit."""
    rows = one.cell.utterances
    unit = dict(zip((row["id"] for row in rows), units_in(rows), strict=True))
    traces = list(one.cell.traces())
    spent = [(sum(cost.cpu_s or 0.0 for cost in trace.rounds), float(len(trace.rounds))) for trace in traces]
    return by_unit(spent, [unit[trace.utterance] for trace in traces])


def _against(one: Measured, base: Measured | None) -> tuple[str, str, str]:
    """What a round takes of the processor, and how many times what one of `base` takes that is, with its interval."""
    spent = _spent(one)
    mean = f"{1000 * sum(taken for taken, _ in spent) / sum(rounds for _, rounds in spent):.0f}"
    if base is None or not any(taken for taken, _ in _spent(base)):
        return mean, "–", "–"
    found, low, high = times(spent, _spent(base))
    return mean, f"{found:.2f}", f"{low:.2f} to {high:.2f}"


def _first_text_ms(one: Measured) -> str:
    """The mean over the recordings that have a text."""
    found = [taken for trace in one.cell.traces() if (taken := first_text_taken_s(trace)) is not None]
    return f"{1000 * statistics.mean(found):.0f}" if found else "–"


def first_text_taken_s(trace: "Trace") -> float | None:
    """Seconds from the start of the round that gave the first text to that text, as NPUsper's section 5.1 has it; None
    where no text came.
    """
    at_s = next((shown.at_s for shown in trace.shown if shown.confirmed or shown.hypothesis), None)
    if at_s is None or not trace.rounds:
        return None
    # a round that is late begins when the one before it ends, so the end tells which of them it was
    given = min(trace.rounds, key=lambda cost: abs(cost.start_s + cost.seconds - at_s))
    return at_s - given.start_s


# --- table 1 and figure 11: the processor's time in place of power -------------------------------------------------


def work_table(runner: "Runner") -> Outcome:
    """NPUsper, table 1, with processor seconds in place of joules."""
    measured, missing = _at_step(runner)
    rows = []
    for one in measured:
        rounds = one.rounds
        tokens, spent = sum(cost.tokens for cost in rounds), sum(cost.cpu_s or 0.0 for cost in rounds)
        active = sum(sum((cost.encode_s, cost.decode_s, cost.align_s)) for cost in rounds)
        if not (rounds and tokens and active):
            continue
        rows.append(
            (
                one.label,
                f"{one.cell.score['cpu_s_per_s']:.3f}",
                f"{1000 * spent / len(rounds):.0f}",
                f"{1000 * spent / tokens:.1f}",
                f"{tokens / active:.1f}",
                report.number(one.cell.score.get("energy_j_per_s"), 2),
            )
        )
    busy = ("CPU s per s of audio", "CPU ms per round", "CPU ms per token")
    columns = ("system", *busy, "tokens per s of computing", "energy J per s of audio")
    note = (
        "Processor time in place of watts, and joules of the whole machine where it tells them (RAPL); a round every "
        f"{STEP_S:g} s. Tokens are all that were decoded. "
        f"The paper: NPUsper on an NPU 0.46 W and 112.9 tokens per second, others on a GPU 10.1 to 83.8.{missing}"
    )
    return Outcome((Table(columns, tuple(rows)),), note=note)


def load_figure(runner: "Runner") -> Outcome:
    """NPUsper, figure 11, with processor time in place of power."""
    measured, missing = _at_step(runner)
    curves = [replace(load_curve(one.cell), label=one.label) for one in measured]
    drawing = plots.over_time(curves, y_label="processor time (% of one core)", title="load over time")
    caption = "Processor time over audio time"
    note = f"Not power: this machine has no meter we read. A round every {STEP_S:g} s.{missing}"
    return Outcome(plots=(Plot(drawing, caption),), note=note)
