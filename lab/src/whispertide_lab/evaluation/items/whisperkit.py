"""WhisperKit's figures 6, 7 and 8: both streams of text of every recipe and peer, by OpenBench's measure and by ours.

What the paper and the public result files say stands in the same table, marked as such: other audio, other machines.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whispertide.tuning.page import Table
from whispertide_lab.evaluation import charts, plots, report
from whispertide_lab.evaluation.marks import latency_marks
from whispertide_lab.evaluation.paper import Outcome, Plot
from whispertide_lab.evaluation.peer_cells import PeerMissing

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner
    from whispertide_lab.evaluation.store import Cell

SYSTEM = "whisperkit"
OTHERS = ("whisper-streaming", "whisperflow", "simulstreaming", "npusper", "whisperrt", "tide")
QUICK_OTHERS = ("whisper-streaming", "tide")


@dataclass(frozen=True, slots=True)
class Published:
    """What others say of a system; None: they say nothing. Latencies in seconds, `wer` in per cent.

    `corrections` are summed over a whole corpus, so they compare with each other only.
    """

    name: str
    hypothesis_s: float | None = None
    confirmed_s: float | None = None
    wer: float | None = None
    corrections: int | None = None


# The paper's text, 3.1 and 3.2 (TIMIT; an M3 Max for WhisperKit), then OpenBench's public result files.
PUBLISHED = (
    Published("WhisperKit, paper", 0.45, 1.7, 2.0),
    Published("Fireworks, paper", 0.45, None, 4.72),
    Published("Deepgram nova-3, paper", 0.83, 1.7, 2.0),
    Published("OpenAI gpt-4o-transcribe, paper", 1.7, 1.7, None, 0),  # it has no hypothesis
    Published("Argmax's app, causal, OpenBench", 0.38, 1.35, 3.58, 997),
    Published("Argmax's app, not causal, OpenBench", 0.63, 1.47, 2.65, 539),
)
_THEIRS = (
    "Rows marked paper or OpenBench are published figures, of other audio and other machines. The paper's own "
    "0.45 s at 2 % is in no public result file. OpenAI has no hypothesis: its words are first seen when they are "
    "confirmed, and none is corrected."
)
_CURSOR = (
    "The cursor latency is OpenBench's: what had been sent, minus the end of the last word that is right, weighted by "
    "the audio it covers. As published it counts a word that is shown ahead of time as shown at its end; unclamped it "
    "does not. Ours is from the end of a word to the moment it is shown."
)


def hypothesis_figure(runner: "Runner") -> Outcome:
    """WhisperKit, figure 6: how late a word is first seen, confirmed or not."""
    return _late(runner, "first_seen", "cursor", "hypothesis_s", "How late a word is first seen")


def confirmed_figure(runner: "Runner") -> Outcome:
    """WhisperKit, figure 7: how late a word is confirmed."""
    return _late(runner, "confirmed", "cursor_confirmed", "confirmed_s", "How late a word is confirmed")


def accuracy_figure(runner: "Runner") -> Outcome:
    """WhisperKit, figure 8: word errors of the confirmed text, and corrections of the hypothesis."""
    cells, missing = _cells(runner)
    rows = [
        (label, report.percent(score["wer"]), report.number(score["revisions_per_100"], 1), str(_corrections(cell)))
        for label, cell in cells
        for score in (cell.score,)
    ]
    rows += [
        (one.name, report.number(one.wer, 2), "–", report.number(one.corrections, 0))
        for one in PUBLISHED
        if (one.wer, one.corrections) != (None, None)
    ]
    bars = [plots.Bar(label, 100 * cell.score["wer"]) for label, cell in cells]
    bars += [plots.Bar(one.name, one.wer, colour=1) for one in PUBLISHED if one.wer is not None]
    restless = [plots.Bar(label, cell.score["revisions_per_100"] or 0.0) for label, cell in cells]
    columns = ("system", "WER %", "corrections per 100 words", "corrections")
    note = (
        "A correction is a word that is replaced, removed or put in among those that stood there (OpenBench). Only "
        f"sums over the same corpus compare. {_THEIRS}"
    )
    return Outcome(
        (Table(columns, tuple(rows)),),
        (
            Plot(plots.bars(bars, x_label="WER (%)", title="word errors of the confirmed text"), "Word errors"),
            Plot(
                plots.bars(restless, x_label="corrections per 100 words", title="corrections of what was shown"),
                "Corrections",
            ),
        ),
        _with(note, missing),
    )


def _late(runner: "Runner", ours: str, cursor: str, published: str, caption: str) -> Outcome:
    """Both measures of one stream of text: a table of all systems, a bar for each, and the spread of ours."""
    cells, missing = _cells(runner)
    keys = (f"{cursor}_s", f"{cursor}_unclamped_s", *(f"{ours}_{part}_s" for part in ("mean", "median", "p90", "p99")))
    rows = [
        (label, *(report.latency(cell.score, key) for key in keys), report.percent(cell.score["matched"]))
        for label, cell in cells
    ]
    said = [(one.name, value) for one in PUBLISHED if (value := getattr(one, published)) is not None]
    rows += [(name, f"{value:.2f}", *("–" for _ in keys[1:]), "–") for name, value in said]
    bars = [
        plots.Bar(label + latency_marks(cell.score), value)
        for label, cell in cells
        if (value := cell.score[keys[0]]) is not None
    ]
    bars += [plots.Bar(name, value, colour=1) for name, value in said]
    columns = ("system", "cursor s", "unclamped s", "mean s", "median s", "p90 s", "p99 s", "matched %")
    spread = [
        (label + latency_marks(cell.score), samples)
        for label, cell in cells
        if (samples := charts.latencies(cell, f"{ours}_s"))
    ]
    note = " ".join((_CURSOR, _THEIRS, *report.mark_notes(cell.score for _, cell in cells)))
    drawn = [
        Plot(plots.bars(bars, x_label="cursor latency (s)", title=caption.lower()), f"{caption}: OpenBench's mean")
    ]
    if spread:
        drawing = plots.distribution(spread, title=caption.lower())
        drawn.append(Plot(drawing, f"{caption}: each word, from its end"))
    return Outcome((Table(columns, tuple(rows)),), tuple(drawn), _with(note, missing))


def _cells(runner: "Runner") -> tuple[list[tuple[str, "Cell"]], list[str]]:
    """All systems that can be measured, by name, and what is said of those that cannot."""
    found = [(name, runner.cell(name)) for name in (SYSTEM, *(QUICK_OTHERS if runner.quick else OTHERS))]
    missing: list[str] = []
    for name in () if runner.quick else _peers():
        try:
            found.append((f"{name} (peer)", runner.peer(name)))
        except PeerMissing as reason:
            missing.append(f"{name}: {reason}")
    return found, missing


def _peers() -> Iterable[str]:
    from whispertide_lab.evaluation.peers import PEERS

    return [name for name, peer in PEERS.items() if peer.streaming]


def _with(note: str, missing: Sequence[str]) -> str:
    return f"{note} Not measured: {'; '.join(missing)}." if missing else note


def _corrections(cell: "Cell") -> int:
    return sum(row["revisions"] for row in cell.utterances)
