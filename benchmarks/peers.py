"""Our recipes and other programs on the same weights and audio, and what came of it as docs/peers.md.

    make peers                            once: their environments
    python benchmarks/peers.py            measures what is missing, then writes the page
    python benchmarks/peers.py --page     the page alone, from what is there

Each program has the step that is best for it, chosen on talks that are not reported: of the steps whose word error rate
is at most a point above the lowest, the one that confirms soonest. The reported figures are over several seeds
together. The voice gate is on for all, then off for all. Programs that run in real time take as long as the audio.

Every finished utterance is kept in --folder, so the same command goes on where it was stopped; with --minutes it ends
in time. What is missing is named on the page. A change of the program's code starts from nothing: measure on a commit,
and change nothing until the page is written. Two processes, one model each, share the folder. Needs the extra bench.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from whispertide.checkpoint import hub, load_checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.errors import WhispertideError
from whispertide.lab.evaluation import publish
from whispertide.lab.evaluation.grid import OFFLINE, PEER, CellRequest, Setup, grid, text_of
from whispertide.lab.evaluation.page import stored_tables
from whispertide.lab.evaluation.peer_cells import PeerMissing
from whispertide.lab.evaluation.peers import PEERS, why_not
from whispertide.lab.evaluation.runner import Runner
from whispertide.lab.evaluation.score import aggregate
from whispertide.lab.evaluation.store import Cell, Results
from whispertide.lab.evaluation.sweep import best_step
from whispertide.lab.evaluation.trace import ClockName
from whispertide.lab.evaluation.watch import Watch
from whispertide.lab.training.widen import widen
from whispertide.options import EngineOptions

MODELS = ("nano.en", "nano.en@base.en")  # "A@B": A widened to the shape of B
CHOOSING, SEEDS = 910, (1011, 1012, 1013)  # nothing was tuned on the talks of the latter
CORPUS = "rooms"
RIVALS = ("whisper-streaming", "simulstreaming")  # a recipe of ours and a program, called alike
STEPS = (0.5, 1.0, 2.0)
PEER_STEPS = {"simulstreaming": (0.1, 0.5, 1.0)}
LIVE = {"whisperlivekit-localagreement": "whisper-streaming", "whisperlivekit-simulstreaming": "simulstreaming"}
WHOLE = ("faster-whisper", "openai-whisper", "whisper.cpp")  # these transcribe when all audio is there
UNGATED = "vad=false"


class OutOfTime(Exception):  # noqa: N818  it is an answer: what is measured is kept
    """The time is up; what is stored can still be had."""


@dataclass
class Clerk(Watch):
    """Says what is going on; refuses to begin, or to go on with, what is not stored when the time is up."""

    deadline: float
    label: str = ""
    began: float = 0.0

    def begin(self, label: str, total_s: float) -> None:
        """A cell that is not stored yet."""
        self._check()
        self.label, self.began = label, time.monotonic()
        super().begin(label, total_s)

    def advance(self, done_s: float) -> None:
        """An utterance is done, and kept."""
        self._check()

    def end(self) -> None:
        """The cell is done, or given up."""
        self.say(f"{self.label}: {time.monotonic() - self.began:.0f} s")

    def say(self, message: str) -> None:
        """A line on standard error."""
        left = f"{(self.deadline - time.monotonic()) / 60:5.1f} min left  " if self.deadline < float("inf") else ""
        super().say(left + message)

    def _check(self) -> None:
        if time.monotonic() > self.deadline:
            raise OutOfTime


@dataclass
class Study:
    """What is measured with what. `measured` collects all cells, `missing` what could not be measured, and why."""

    options: argparse.Namespace
    clerk: Clerk
    measured: list[Cell] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    runners: dict[tuple[str, int], Runner] = field(default_factory=dict)

    def weights(self, name: str) -> str:
        """What to load for "A" or "A@B"; a widened checkpoint is made if need be."""
        model, at, shape = name.partition("@")
        if not at:
            return model
        source = hub.path(model)
        content = load_checkpoint(source).content_hash
        folder = cache_dir() / "benchmarks" / content[:12] / f"{Path(model).name}-as-{shape}"
        if not folder.is_dir():
            widen(source, shape, folder, announce=self.clerk.say)
        return str(folder)

    def runner(self, model: str, seed: int) -> Runner:
        """A runner over the talks of that seed."""
        if (model, seed) not in self.runners:
            length = self.options.choosing if seed == CHOOSING else self.options.seconds
            engine = EngineOptions("int8", "auto", self.options.threads)
            setup = Setup("simulated", excerpt_s=length, seed=seed, engine=engine, models=(model,))
            runner = Runner(Path(self.options.folder), setup, self.clerk)
            runner.use_corpus(CORPUS)
            self.runners[model, seed] = runner
        return self.runners[model, seed]

    def measure(self, request: CellRequest, seed: int) -> Cell | None:
        """The cell; None, with the reason noted, where it cannot be had."""
        settings = [f"{name}={text_of(value)}" for name, value in request.settings.items()]
        name = " ".join((request.recogniser, *settings, Path(request.model).name))
        try:
            cell = self.runner(request.model, seed).run(request)
            self.measured.append(cell)
            return cell
        except OutOfTime:
            self.missing[name] = "the time was up"
        except (PeerMissing, WhispertideError) as error:
            self.missing[name] = str(error)
            self.clerk.say(f"{name}: {error}")
        return None

    def pooled(self, request: CellRequest) -> Cell | None:
        """The cell over all seeds together; None if one of them is missing."""
        cells = [cell for seed in self.options.seeds if (cell := self.measure(request, seed)) is not None]
        return pool(cells) if len(cells) == len(self.options.seeds) else None


def pool(cells: Sequence[Cell]) -> Cell:
    """Cells that differ in their corpus alone as one: a word counts as much as any other."""
    rows = tuple(chain(*(cell.utterances for cell in cells)))
    first = cells[0]
    about = {name: first.score[name] for name in ("recipe", "model", "clock", "step_s", "threads")}
    score = aggregate(rows, about) | {"commit": first.score["commit"]}
    joined = "+".join(cell.spec.corpus_hash for cell in cells)
    return Cell(replace(first.spec, corpus_hash=joined), score, rows, max(cell.date for cell in cells))


# --- what is measured -------------------------------------------------------------------------------------------------


def candidates(model: str, name: str) -> list[CellRequest]:
    """A recipe, or a peer ("peer:..."), at each of its steps, with its gate."""
    peer = name.removeprefix(PEER)
    if peer == name:
        return grid((name,), (model,), (CORPUS,), STEPS, ())
    return [_surest(requests) for step in PEER_STEPS.get(peer, STEPS) if (requests := _peer(model, peer, step))]


def _peer(model: str, name: str, step_s: float | None, *settings: str) -> list[CellRequest]:
    return grid((), (model,), (CORPUS,), () if step_s is None else (step_s,), settings, (name,))


def _surest(requests: Sequence[CellRequest]) -> CellRequest:
    """Without temperature fallback where there is the choice, and as it comes otherwise: sampling at a high temperature
    hits vocabulary that a small checkpoint was never trained in, and takes its time.
    """
    return next((request for request in requests if request.settings.get("fallback") is False), requests[0])


def best(study: Study, model: str, name: str) -> float | None:
    """The best step of a recipe or peer, on the talks for choosing."""
    cells = [study.measure(request, CHOOSING) for request in candidates(model, name)]
    found = best_step([cell for cell in cells if cell is not None])
    return None if found is None else found.spec.step_s


def contenders(model: str, steps: dict[str, float], *settings: str) -> list[CellRequest]:
    """Ours and the stepped programs, at their best steps."""
    requests = grid(("tide",), (model,), (CORPUS,), (), settings)
    for name, step in steps.items():
        peer = name.removeprefix(PEER)
        requests += (
            grid((name,), (model,), (CORPUS,), (step,), settings)
            if peer == name
            else [_surest(_peer(model, peer, step, *settings))]
        )
    return requests


def in_real_time(model: str, steps: dict[str, float]) -> list[CellRequest]:
    """WhisperLiveKit, whole, at the step that is best for its policy alone; as it comes, where that is not known."""
    return [_surest(_peer(model, name, steps.get(PEER + policy))) for name, policy in LIVE.items()]


def offline(model: str) -> list[CellRequest]:
    """Programs that transcribe when all audio is there, ours among them."""
    theirs = [_surest(_peer(model, name, None)) for name in WHOLE]
    return [*theirs, CellRequest(OFFLINE, model, CORPUS)]


def clocks(study: Study) -> publish.Part:
    """A baseline by the simulated clock, and twice in real time, on the talks for choosing."""
    model = study.weights(study.options.models[0])
    request = grid(RIVALS[:1], (model,), (CORPUS,), (), ())[0]
    runner = study.runner(model, CHOOSING)
    found: dict[str, Cell] = {}
    runs: tuple[tuple[str, ClockName, str], ...] = (
        ("simulated", "simulated", ""),
        ("real time", "live", ""),
        ("again", "live", "again"),
    )
    for name, clock, folder in runs:
        runner.results = Results(Path(study.options.folder) / folder)
        with runner.timed_by(clock):
            if (cell := study.measure(request, CHOOSING)) is not None:
                found[name] = cell
    runner.results = Results(Path(study.options.folder))
    note = (
        f"`{RIVALS[0]}` with `{study.options.models[0]}` on {study.options.choosing:g} s of `{CORPUS}`. Judge the "
        "simulation by the two real-time runs, which differ among themselves: rounds begin a little earlier or later."
    )
    pairs = [("simulated", "real time"), ("simulated", "again"), ("real time", "again")]
    return publish.clocks_part("Do the clocks agree?", note, found, pairs, list(runner.corpus.utterances()))


@dataclass(frozen=True)
class Measured:
    """A model, and what was measured with it: the voice gate on, and off."""

    model: str
    gated: list[Cell]
    ungated: list[Cell]

    @property
    def title(self) -> str:
        """As a reader calls it."""
        name, _, shape = self.model.partition("@")
        return Path(name).name + (f" at the shape of {shape}" if shape else "")


def measured(study: Study, name: str) -> Measured:
    """All of a model: steps are chosen first."""
    model = study.weights(name)
    names = (*RIVALS, *(PEER + rival for rival in RIVALS))
    steps = {rival: step for rival in names if (step := best(study, model, rival)) is not None}

    def cells(requests: Sequence[CellRequest]) -> list[Cell]:
        return [cell for request in requests if (cell := study.pooled(request)) is not None]

    gated = cells(contenders(model, steps)) + cells(offline(model)) + cells(in_real_time(model, steps))
    return Measured(name, gated, cells(contenders(model, steps, UNGATED)))


# --- the page --------------------------------------------------------------------------------------------------------


LEAD = """
**Compare times here, not errors.** `nano.en` hears short windows much better than long ones, so programs that hear long
windows make more errors with it than they would with a checkpoint of OpenAI's. The *offline* rows are the same weights
with all audio at hand.

`rooms` is **synthetic speech** (espeak-ng, and flite where it is installed) as microphones in quiet rooms would record
it, with the synthesizer's exact word times. A model "at the shape of base.en" is the same function widened: its cost is
base.en's. Its words are the same, but for rounding (ours compute in int8) and for rounds that take longer. **Nothing
here says how well a Whisper model hears people.**

| word | meaning |
| --- | --- |
| latency | from the end of a word in the audio to the moment it was shown for good, computing counted |
| matched | the share of recognised words, whose latencies these are. Marked where 3 points under offline |
| p99 | here a word that was never recognised counts as shown at the end |
| TTFT | time to first text: from the beginning of the first word to the first text on the screen |
| insert. | words in the output that nobody said |
| step | the best of each (below); that of `tide` is as it comes, WhisperLiveKit has the one of its algorithm alone |
| `peer:` | another program on the same weights and audio, in its own environment (`make peers`) |
| `fallback=false` | Whisper's temperature fallback is off, see below |
| `vad=false` | the voice gate is off, for ours and theirs alike |

*Best step*: of the steps with at most a point more word errors than the lowest, the one that confirms soonest, for ours
and for the others alike. It is chosen on talks of another seed than those that are reported.

*Fallback*: its sampling at a high temperature hits vocabulary that a small checkpoint never learned, and takes its
time. Without it the others are better and faster here.

What the others are, exactly:

- `peer:whisper-streaming`, `peer:simulstreaming`: the two algorithms as WhisperLiveKit ships them, without its server,
  on the simulated clock. The gate is Silero's with whisper_streaming's settings (half a second ends an utterance). A
  pause gets a last round. whisper_streaming itself leaves that out and loses what came after its last step.
- `peer:whisperlivekit-...`: WhisperLiveKit, whole, in real time, with its own server loop and its own gate (a tenth of
  a second of silence). It runs with the gate on alone, so it has no row with the gate off.
- Both forms of SimulStreaming have what WhisperLiveKit added to it: words whose times go back are dropped, a text that
  repeats itself is thrown away, and repeated tokens are made less likely.
- CTranslate2 (faster-whisper) computes in float32, the type that the weights are stored in. whisper.cpp has float16.

Ours run in int8, as they come. Our *offline* row asks the voice gate where to go on after a window without text; the
programs next to it ask none. Nothing is clamped, rounded or truncated.
"""


def glance(study: Study, found: Sequence[Measured]) -> publish.Part:
    """The table of all programs and models."""
    note = (
        f"Each program at its best step, voice gate on, {len(study.options.seeds)} times {study.options.seconds:g} s "
        f"of `{CORPUS}`. `{PEER}`: another program. The last rows wait for all audio."
    )
    return publish.glance_part("At a glance", note, {model.title: model.gated for model in found})


def parts(study: Study, found: Measured) -> list[publish.Part]:
    """The tables of a model."""
    note = f"{len(study.options.seeds)} seeds of {study.options.seconds:g} s of `{CORPUS}`."
    plain = found.title.replace(" ", "-")
    return [
        publish.streaming_part(f"{found.title}, voice gate on", note, found.gated, f"{plain}-gated"),
        publish.streaming_part(f"{found.title}, voice gate off", note, found.ungated, f"{plain}-ungated"),
    ]


def write_page(study: Study, parts: Sequence[publish.Part]) -> None:
    """The page and its plots."""
    options = study.options
    lines = [f"- **{name}**: {value}" for name, value in publish.facts(study.measured)]
    lengths = f"--seconds {options.seconds:g} --choosing {options.choosing:g}"
    models = "" if tuple(options.models) == MODELS else " ".join(("", *options.models))
    seeds = "" if tuple(options.seeds) == SEEDS else " ".join((" --seeds", *map(str, options.seeds)))
    command = f"python benchmarks/peers.py{models} --threads {options.threads} {lengths}{seeds}"
    made = publish.Part("How this was made", "\n".join(("```sh", "make peers", command, "```", "", *lines)))
    absent = [f"- {peer.name}: {why_not(peer)}" for peer in PEERS.values() if why_not(peer)]
    unmeasured = [f"- {name}: {why}" for name, why in study.missing.items()]
    lacking = publish.Part("What is not here", "\n".join((*unmeasured, *absent)) or "Everything planned is here.")
    text, plots = publish.page("Other programs", LEAD, [*parts, made, lacking])
    output = Path(options.output)
    folder = output.parent / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    for name, plot in plots.items():
        plot.save(folder / name)
    output.write_text(text, encoding="utf-8")
    (folder / f"{output.stem}.json").write_text(stored_tables(text), encoding="utf-8")
    study.clerk.say(f"wrote {output}, {len(plots)} plots, {len(study.missing)} cells missing")


def run(options: argparse.Namespace) -> None:
    """Measure what there is time for, model by model; then write the page."""
    deadline = 0.0 if options.page else time.monotonic() + 60 * options.minutes
    study = Study(options, Clerk(deadline))
    found = [measured(study, name) for name in options.models]
    write_page(study, [glance(study, found), *chain(*(parts(study, model) for model in found)), clocks(study)])


def main() -> None:
    """Parse, then run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help='"A@B": A in the shape of B')
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for all timings together")
    parser.add_argument("--seconds", type=float, default=150.0, metavar="S", help="of talks of each seed")
    parser.add_argument("--choosing", type=float, default=90.0, metavar="S", help="of talks to choose steps on")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", default="bench-results/peers")
    parser.add_argument("--output", default="docs/peers.md")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
