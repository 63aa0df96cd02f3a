"""Our recipes and other programs on the same weights and people's voices, and what came of it as lab/docs/peers.md.

    make peers                                      once: their environments
    python benchmarks/peers.py tiny.en base         measures what is missing, then writes the page
    python benchmarks/peers.py tiny.en --page       the page alone, from what is there

The voices are those of `people` (../shared/speech, or --speech), in two halves that have no speaker in common. Each
program has the step that is best for it: of the steps whose word error rate is at most a point above the lowest, the
one that confirms soonest. What is chosen on --choosing seconds of one half is reported on the other, and the other way
round, so that no step is reported on the voices that it was chosen on. The voice gate is on for all. Computing counts
by processor seconds, so what else the machine does does not matter. --heard reports only so many seconds of each part
of each half.

Every finished utterance is kept in --folder, so the same command goes on where it was stopped; with --minutes it ends
in time. What is finished is kept next to the page as well (`kept_cells`), whatever becomes of the program, so that rows
can be added later: --anew measures the named ones again, --only nothing else. Delays and computing are a machine's, so
a page is of one; with --page and --machine of another one, as `kept_cells` names it. What is missing is named on the
page. Several processes share the folders. Needs the laboratory.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from peers_page import OURS, SHORT, SPOKEN, WHOLE, Measured, write_page

from whispertide.errors import CorpusError, OptionError, WhispertideError
from whispertide.options import EngineOptions
from whispertide_lab.evaluation.core_speed import are_alike, core_gflops
from whispertide_lab.evaluation.corpora.people import HALVES, PARTS
from whispertide_lab.evaluation.grid import OFFLINE, PEER, CellRequest, Setup, changes_of, grid, text_of
from whispertide_lab.evaluation.kept_cells import keep, read_kept
from whispertide_lab.evaluation.peer_cells import PeerMissing
from whispertide_lab.evaluation.runner import Runner
from whispertide_lab.evaluation.score import aggregate
from whispertide_lab.evaluation.store import Cell, machine
from whispertide_lab.evaluation.sweep import best_step
from whispertide_lab.evaluation.trace import PROCESSOR, ClockName
from whispertide_lab.evaluation.watch import Watch

MODELS = ("tiny.en", "base")
HELD = "whisperkit"  # it has its own step
RIVALS = ("whisper-streaming", "simulstreaming")  # a recipe of ours and a program, called alike
STEPS = (0.5, 1.0, 2.0)
DELAYS = (0.47, 0.94, 1.5, 2.0)  # of tide, next to its own
PEER_STEPS = {"simulstreaming": (0.1, 0.5, 1.0)}
MOONSHINE = f"{PEER}moonshine"
LIVE = ("whisperlivekit-localagreement", "whisperlivekit-simulstreaming")  # servers, in real time
ANY = "people"  # stands for the parts, until one is measured


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

    @contextmanager
    def without_end(self) -> Iterator[None]:
        """What is begun in here may take its time."""
        deadline, self.deadline = self.deadline, float("inf")
        try:
            yield
        finally:
            self.deadline = deadline

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
    runners: dict[tuple[str, float, ClockName], Runner] = field(default_factory=dict)
    kept: dict[str, dict[str, Cell]] = field(default_factory=dict)

    def corpora(self, half: str) -> list[str]:
        """The parts of a half of the speakers."""
        return [
            f"people-{part}/{half}" + f":{self.options.speech}" * bool(self.options.speech)
            for part in self.options.parts
        ]

    def runner(self, model: str, seconds: float, clock: ClockName = PROCESSOR) -> Runner:
        """A runner that hears so many seconds of each corpus."""
        if (model, seconds, clock) not in self.runners:
            engine = EngineOptions("int8", "auto", self.options.threads)
            aligner = self.options.aligner
            setup = Setup(clock, excerpt_s=seconds, engine=engine, models=(model,), align=True, aligner=aligner)
            self.runners[model, seconds, clock] = Runner(Path(self.options.folder), setup, self.clerk)
        return self.runners[model, seconds, clock]

    def place_of_kept(self, model: str) -> Path:
        """Where finished cells of a model are kept."""
        output = Path(self.options.output)
        return output.parent / "benchmarks" / output.stem / f"{Path(model).name}.jsonl.gz"

    def kept_of(self, model: str) -> dict[str, Cell]:
        """Finished cells of a model that count, by what was asked for."""
        if model not in self.kept:
            found, anew = read_kept(self.place_of_kept(model)), self.options.anew
            self.kept[model] = {asked: cell for asked, cell in found.items() if cell.spec.recogniser not in anew}
        return self.kept[model]

    def measure(self, request: CellRequest, seconds: float) -> Cell | None:
        """The cell; None, with the reason noted, where it cannot be had."""
        name = " ".join(filter(None, (request.recogniser, text_of_settings(request), Path(request.model).name)))
        runner = self.runner(request.model, seconds, clock_of(request))
        runner.use_corpus(request.corpus)
        step = "" if request.step_s is None else f"{request.step_s:g} s"
        with self.clerk.without_end():  # a page needs to know where words are, too
            corpus = runner.open_corpus(request.corpus, request.model)
        threads, where = f"{self.options.threads} threads", f"on {self.options.machine}"
        asked = " ".join((name, step, corpus.name, corpus.hash, threads, where))
        kept = self.kept_of(request.model)
        found = kept.get(asked)
        is_of_weights = found is not None and found.spec.model_hash == runner.model_hash(request.model)
        if found is not None and is_of_weights and (self.options.page or was_here(found)):
            self.measured.append(found)
            return found
        if self.options.machine != machine():
            self.missing[name] = "it was not measured there"
            return None
        if self.options.only and request.recogniser not in self.options.only:
            self.missing[name] = "it was not asked for"
            return None
        try:
            cell = runner.run(request)
        except OutOfTime:
            self.missing[name] = "the time was up"
            return None
        except (PeerMissing, WhispertideError) as error:
            self.missing[name] = str(error)
            self.clerk.say(f"{name}: {error}")
            return None
        kept[asked] = cell
        keep(self.place_of_kept(request.model), {asked: cell})
        self.measured.append(cell)
        return cell

    def pooled(self, request: CellRequest, half: str, seconds: float) -> Cell | None:
        """The cell over all parts of a half together; None if one of them is missing, or there is none."""
        runner = self.runner(request.model, seconds)
        cells = []
        for corpus in self.corpora(half):
            try:
                with self.clerk.without_end():  # the page needs to know where words are, too
                    runner.open_corpus(corpus)
            except (CorpusError, OptionError):  # not every part has speakers in both halves
                continue
            cells.append(self.measure(replace(request, corpus=corpus), seconds))
        if not cells:
            place = self.options.speech or "../shared/speech"
            raise CorpusError(f"expected people's voices in {place}; found none: name their folder by --speech")
        found = [cell for cell in cells if cell is not None]
        return pool(found) if found and len(found) == len(cells) else None


def was_here(cell: Cell) -> bool:
    """False if it was measured on a machine of this name that is faster or slower."""
    return are_alike(cell.score.get("core_gflops"), core_gflops())


def clock_of(request: CellRequest) -> ClockName:
    """A server runs in real time; for all others the processor's seconds count."""
    return "live" if request.recogniser.removeprefix(PEER) in LIVE else PROCESSOR


def text_of_settings(request: CellRequest) -> str:
    """The settings of a request, as its label has them."""
    if request.recipe is not None:
        return ",".join(changes_of(request.recipe))
    return ",".join(f"{name}={text_of(value)}" for name, value in request.settings.items())


def _as_asked(request: CellRequest, cell: Cell) -> Cell:
    """With the changes that were asked for; those that follow from them for this checkpoint make long legends."""
    if request.recipe is None:
        return cell
    return replace(cell, spec=replace(cell.spec, changes=changes_of(request.recipe)))


def pool(cells: Sequence[Cell]) -> Cell:
    """Cells that differ in their corpus alone as one: a word counts as much as any other."""
    rows = tuple(chain(*(cell.utterances for cell in cells)))
    first = cells[0]
    about = {name: first.score[name] for name in ("recipe", "model", "clock", "step_s", "threads")}
    measured_by = {name: first.score.get(name) for name in ("commit", "core_gflops")}
    score = aggregate(rows, about | offline_together(cells)) | measured_by
    joined = "+".join(cell.spec.corpus_hash for cell in cells)
    one_step = first.spec.step_s if len({cell.spec.step_s for cell in cells}) == 1 else None
    spec = replace(first.spec, corpus_hash=joined, step_s=one_step)
    if len(cells) > 1:
        spec = replace(spec, corpus=ANY, corpus_name=ANY)  # as plots name it
    return Cell(spec, score, rows, max(cell.date for cell in cells))


def offline_together(cells: Sequence[Cell]) -> dict[str, float]:
    """What the same weights find offline, over the words of all cells; nothing where it was not compared."""
    words = [sum(int(row["words"] or 0) for row in cell.utterances) for cell in cells]
    total, found = sum(words), dict[str, float]()
    for name in ("wer_offline", "matched_offline"):
        shares = [float(share) for cell in cells if (share := cell.score.get(name)) is not None]
        if len(shares) == len(cells) and total:
            found[name] = sum(share * count for share, count in zip(shares, words, strict=True)) / total
    return found


# --- what is measured -------------------------------------------------------------------------------------------------


def candidates(model: str, name: str) -> list[CellRequest]:
    """A recipe, or a peer ("peer:..."), at each of its steps, with its gate."""
    peer = name.removeprefix(PEER)
    if peer == name:
        return grid((name,), (model,), (ANY,), STEPS, ())
    return [_surest(requests) for step in PEER_STEPS.get(peer, STEPS) if (requests := _peer(model, peer, step))]


def _peer(model: str, name: str, step_s: float | None) -> list[CellRequest]:
    return grid((), (model,), (ANY,), () if step_s is None else (step_s,), (), (name,))


def _surest(requests: Sequence[CellRequest]) -> CellRequest:
    """Without temperature fallback where there is the choice, and as it comes otherwise: sampling takes its time, and
    gives another text each time.
    """
    return next((request for request in requests if request.settings.get("fallback") is False), requests[0])


def _as_it_comes(requests: Sequence[CellRequest]) -> CellRequest:
    """With its own settings: what a server's users get."""
    return next((request for request in requests if not request.settings), requests[0])


def best(study: Study, model: str, name: str, half: str) -> float | None:
    """The best step of a recipe or peer, on the seconds for choosing of a half."""
    seconds = study.options.choosing / len(study.options.parts)
    cells = [study.pooled(request, half, seconds) for request in candidates(model, name)]
    found = best_step([cell for cell in cells if cell is not None])
    return None if found is None else found.spec.step_s


def contenders(model: str, steps: Mapping[str, float]) -> list[CellRequest]:
    """Ours and the stepped programs, at their best steps."""
    requests = grid((OURS,), (model,), (ANY,), (), ())
    for delay in DELAYS:
        requests += grid((OURS,), (model,), (ANY,), (), (f"delay_s={delay:g}",))
    for name, step in steps.items():
        peer = name.removeprefix(PEER)
        requests += (
            grid((name,), (model,), (ANY,), (step,), ()) if peer == name else [_surest(_peer(model, peer, step))]
        )
        if peer == name:
            requests += [request for short in SHORT for request in grid((name,), (model,), (ANY,), (step,), (short,))]
    for settings in ((), *((short,) for short in SHORT)):
        requests += grid((HELD,), (model,), (ANY,), (), settings)
    return [*requests, *(_as_it_comes(_peer(model, name, None)) for name in LIVE)]


def as_they_come(model: str) -> list[CellRequest]:
    """Programs that transcribe when all audio is there, ours among them; and Moonshine, which has its own model."""
    theirs = [_surest(_peer(model, name, None)) for name in (*WHOLE, MOONSHINE.removeprefix(PEER))]
    return [*theirs, CellRequest(OFFLINE, model, ANY)]


def measured(study: Study, model: str) -> Measured:
    """All of a model: steps are chosen on a half of the speakers, and what they give is reported on the other."""
    names = (*RIVALS, *(PEER + rival for rival in RIVALS))
    steps: dict[str, dict[str, float]] = {}
    for half in HALVES:
        steps[half] = {name: step for name in names if (step := best(study, model, name, half)) is not None}

    def reported(requests: Callable[[Mapping[str, float]], list[CellRequest]]) -> list[Cell]:
        cells: dict[str, list[Cell]] = {}
        for chosen, other in zip(HALVES, reversed(HALVES), strict=True):
            for request in requests(steps[chosen]):
                label = f"{request.recogniser} {text_of_settings(request)}"
                if (cell := study.pooled(request, other, study.options.heard)) is not None:
                    cells.setdefault(label, []).append(_as_asked(request, cell))
        return [pool(found) for found in cells.values() if len(found) == len(HALVES)]

    return Measured(model, reported(lambda best_ones: contenders(model, best_ones) + as_they_come(model)), steps)


def run(options: argparse.Namespace) -> None:
    """Measure what there is time for, model by model; then write the page."""
    deadline = 0.0 if options.page else time.monotonic() + 60 * options.minutes
    study = Study(options, Clerk(deadline))
    found = [measured(study, name) for name in options.models]
    study.clerk.say(f"wrote {write_page(options, found, study.measured, study.missing)}")


def main() -> None:
    """Parse, then run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help="in Hugging Face layout")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="measure these alone: peer:moonshine")
    parser.add_argument("--anew", nargs="+", default=[], metavar="NAME", help="measure these again: tide")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for all timings together")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(SPOKEN), help="of `people`")
    parser.add_argument("--choosing", type=float, default=160.0, metavar="S", help="of a half, to choose steps on")
    parser.add_argument("--heard", type=float, default=float("inf"), metavar="S", help="of each part of each half")
    parser.add_argument("--speech", default="", metavar="FOLDER", help="with manifest.jsonl; else ../shared/speech")
    parser.add_argument("--aligner", default="base", metavar="MODEL", help="places the words that nobody placed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--machine", default=machine(), help="whose cells a page is of, with --page")
    parser.add_argument("--folder", default="bench-results/peers")
    parser.add_argument("--output", default="lab/docs/peers.md")
    parser.add_argument("--readme", default="README.md")
    options = parser.parse_args()
    if options.machine != machine() and not options.page:
        parser.error(f"expected --page with --machine of another one: this one is {machine()!r}")
    run(options)


if __name__ == "__main__":
    main()
