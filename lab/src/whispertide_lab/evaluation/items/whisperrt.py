"""WhisperRT's figures 4 and 5, and what its stream costs: errors at every chunk by chunk size and by beam, with the
differences from the other recipes, and operations and time as the audio of a round grows.

All on the free clock, as in the paper: a text is late because of the policy, not because of the machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING

from whispertide.errors import OptionError
from whispertide.tuning.drawing import Curve, scatter
from whispertide.tuning.page import Table
from whispertide_lab.evaluation import report
from whispertide_lab.evaluation.bootstrap import UNITS, paired_over
from whispertide_lab.evaluation.items.aligned_errors import AlignedErrors, aligned_errors
from whispertide_lab.evaluation.paper import Outcome, Plot
from whispertide_lab.evaluation.trace import FREE, RoundCost, Trace

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner
    from whispertide_lab.evaluation.store import Cell

SYSTEM = "whisperrt"
OTHERS = ("whisper-streaming", "whisperflow", "simulstreaming", "npusper", "whisperkit", "pilot", "tide")
COMPARED = (SYSTEM, "whisper-streaming", "tide")  # in what they cost
CHUNKS, QUICK_CHUNKS = (0.1, 0.2, 0.3, 0.5, 1.0), (0.3, 1.0)
OTHERS_CHUNKS = (0.1, 0.3, 1.0)
BEAMS, QUICK_BEAMS = (1, 2, 3, 5), (1, 3)
CHUNK_S = 0.3
BIN_S = 5.0  # of the audio that a round hears

_CLOCK = "On the free clock, whatever the others are measured by: computing takes no time."
_ERRORS = (
    "At each multiple of the chunk all that is shown is compared with the words that have been said (ARWER), and with "
    "the beginning of the reference that is nearest to it (RWER, ours)."
)
_BOOTSTRAP = f"Differences of ARWER: 95 % by a paired bootstrap over {UNITS}; with fewer than twenty it is too narrow."


@dataclass(frozen=True, slots=True)
class Point:
    """A cell by its chunk or its beam, and the errors of each utterance at every chunk and its speaker, by its name."""

    x: float
    cell: "Cell"
    each: Mapping[str, AlignedErrors]
    speakers: Mapping[str, str] = field(default_factory=dict)

    @property
    def errors(self) -> AlignedErrors:
        """Of all utterances."""
        return sum(self.each.values(), AlignedErrors())


@dataclass(frozen=True, slots=True)
class Work:
    """What some rounds computed, and for how many seconds of new audio. `rows` are hypotheses, over all runs; what
    encoding and decoding took is measured, in milliseconds.
    """

    seconds: float = 0.0
    gflop: float = 0.0
    runs: int = 0
    rows: int = 0
    encode_ms: float = 0.0
    decode_ms: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


def chunk_figure(runner: "Runner") -> Outcome:
    """WhisperRT, figure 4: errors at every chunk by chunk size; every recipe has a round for each chunk. The others,
    some of which hear 30 s in each round, have fewer sizes.
    """
    chunks, fewer = (QUICK_CHUNKS, QUICK_CHUNKS) if runner.quick else (CHUNKS, OTHERS_CHUNKS)
    return chunk_errors(runner, {SYSTEM: chunks, **dict.fromkeys(OTHERS, fewer)})


def chunk_errors(runner: "Runner", chunks: Mapping[str, Sequence[float]]) -> Outcome:
    """Errors of each recipe, `SYSTEM` among them, at every chunk of so many seconds, and how far they are from its."""
    found = {
        name: [_point(runner, chunk, _cell(runner, name, chunk), chunk) for chunk in sizes]
        for name, sizes in chunks.items()
    }
    outcome = _errors("chunk (s)", found, f"{_ERRORS} {_BOOTSTRAP} {_CLOCK}{_left_out(runner)}")
    return replace(outcome, tables=(*outcome.tables, _differences(found)))


def beam_figure(runner: "Runner") -> Outcome:
    """WhisperRT, figure 5: errors at every chunk of 300 ms by beam."""
    points = []
    for beam in QUICK_BEAMS if runner.quick else BEAMS:
        search = ("search=beam", f"beam={beam}", "holds=both") if beam > 1 else ("search=greedy",)
        points.append(_point(runner, beam, _cell(runner, SYSTEM, CHUNK_S, *search), CHUNK_S))
    note = f"Chunks of {CHUNK_S:g} s. Beams with holds=both, the greedy search with its usual rule. {_ERRORS} {_CLOCK}"
    note += _left_out(runner)
    return _errors("beam", {SYSTEM: points}, note)


def cost_figure(runner: "Runner") -> Outcome:
    """What a second of audio costs, by how much audio the round hears; of WhisperRT that is the stream so far."""
    rows, encoding, decoding = [], [], []
    for name in COMPARED:
        by_length = work_by_length(_cell(runner, name, CHUNK_S).traces())
        places = [(number, work) for number, work in sorted(by_length.items()) if work.seconds]
        rows += [(name, f"{BIN_S * n:g} to {BIN_S * (n + 1):g}", *_rates(work)) for n, work in places]
        rows.append((name, "all", *_rates(sum(by_length.values(), Work()))))
        middles = tuple(BIN_S * (n + 0.5) for n, _ in places)
        encoding.append(Curve(name, middles, tuple(work.gflop / work.seconds for _, work in places)))
        decoding.append(Curve(name, middles, tuple(work.runs / work.seconds for _, work in places)))
    columns = ("recipe", "heard by a round (s)", "new audio (s)", *(f"{what} per s" for what in _WHAT))
    drawn = tuple(
        Plot(scatter(curves, x_label="audio that a round hears (s)", y_label=f"{what} per s", title=title), title)
        for curves, what, title in (
            (encoding, _WHAT[0], "encoding by the audio of a round"),
            (decoding, _WHAT[1], "decoding by the audio of a round"),
        )
    )
    note = (
        f"A round every {CHUNK_S:g} s. Per second of audio that rounds take in; silence that the voice gate keeps out "
        "is none. Milliseconds are measured, so they hold for this machine and what else ran on it. A piece of a "
        "stream is counted with all the past that its frames attend to. A run of the decoder searches with one "
        f"hypothesis or several, or finds word times. {_CLOCK}"
    )
    return Outcome((Table(columns, tuple(rows)),), drawn, note)


_WHAT = ("encoder GFLOP", "decoder runs", "searched hypotheses", "encoding ms", "decoding ms")


def work_by_length(traces: Iterator[Trace]) -> dict[int, Work]:
    """The work of all rounds, by how many times `BIN_S` the audio is long that they hear."""
    found: dict[int, Work] = {}
    for trace in traces:
        for cost, new_s in _new_audio(trace):
            number = int(cost.window_s // BIN_S)
            spent = (1000 * cost.encode_s, 1000 * cost.decode_s)
            work = Work(new_s, cost.encoder_gflop, cost.decoder_runs, cost.search_rows, *spent)
            found[number] = found.get(number, Work()) + work
    return found


def _new_audio(trace: Trace) -> Iterator[tuple[RoundCost, float]]:
    """Each round and the audio since the one before: no more than it hears, as there may have been silence."""
    before_s = 0.0
    for cost in trace.rounds:
        yield cost, min(cost.start_s - before_s, cost.window_s)
        before_s = cost.start_s


def _rates(work: Work) -> tuple[str, ...]:
    if not work.seconds:
        return ("0", *("–" for _ in _WHAT))
    seconds, *items = astuple(work)
    return (f"{seconds:.0f}", *(f"{item / seconds:.2f}" for item in items))


def _cell(runner: "Runner", recipe: str, chunk_s: float, *settings: str) -> "Cell":
    blocks = (f"block_s={chunk_s:g}",) if recipe == SYSTEM else ()
    with runner.timed_by(FREE):
        return runner.cell(recipe, *blocks, *settings, step_s=chunk_s)


def _point(runner: "Runner", x: float, cell: "Cell", chunk_s: float) -> Point:
    timed = {utterance.id: utterance for utterance in runner.corpus.utterances() if utterance.timed}
    if not timed:
        raise OptionError(
            f"expected a corpus with word times, for example talks, or --align; got {runner.corpus.name}: errors at "
            "every chunk are those against the words said until then"
        )
    pairs = [(timed[trace.utterance], trace) for trace in cell.traces() if trace.utterance in timed]
    each = {utterance.id: aligned_errors(utterance, trace, chunk_s, utterance.language) for utterance, trace in pairs}
    return Point(x, cell, each, {name: utterance.group for name, utterance in timed.items()})


def _left_out(runner: "Runner") -> str:
    """What is said where some recordings have words without times."""
    known = [utterance.timed for utterance in runner.corpus.utterances() if utterance.words]
    if all(known):
        return ""
    return (
        f" ARWER and RWER are of {sum(known)} of {len(known)} recordings: the others have words without times. WER is "
        "of all."
    )


def _errors(x_label: str, found: dict[str, list[Point]], note: str) -> Outcome:
    """A table of all points, and a plot of each of both rates."""
    rows = tuple(
        (name, f"{point.x:g}", *map(report.percent, (point.errors.arwer, point.errors.rwer, point.cell.score["wer"])))
        for name, points in found.items()
        for point in points
    )
    drawn = []
    for rate, of in (("ARWER", "said words"), ("RWER", "nearest words")):
        curves = [_curve(name, points, rate.lower()) for name, points in found.items()]
        title = f"{rate}: errors at every chunk, to the {of}"
        drawn.append(Plot(scatter(curves, x_label=x_label, y_label=f"{rate} %", title=title), title))
    return Outcome((Table(("recipe", x_label, "ARWER %", "RWER %", "WER %"), rows),), tuple(drawn), note)


def _differences(found: dict[str, list[Point]]) -> Table:
    """What every other recipe's ARWER is above WhisperRT's at the same chunk, in points, with its interval."""
    rows = []
    by_chunk = {point.x: point for point in found[SYSTEM]}
    for name, points in found.items():
        for theirs in points if name != SYSTEM else ():
            ours = by_chunk[theirs.x]
            names = sorted(ours.each.keys() & theirs.each.keys())
            speakers = [ours.speakers.get(each, "") for each in names]
            a, b = ([(point.each[each].edits, point.each[each].words) for each in names] for point in (ours, theirs))
            found_out = paired_over(speakers, a, b)
            figures = (found_out.difference, found_out.low, found_out.high)
            rows.append((name, f"{ours.x:g}", *(f"{100 * each:+.2f}" for each in figures), str(found_out.units)))
    columns = ("recipe", "chunk (s)", f"ARWER above {SYSTEM}'s, points", "from", "to", "drawn")
    return Table(columns, tuple(rows))


def _curve(name: str, points: Sequence[Point], rate: str) -> Curve:
    values = [(point.x, getattr(point.errors, rate)) for point in points]
    known = [(x, 100 * value) for x, value in values if value is not None]
    return Curve(name, tuple(x for x, _ in known), tuple(y for _, y in known))
