"""The published results: measures them within a given time and writes docs/benchmarks.md.

    python benchmarks/first_results.py --prepare   what needs no quiet machine: corpora, the widened checkpoint, graphs
                                                   and whatever is not about time
    python benchmarks/first_results.py             the timings, on a quiet machine; then the page
    python benchmarks/first_results.py --page      the page alone, from what is there

The excerpts' lengths are options; with the defaults the timings should take some four hours on two cores, which is an
estimate. With --minutes it ends in time, and measures the rest when it is called again.

Every finished utterance is kept in --folder, so the same command goes on where it was stopped; what did not fit into
the time is named on the page. A change of the program's code starts from nothing (other programs' results only with a
change of the evaluation): measure on a commit, and change nothing until the page is written. `make peers` first;
Needs the extra bench; flite's voices take part where it is installed.
"""

import argparse
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from whispertide.checkpoint import hub, load_checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.errors import WhispertideError
from whispertide.lab.evaluation import publish
from whispertide.lab.evaluation.grid import OFFLINE, PEER, Request, Setup, grid, text_of
from whispertide.lab.evaluation.peer_cells import PeerMissing
from whispertide.lab.evaluation.peers import PEERS, why_not
from whispertide.lab.evaluation.runner import Runner, Watch
from whispertide.lab.evaluation.store import Cell
from whispertide.lab.evaluation.sweep import best_step
from whispertide.lab.speech.utterance import Utterance
from whispertide.lab.training.widen import widen
from whispertide.options import EngineOptions
from whispertide.streaming.recipes import RECIPES

MODEL, SHAPE = "nano.en", "base.en"
BASELINE = "whisper-streaming"
BESIDE_LIVE = (BASELINE, "tide")
CORPORA = ("talks", "noisy", "nonspeech")
STEPS = (0.5, 1.0, 2.0)  # of a sweep, next to each program's own
SWEPT = ("whisper-streaming", "simulstreaming")  # recipes that another program has, too; the others keep their step
LENGTHS = {
    "small": (600.0, "for the model as it is"),
    "large": (300.0, "for the larger shape"),
    "live": (600.0, "for programs that run in real time"),
    "clocks": (120.0, "for the comparison of clocks"),
}
OFFLINE_S, STREAMED_S = 1200.0, 300.0  # of each corpus
_LIVE = {"whisperlivekit-localagreement": "whisper-streaming", "whisperlivekit-simulstreaming": "simulstreaming"}


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

    @property
    def small(self) -> str:
        """The model as it is."""
        return str(self.options.model)

    @property
    def large(self) -> str:
        """The model in a larger shape, made if need be."""
        weights = hub.path(self.small)
        folder = cache_dir() / "benchmarks" / f"{Path(self.small).name}-as-{self.options.shape}"
        made_of = folder.with_suffix(".made-of")
        content = load_checkpoint(weights).content_hash
        if not made_of.is_file() or made_of.read_text() != content:
            shutil.rmtree(folder, ignore_errors=True)
            widen(weights, self.options.shape, folder, announce=self.clerk.say)
            made_of.write_text(content)
        return str(folder)

    def runner(self, models: Sequence[str], length_s: float, *, clock: str = "simulated", place: str = "") -> Runner:
        """A runner over so much of each corpus; `place` is a folder of its own for what is measured a second time."""
        engine = EngineOptions("int8", "auto", self.options.threads)
        setup = Setup(clock, excerpt_s=length_s, engine=engine, models=tuple(models))
        return Runner(Path(self.options.folder) / place, setup, self.clerk)

    def measure(self, runner: Runner, request: Request) -> Cell | None:
        """The cell; None, with the reason noted, where it cannot be had."""
        settings = " ".join(f"{name}={text_of(value)}" for name, value in request.settings.items())
        name = " ".join(
            part
            for part in (
                request.recogniser,
                settings,
                f"{request.step_s:g} s" if request.step_s is not None else "",
                Path(request.model).name,
                request.corpus.partition(":")[0],
            )
            if part
        )
        try:
            cell = runner.run(request)
            self.measured.append(cell)
            return cell
        except OutOfTime:
            self.missing[name] = "the time was up"
        except (PeerMissing, WhispertideError) as error:
            self.missing[name] = str(error)
            self.clerk.say(f"{name}: {error}")
        return None

    def cells(self, runner: Runner, requests: Sequence[Request]) -> list[Cell]:
        """Those that can be had."""
        return [cell for request in requests if (cell := self.measure(runner, request)) is not None]


# --- what there is to measure, and how much of it fits ----------------------------------------------------------------


def requests_for(model: str, recipes: Sequence[str]) -> list[Request]:
    """Ours and the other programs at their defaults and at the steps of the sweep; each once, the most important first:
    if the time is up, the others have had their best step rather than ours.
    """
    stepped = [peer for peer in PEERS.values() if peer.clock != "live" and not peer.reason]
    names = [peer.name for peer in stepped]
    defaults = grid(recipes, (model,), ("talks",), (), (), names)
    ours, theirs = [name for name in recipes if name in SWEPT], [peer.name for peer in stepped if peer.streaming]
    swept = grid(ours, (model,), ("talks",), STEPS, (), theirs)
    swept = [request for request in swept if request.recipe is not None or not _has_sure_variant(request)]
    known = {(r.recogniser, tuple(r.settings.items()), _step(r)) for r in defaults}
    swept = [r for r in swept if (r.recogniser, tuple(r.settings.items()), _step(r)) not in known]
    return defaults + sorted(swept, key=lambda request: request.recipe is not None)


def _has_sure_variant(request: Request) -> bool:
    """Whether this is a peer at its defaults that has a variant; only the variant is swept."""
    return not request.settings and bool(PEERS[request.recogniser.removeprefix(PEER)].variants)


def _step(request: Request) -> float | None:
    """The step that it will have."""
    if request.step_s is not None or not request.recogniser.startswith(PEER):
        return request.step_s
    step = PEERS[request.recogniser.removeprefix(PEER)].defaults.get("step_s")
    return None if step is None else float(step)


def is_offline(request: Request) -> bool:
    """Whether it is a program that shows everything at the end."""
    return request.recogniser.startswith(PEER) and not PEERS[request.recogniser.removeprefix(PEER)].streaming


# --- what is measured -------------------------------------------------------------------------------------------------


def clocks(study: Study, length: float) -> publish.Part:
    """The baseline by every clock, twice in real time."""
    names = (
        ("computing free", "free", ""),
        ("simulated", "simulated", ""),
        ("real time", "live", ""),
        ("real time, again", "live", "again"),
    )
    found: dict[str, Cell] = {}
    utterances: list[Utterance] = []
    for name, clock, place in names:
        runner = study.runner((study.small,), length, clock=clock, place=place)
        runner.use_corpus("talks")
        request = grid((BASELINE,), (study.small,), ("talks",), (), ())[0]
        if (cell := study.measure(runner, request)) is not None:
            found[name] = cell
            utterances = list(runner.corpus.utterances())
    note = (
        f"`{BASELINE}` with `{study.small}` on {length:g} s of `talks`, by each clock. Judge the simulation by "
        "the two real-time runs. These differ among themselves, too: rounds begin a little earlier or later."
    )
    pairs = [("simulated", "real time"), ("simulated", "real time, again"), ("real time", "real time, again")]
    return publish.clocks_part("Do the clocks agree?", note, found, pairs, utterances)


def shape(study: Study, model: str, length: float, title: str, name: str) -> tuple[publish.Part, list[Cell]]:
    """All recognisers on the simulated clock, with one model; those that work offline come last."""
    requests = sorted(requests_for(model, study.options.recipes), key=is_offline)
    cells = study.cells(study.runner((model,), length), requests)
    note = f"{length:g} s of `talks`, simulated clock."
    return publish.streaming_part(title, note, cells, name, "benchmarks"), cells


def live(study: Study, model: str, length: float, swept: Sequence[Cell], title: str, name: str) -> publish.Part:
    """WhisperLiveKit whole, in real time, at its default and at the step that was best for its policy alone."""
    requests = grid(BESIDE_LIVE, (model,), ("talks",), (), ())
    for peer, policy in _LIVE.items():
        requests.append(Request(PEER + peer, model, "talks"))
        best = best_step([cell for cell in swept if cell.spec.recogniser == PEER + policy])
        if best is not None:
            settings = PEERS[peer].variants[-1] if best.spec.changes else {}
            requests.append(Request(PEER + peer, model, "talks", step_s=best.spec.step_s, settings=settings))
    cells = study.cells(study.runner((model,), length), requests)
    note = (
        "WhisperLiveKit runs in real time, with its own server loop, threads and voice gate. Recipes of ours stand "
        f"beside it on the same {length:g} s of `talks`, simulated. Its second step is the best for its policy above."
    )
    return publish.streaming_part(title, note, cells, name, "benchmarks")


def offline(study: Study) -> publish.Part:
    """Word error rates of the model, transcribing whole recordings."""
    runner = study.runner((study.small,), OFFLINE_S)
    cells = study.cells(runner, [Request(OFFLINE, study.small, corpus) for corpus in corpora_of(study)])
    note = (
        f"`{study.small}`, greedy, on up to {OFFLINE_S / 60:g} minutes of each corpus, in as many voices as fit. Where "
        "nobody speaks, every word is invented. These are counted per minute."
    )
    return publish.offline_part(f"Offline word error rate of {study.small}", note, cells)


def streamed(study: Study) -> publish.Part:
    """The baseline on every corpus, computing counted as instant, so that the figures are those of any machine."""
    runner = study.runner((study.small,), STREAMED_S, clock="free")
    requests = [grid((BASELINE,), (study.small,), (corpus,), (), ())[0] for corpus in corpora_of(study)]
    note = (
        f"`{BASELINE}` on up to {STREAMED_S / 60:g} minutes of each corpus, with computing counted as instant. Any "
        "delay here comes from the policy. *minus offline* is what streaming costs in points, with the same beam."
    )
    return publish.corpora_part("Streaming, whatever the machine", note, study.cells(runner, requests))


def corpora_of(study: Study) -> tuple[str, ...]:
    """All of them, with the folders that were named."""
    return (*CORPORA, *(f"manifest:{folder}" for folder in study.options.manifest))


# --- the page --------------------------------------------------------------------------------------------------------


LEAD = """
Measured with one command on one machine. `talks` and `noisy` are **synthetic speech** (espeak-ng and flite) with the
synthesizer's exact word times. `nonspeech` is synthetic, too. `{model}` is a small model of this project, trained
mostly on synthetic speech. `{model}-as-{shape}` is the same function widened to {shape}'s shape: its cost is real and
its words are the same. **Nothing here says how well a Whisper model hears people.**

**A bias to know.** `{model}` hears short windows better than windows that are full of speech. It cannot use the text
before a window, and its generation config says so (docs/LOG.md). Whatever works on long windows suffers from that:
offline transcription, and programs that keep long buffers. So offline is worse here than most recipes, and their
*minus offline* is negative. A part of the distance to the other programs is the checkpoint's doing.

**How to read the tables.**

| word | meaning |
| --- | --- |
| latency | from the end of a word in the audio to the moment it was shown for good, over recognised words |
| matched | the share of recognised words. Latencies with under 95 % matched are marked; do not rely on them |
| p99 | here a word that was never recognised counts as shown at the end |
| minus offline | streaming WER minus offline WER with the same weights and beam, in points |
| `peer:` | another program on the same weights and audio, in its own environment (`make peers`) |
| `fallback=false` | Whisper's temperature fallback is off |

Nothing is clamped, rounded or truncated, and negative latencies are kept. Computing takes its measured time.
CTranslate2 (faster-whisper) runs in float32 where the program's default is the stored type. WhisperLiveKit lets it
choose. `peer:whisper-streaming` is whisper_streaming's algorithm over faster-whisper, as WhisperLiveKit ships it. It
empties its buffer after 15 s without a confirmed word. A small checkpoint has vocabulary that was never trained. The
fallback's sampling at a high temperature hits it. Do not draw conclusions from a row with fewer than a thousand
words.

*Best step*: take the steps whose WER is at most a point above the lowest of the sweep. The one with the lowest mean
confirmed latency is the best. It is chosen on the same audio for ours and for the others.
"""


def write_page(study: Study, parts: Sequence[publish.Part]) -> None:
    """The page and its plots."""
    options = study.options
    command = f"python benchmarks/first_results.py{_chosen(options)}"
    lines = [f"- **{name}**: {value}" for name, value in publish.facts(study.measured)]
    commands = [
        command.replace(".py", ".py --prepare"),
        command,
        f"whispertide bench report {options.folder}  # a page with more plots and every figure",
    ]
    absent = [f"- {peer.name}: {why_not(peer)}" for peer in PEERS.values() if why_not(peer)]
    unmeasured = [f"- {name}: {why}" for name, why in study.missing.items()]
    made = publish.Part(
        "How this was made",
        "\n".join(("```sh", "make peers", *commands, "```", "", *lines)),
    )
    lacking = publish.Part(
        "What is not here", "\n".join((*unmeasured, *absent)) or "Everything that was planned is here."
    )
    lead = LEAD.format(model=options.model, shape=options.shape)
    text, plots = publish.page("Benchmarks", lead, [*parts, made, lacking])
    output = Path(options.output)
    folder = output.parent / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    for name, plot in plots.items():
        plot.save(folder / name)
    output.write_text(text, encoding="utf-8")
    study.clerk.say(f"wrote {output}, {len(plots)} plots, {len(study.missing)} cells missing")


def _chosen(options: argparse.Namespace) -> str:
    """What was not left at its default, as it would be typed; folders are anybody's own."""
    said = {"model": MODEL, "shape": SHAPE, "threads": 0} | {name: usual for name, (usual, _) in LENGTHS.items()}
    chosen = {name: getattr(options, name) for name, usual in said.items() if getattr(options, name) != usual}
    parts = [f" --{name} {value:g}" if name in LENGTHS else f" --{name} {value}" for name, value in chosen.items()]
    if options.recipes != tuple(RECIPES):
        parts.append(f" --recipes {','.join(options.recipes)}")
    parts += [f" --more {model}" for model in options.more]
    return "".join(parts) + " --manifest FOLDER" * len(options.manifest)


def prepare(study: Study) -> None:
    """Everything that takes time but no timing."""
    for name, model in (("small", study.small), ("large", study.large)):
        length = getattr(study.options, name)
        runner = study.runner((model,), length)
        runner.transcriber(model).warm_up()
        requests = [request for request in requests_for(model, study.options.recipes) if is_offline(request)]
        study.cells(runner, requests)
    offline(study)
    streamed(study)


def run(options: argparse.Namespace) -> None:
    """Measure what there is time for, in the order of importance; then write the page."""
    deadline = 0.0 if options.page else time.monotonic() + 60 * options.minutes
    study = Study(options, Clerk(deadline))
    agree = clocks(study, options.clocks)
    small, small_cells = shape(study, study.small, options.small, f"At {study.small}'s own shape", "small")
    large, large_cells = shape(study, study.large, options.large, f"At the shape of {options.shape}", "large")
    names = {model: Path(model).name for model in options.more}
    more = [shape(study, model, options.small, f"With {name}", name)[0] for model, name in names.items()]
    title = "Programs that run their own threads"
    whole = [
        live(study, study.small, options.live, small_cells, f"{title}, {study.small}", "live"),
        live(study, study.large, options.live, large_cells, f"{title}, {options.shape}", "live-large"),
    ]
    write_page(study, [offline(study), streamed(study), small, large, *more, *whole, agree])


def main() -> None:
    """Parse, then prepare or run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", action="store_true", help="do what needs no quiet machine, and stop")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for all timings together")
    for name, (length, meaning) in LENGTHS.items():
        parser.add_argument(f"--{name}", type=float, default=length, metavar="S", help=f"seconds of talks {meaning}")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--shape", default=SHAPE, help="what the model is widened to")
    parser.add_argument("--more", action="append", default=[], metavar="MODEL", help="measured like the model, too")
    parser.add_argument("--recipes", type=lambda text: tuple(text.split(",")), default=tuple(RECIPES), metavar="A,B")
    parser.add_argument("--manifest", action="append", default=[], metavar="FOLDER", help="recordings for offline WER")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--folder", default="bench-results/first")
    parser.add_argument("--output", default="docs/benchmarks.md")
    options = parser.parse_args()
    if options.prepare:
        prepare(Study(options, Clerk(float("inf"))))
    else:
        run(options)


if __name__ == "__main__":
    main()
