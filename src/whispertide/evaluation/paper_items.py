"""How the tables and figures of the papers are measured, one function per item; `paper` says which belongs where.

Each takes a `Runner`, which measures and remembers cells, and gives an `Outcome`. Where a paper's own definition
flatters itself (truncated timers, truncated texts) ours is used instead.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whispertide.errors import OptionError
from whispertide.evaluation import charts, plots, report
from whispertide.evaluation.page import Table
from whispertide.evaluation.paper import Outcome, Plot
from whispertide.evaluation.trace import Utterance
from whispertide.types import SAMPLE_RATE, FloatArray, to_samples

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.evaluation.runner import Runner
    from whispertide.evaluation.store import Cell

BASELINE = "whisper-streaming"
BEAM_STEPS = (0.5, 0.75, 1.0)  # WhisperFlow, table 4
BEAM_WAYS = (
    (),
    ("search=pruned", "prune_align=first", "prune_recover=false"),
    ("search=pruned", "prune_align=time"),
    ("search=verified",),
)
STEPS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # WhisperFlow, figure 8
QUICK_STEPS = (0.5, 1.0, 2.0)
PAD_SECONDS = (1, 2, 3, 4, 5)
NOISE_BELOW_DB = 30.0  # of the white noise behind a clip, measured from the clip's own level
CLIP_S, CLIPS, QUICK_CLIPS = 10.0, 200, 12
_BIN_S = 5.0


# --- WhisperFlow, table 1 and figure 11: what padding costs and what its absence costs --------------------------------


@dataclass(frozen=True, slots=True)
class Padded:
    """A way to end a clip, and what came of it over all clips; rates are shares of the reference words."""

    name: str
    seconds: float
    gflop_per_s: float
    wer: float
    insertions: float


def padding_table(runner: "Runner") -> Outcome:
    """WhisperFlow, table 1: 30 s, none, zeros and noise."""
    rows = tuple(
        (row.name, f"{row.gflop_per_s:.2f}", report.percent(row.wer), report.percent(row.insertions))
        for row in _paddings(runner)
    )
    table = Table(("padding", "encoder GFLOP per audio second", "WER %", "insertions %"), rows)
    return Outcome(tables=(table,), note=_about_clips(runner))


def padding_figure(runner: "Runner") -> Outcome:
    """WhisperFlow, figure 11: WER over the length of the padding."""
    rows = _paddings(runner)
    by_name = {row.name: row for row in rows}
    curves = [
        plots.Curve(
            kind,
            tuple(row.seconds for row in members),
            tuple(100 * row.wer for row in members),
        )
        for kind in ("zeros", "noise")
        if (members := [by_name["none"], *(row for row in rows if row.name.startswith(kind))])
    ]
    svg = plots.scatter(
        curves,
        x_label="padding (s)",
        y_label="WER (%)",
        title="WER over padding",
        levels=[plots.Line("padded to 30 s", 100 * by_name["30 s"].wer)],
    )
    return Outcome(plots=(Plot(svg, "Word error rate over the length of naive paddings"),), note=_about_clips(runner))


def _about_clips(runner: "Runner") -> str:
    return (
        f"Clips of at most {CLIP_S:g} s, cut from {runner.corpus.name} at pauses, each transcribed by itself by "
        f"{runner.models[0]} with beam 5; padding is put behind the samples, noise {NOISE_BELOW_DB:g} dB below the "
        "clip."
    )


def _paddings(runner: "Runner") -> list[Padded]:
    return runner.once("paddings", lambda: _measure_paddings(runner))


def _measure_paddings(runner: "Runner") -> list[Padded]:
    transcriber = runner.transcriber(runner.models[0])
    chosen = list(_clips_of(runner, QUICK_CLIPS if runner.quick else CLIPS))
    if not chosen:
        raise OptionError(
            f"expected a corpus whose words have exact times, to cut it into clips; {runner.corpus.name} has none: "
            "use --corpus talks"
        )
    ways: list[tuple[str, float, Callable[[FloatArray], FloatArray]]] = [
        ("30 s", 30.0, lambda clip: clip),
        ("none", 0.0, lambda clip: clip),
        *((f"zeros {s} s", s, lambda clip, s=s: np.pad(clip, (0, s * SAMPLE_RATE))) for s in PAD_SECONDS),
        *((f"noise {s} s", s, lambda clip, s=s: _with_noise(clip, s)) for s in PAD_SECONDS),
    ]
    return [_measure_padding(transcriber, chosen, name, length, way) for name, length, way in ways]


def _measure_padding(
    transcriber: "Transcriber",
    chosen: Sequence[tuple[tuple[str, ...], FloatArray]],
    name: str,
    length: float,
    way: Callable[[FloatArray], FloatArray],
) -> Padded:
    from whispertide.evaluation.wer import Counts, align

    counts, gflop, amount = Counts(), 0.0, 0
    for words, clip in chosen:
        heard, spent = _hear(transcriber, way(clip), framing="pad30" if name == "30 s" else "bare")
        counts += align(words, heard).words
        gflop += spent
        amount += len(clip)
    return Padded(
        name,
        length,
        gflop / (amount / SAMPLE_RATE),
        counts.errors / counts.reference,
        counts.insertions / counts.reference,
    )


def _hear(transcriber: "Transcriber", samples: FloatArray, *, framing: str) -> tuple[list[str], float]:
    """The words of a clip of at most 30 s, and the encoder's GFLOP."""
    from whispertide.decoding.longform import Features, Transcription
    from whispertide.evaluation.flops import encoder_gflop
    from whispertide.options import DecodeOptions
    from whispertide.streaming.framing import get_framing

    model = transcriber.model
    features = Features.of([samples], model.dims.n_mels)
    options = DecodeOptions(language="en", beam=5, word_timestamps=False)
    spent: list[float] = []
    inner = get_framing(framing)

    def frame(whisper: "object", mel: FloatArray) -> "object":
        encoded = inner(model, mel)
        spent.append(encoder_gflop(model.dims, encoded.frames))
        return encoded

    transcription = Transcription(model, features, options, "en", seek=0, end=features.frames, frame=frame)  # type: ignore[arg-type]
    words: list[str] = []
    while not transcription.done:
        for segment in transcription.next_window():
            words += segment.text.split()
    return words, sum(spent)


def _with_noise(clip: FloatArray, length: int) -> FloatArray:
    level = float(np.sqrt(np.mean(np.square(clip)))) * 10 ** (-NOISE_BELOW_DB / 20)
    noise = np.random.default_rng(0).standard_normal(length * SAMPLE_RATE) * level
    return np.concatenate([clip, noise.astype(np.float32)])


def _clips_of(runner: "Runner", most: int) -> Iterator[tuple[tuple[str, ...], FloatArray]]:
    count = 0
    for utterance in runner.corpus.utterances():
        if utterance.exact_times:
            for clip in clips(utterance):
                yield clip
                count += 1
                if count == most:
                    return


def clips(
    utterance: Utterance, *, longest_s: float = CLIP_S, pause_s: float = 0.25, shortest_s: float = 2.0
) -> Iterator[tuple[tuple[str, ...], FloatArray]]:
    """Words and samples of stretches cut in the middle of a pause, or between two words where none comes in time."""
    audio = utterance.audio()
    words = [(word.text, word.start, word.end) for word in utterance.words]
    begin, first = 0, 0
    for place, (_, _, end) in enumerate(words):
        last = place + 1 == len(words)
        after = len(audio) if last else words[place + 1][1]
        following = len(audio) if last else words[place + 1][2]
        assert end is not None
        assert after is not None
        assert following is not None
        paused = after - end >= to_samples(pause_s) and end - begin >= to_samples(shortest_s)
        if last or paused or following - begin > to_samples(longest_s):
            cut = len(audio) if last else (end + max(after, end)) // 2
            cut = min(cut, begin + to_samples(longest_s) + to_samples(1.0))
            yield tuple(text for text, _, _ in words[first : place + 1]), audio[begin:cut]
            begin, first = max(cut, after - to_samples(pause_s)), place + 1


# --- WhisperFlow, the baseline's share -----------------------------------------------------------------------------


def stage_table(runner: "Runner") -> Outcome:
    """WhisperFlow, table 2: what each stage of a round takes on this machine's processor."""
    rows = []
    for model in runner.models:
        rounds = [cost for trace in runner.cell(BASELINE, model=model).traces() for cost in trace.rounds]
        if not rounds:
            continue
        stages = ([cost.encode_s for cost in rounds], [cost.decode_s for cost in rounds], [c.align_s for c in rounds])
        rows.append((model, *(f"{1000 * float(np.mean(stage)):.0f}" for stage in stages), str(len(rounds))))
    columns = ("model", "encode ms", "decode ms", "word times ms", "rounds")
    return Outcome(tables=(Table(columns, tuple(rows)),), note="Means over the rounds of the baseline, on the CPU.")


def beam_table(runner: "Runner") -> Outcome:
    """WhisperFlow, table 4: the full beam, pruned as published, re-aligning, and checked in blocks."""
    cells = [runner.cell(BASELINE, *way, step_s=step) for step in BEAM_STEPS for way in BEAM_WAYS]
    columns = [
        column for column in (*report.QUALITY, *report.LATENCY, *report.COST) if column.key in _BEAM_TABLE_COLUMNS
    ]
    return Outcome(tables=(report.cells_table(cells, columns),))


_BEAM_TABLE_COLUMNS = ("wer", "confirmed_mean_s", "avg_beam", "reduce_ratio")


def model_figure(runner: "Runner") -> Outcome:
    """WhisperFlow, figure 7: latency by model, serial executor."""
    cells = [runner.cell(BASELINE, model=model) for model in runner.models]
    items = [plots.Bar(cell.spec.model, float(cell.score["confirmed_mean_s"])) for cell in cells if _is_late(cell)]
    svg = plots.bars(items, x_label="confirmed latency, mean (s)", title="latency by model")
    return Outcome(plots=(Plot(svg, "Confirmed latency by model, serial executor"),))


def step_figure(runner: "Runner") -> Outcome:
    """WhisperFlow, figure 8: the baseline's curve, offline WER as a line."""
    cells = [runner.cell(BASELINE, step_s=step) for step in (QUICK_STEPS if runner.quick else STEPS)]
    return Outcome(
        tables=(report.cells_table(cells, (*report.QUALITY, *report.LATENCY)),),
        plots=(Plot(charts.trade_off_svg(cells), "Latency against word error rate", "Each point is one step."),),
    )


def load_figure(runner: "Runner") -> Outcome:
    """WhisperFlow, figure 9: the share of time the processor is at work, in place of power."""
    cell = runner.cell(BASELINE)
    trace = max(cell.traces(), key=lambda trace: trace.audio_s, default=None)
    if trace is None or not trace.rounds:
        raise OptionError("expected a record with rounds; got none: run it again")
    count = int(trace.audio_s // _BIN_S) + 1
    busy = np.zeros(count)
    for cost in trace.rounds:
        busy[min(int(cost.start_s // _BIN_S), count - 1)] += cost.seconds
    curve = plots.Curve(
        cell.spec.label, tuple(_BIN_S * (n + 0.5) for n in range(count)), tuple(float(b) for b in 100 * busy / _BIN_S)
    )
    svg = plots.over_time([curve], y_label="time at work (%)", title="load over time")
    return Outcome(
        plots=(Plot(svg, "Processor time over audio time", "Not power: this machine has no meter we read."),)
    )


def _is_late(cell: "Cell") -> bool:
    return cell.score.get("confirmed_mean_s") is not None
