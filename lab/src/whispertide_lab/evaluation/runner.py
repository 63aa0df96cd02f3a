"""Measures cells and remembers them: each finished utterance is kept at once, so that an interrupted run goes on.

Brings together models and corpora (`workbench`), recognisers (`replay`, `peers`) and the store; what a score means and
how a page looks are others' affairs. Offline transcription of the same model with the same beam is measured next to
every recipe, as a cell of its own, because streaming is judged against it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar, get_args

from whispertide.errors import OptionError
from whispertide.options import DecodeOptions
from whispertide.recipes.allocation import allocate
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe, parse_overrides
from whispertide.tuning.profile import label
from whispertide.types import seconds
from whispertide_lab.evaluation import store
from whispertide_lab.evaluation.aligned import AlignedCorpus
from whispertide_lab.evaluation.clips import CLIP_S, CUT_BY, Clip, clips_of
from whispertide_lab.evaluation.grid import OFFLINE, PEER, TUNED, CellRequest, Setup, changes_of, text_of
from whispertide_lab.evaluation.peer_cells import PeerMissing, hearing, peer_code, settings_of, unfit
from whispertide_lab.evaluation.replay import OFFLINE as OFFLINE_OPTIONS
from whispertide_lab.evaluation.replay import Recogniser, offline, run_cell, streaming
from whispertide_lab.evaluation.store import Cell, CellSpec, Json, Results
from whispertide_lab.evaluation.trace import FREE, PROCESSOR, SIMULATED, ClockName, Trace
from whispertide_lab.evaluation.watch import Watch, showing
from whispertide_lab.evaluation.workbench import Workbench
from whispertide_lab.speech.utterance import Corpus, Utterance

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """A cell that can be measured. `recogniser` is called only if something is left to be measured."""

    spec: CellSpec
    corpus: Corpus
    recogniser: Callable[[], Recogniser]


class Runner(Workbench):
    """Measures cells of one clock, engine and folder."""

    def __init__(self, folder: Path, setup: Setup, watch: Watch) -> None:
        super().__init__(setup, watch)
        if setup.clock not in get_args(ClockName):
            raise OptionError(f"expected a clock among {', '.join(get_args(ClockName))}; got {setup.clock!r}")
        self.results = Results(folder)
        self.clock: ClockName = setup.clock  # type: ignore[assignment]  # just checked

    def kept(self, name: str, kind: type[T], make: Callable[[], T], *made_by: str, models: Sequence[str] = ()) -> T:
        """`make()`, which is called only if nothing of that name is stored for the chosen corpus, these models (or else
        the first one), this machine and this code.

        `kind` is the type of what it makes (`Results.kept`); `made_by` are modules and packages that otherwise do not
        count (`store.code_version`).
        """
        first, *others = models or self.models[:1]
        settings = {
            "quick": str(self.quick),
            "others": " ".join(f"{self.model_hash(model)} {self.attachments_hash(model)}" for model in others),
            "tuned": " ".join(self.tuned(model) for model in (first, *others)),
        }
        code = store.code_version("", *made_by)
        spec = replace(self._spec(name, first, self.corpus), streaming=False, settings=settings, code=code)
        found = self.results.kept(spec, kind)
        if found is None:
            found = make()
            self.results.keep(spec, found)
        return found

    def about(self) -> str:
        """Where and on what, in a sentence."""
        aligned = isinstance(self.corpus, AlignedCorpus)
        return (
            f"Measured on {store.machine()}, commit {store.commit()}, corpus {self.corpus.name} ({self.corpus.hash}), "
            f"clock {self.clock}." + aligned * " Word times are by forced alignment, not exact."
        )

    # --- cells -------------------------------------------------------------------------------------------------------

    def cell(self, recipe: str, *settings: str, model: str | None = None, step_s: float | None = None) -> Cell:
        """The cell of a recipe with some settings, on the chosen corpus and, unless told otherwise, the first model."""
        chosen = parse_overrides(get_recipe(recipe), settings)
        if step_s is not None:
            chosen = chosen.replace(step_s=step_s)
        return self.run(CellRequest(recipe, model or self.models[0], self.corpus_name, chosen, chosen.schedule.step_s))

    def peer(self, name: str) -> Cell:
        """The cell of another program at its defaults. Raises `PeerMissing`."""
        return self.run(CellRequest(PEER + name, self.models[0], self.corpus_name))

    @contextmanager
    def timed_by(self, clock: ClockName) -> Iterator[None]:
        """Cells are measured by that clock meanwhile: some of the papers' items are about no other."""
        usual, self.clock = self.clock, clock
        try:
            yield
        finally:
            self.clock = usual

    @contextmanager
    def timed_fairly(self) -> Iterator[None]:
        """Cells are measured by processor time meanwhile: those that are compared are measured one after the other, and
        the wall's clock has in it what else the machine did then. Not where several threads compute, whose seconds
        would be added up, or where another clock was asked for.
        """
        fair = self.clock == SIMULATED and self.engine.threads == 1
        with self.timed_by(PROCESSOR if fair else self.clock):
            yield

    def each_clip(
        self,
        name: str,
        measure: Callable[[Clip], Json],
        *,
        usual: int,
        quick: int,
        made_by: Sequence[str],
        model: str | None = None,
        **settings: str,
    ) -> list[Json]:
        """What `measure` finds in each clip of the chosen corpus with a model, as a rule the first; every clip is kept
        at once.

        There are `usual` clips, `quick` in a quick run; else, of an excerpt that was asked for, all. `made_by` are
        modules that otherwise do not count and measure here, `settings` whatever else the findings depend on. Raises
        what `clips_of` raises.
        """
        model = model or self.models[0]
        asked = self.quick or self.setup.excerpt_s is not None
        corpus = self.corpus if asked else self.open_part(self.corpus_name, model, usual * CLIP_S)
        clips = clips_of(corpus, quick if self.quick else None if asked else usual)
        spec = replace(
            self._spec(name, model, corpus),
            streaming=False,
            settings=settings,
            code=store.code_version("", *made_by, CUT_BY),
        )
        self.results.begin(spec)
        total = sum(seconds(len(clip.samples)) for clip in clips)
        with showing(self.watch, f"{name} {spec.model} {spec.corpus}", total):
            return [self._clip(spec, number, clip, measure) for number, clip in enumerate(clips)]

    def _clip(self, spec: CellSpec, number: int, clip: Clip, measure: Callable[[Clip], Json]) -> Json:
        found, length_s = self.results.clip(spec, number), seconds(len(clip.samples))
        if found is not None:
            self.watch.skip(length_s)
            return found
        found = measure(clip)
        self.results.save_clip(spec, number, found)
        self.watch.advance(length_s)
        return found

    def run(self, request: CellRequest, *, place: str = "") -> Cell:
        """Measure a cell, or find it measured. Raises what loading and computing raise, and `PeerMissing`."""
        *references, job = self.jobs(request)
        # Not counted: what a cell is judged against is measured once for all of them.
        offline = [self._measure(reference, "") for reference in references]
        return self._measure(job, place, *offline)

    def jobs(self, request: CellRequest) -> list[Job]:
        """What has to be measured for a cell: itself, after what it is judged against. Nothing is computed yet.

        Makes the corpus if need be. Raises what loading raises, and `PeerMissing` for a peer that cannot run here.
        """
        from whispertide_lab.evaluation.peers import get_peer

        corpus = self.open_corpus(request.corpus, request.model)
        if request.recipe is not None:
            recipe = request.recipe
            return [
                self._offline_job(request.model, corpus, recipe.search.hypotheses),
                self._streaming_job(request, recipe, corpus),
            ]
        if request.recogniser == OFFLINE:
            return [self._offline_job(request.model, corpus, DecodeOptions().beam)]
        job = self._peer_job(request, corpus)
        if not get_peer(request.recogniser.removeprefix(PEER)).conversion:  # it has weights of its own
            return [job]
        return [self._offline_job(request.model, corpus, DecodeOptions().beam), job]

    def _streaming_job(self, request: CellRequest, asked: Recipe, corpus: Corpus) -> Job:
        """The cell is named by the recipe as the model gets it: its framing may be the outcome of a measurement."""
        recipe = self.framed(request.model, asked)
        spec = replace(
            self._spec(request.recogniser, request.model, corpus),
            step_s=recipe.schedule.step_s,
            changes=self._changes(request.model, asked, recipe),
            settings={name: str(value) for name, value in recipe.settings().items()}
            | self._places(request.model, recipe),
        )
        return Job(spec, corpus, lambda: streaming(self.transcriber(request.model), recipe, clock=self.clock))

    def _changes(self, model: str, asked: Recipe, framed: Recipe) -> tuple[str, ...]:
        """What a row is named by besides the recipe: of a model that was tuned what was asked for and that it was, as
        its rule alone is many numbers, which the settings of the cell have.
        """
        known = self.transcriber(model).calibration if asked.framing.kind == "auto" else None
        return (*changes_of(asked), TUNED) if known is not None and known.changes else changes_of(framed)

    def _offline_job(self, model: str, corpus: Corpus, beam: int) -> Job:
        changes = () if beam == 1 else (f"beam={beam}",)
        spec = replace(
            self._spec(OFFLINE, model, corpus), changes=changes, streaming=False, settings={"beam": str(beam)}
        )

        options = replace(OFFLINE_OPTIONS, beam=beam)
        return Job(spec, corpus, lambda: offline(self.transcriber(model), clock=self.clock, options=options))

    def _peer_job(self, request: CellRequest, corpus: Corpus) -> Job:
        from whispertide_lab.evaluation.peers import get_peer, versions, why_not

        peer = get_peer(request.recogniser.removeprefix(PEER))
        if reason := why_not(peer) or unfit(peer, corpus, self.clock):
            raise PeerMissing(reason)
        settings = settings_of(peer, request, corpus, self.setup, self.clock)
        step = settings.get("step_s")
        spec = replace(
            self._spec(request.recogniser, request.model, corpus),
            step_s=float(step) if step is not None else None,
            changes=tuple(f"{name}={text_of(value)}" for name, value in request.settings.items()),
            streaming=peer.streaming,
            clock=self.clock if self.clock in (FREE, PROCESSOR) and "clock" in peer.defaults else peer.clock,
            settings={name: str(value) for name, value in settings.items()} | {"packages": versions(peer)},
            code=peer_code(),
        )
        changes = {name: settings[name] for name in peer.defaults}
        return Job(spec, corpus, lambda: hearing(peer, request.model, spec, corpus, self.results, changes))

    def _measure(self, job: Job, place: str, offline: Cell | None = None) -> Cell:
        """The cell from the store, or measured from where it was left, and judged against `offline`."""
        spec, corpus = job.spec, job.corpus
        if (done := self.results.cell(spec)) is not None:
            return done
        self.results.begin(spec)
        total = sum(utterance.seconds for utterance in corpus.utterances())
        recognise = _remembering(self.results, spec, job.recogniser, self.watch)
        label = " ".join(part for part in (place, spec.label, spec.step, spec.model, spec.corpus) if part)
        with showing(self.watch, label, total):
            about = self._about(spec, corpus, offline)
            texts = {} if offline is None else {trace.utterance: trace for trace in offline.traces()}
            score, rows = run_cell(recognise, corpus, about, offline=texts)
        return self.results.save(spec, score, rows)

    def _spec(self, recogniser: str, model: str, corpus: Corpus) -> CellSpec:
        return CellSpec(
            recogniser=recogniser,
            model=Path(model).name if Path(model).is_dir() else model,
            corpus=self.label_of(corpus),
            corpus_name=corpus.name,
            corpus_hash=corpus.hash,
            clock=self.clock,
            model_hash=self.model_hash(model),
            attachments_hash=self.attachments_hash(model),
            engine=self._engine_and_version(),
            machine=store.machine(),
            code=store.code_version(),
        )

    def _engine_and_version(self) -> dict[str, str]:
        options = {name: str(value) for name, value in asdict(self.engine).items()}
        version = store.engine_version(self.engine.provider)
        return options | ({"version": version} if version else {})

    def _places(self, model: str, recipe: Recipe) -> dict[str, str]:
        """Where rounds compute, if the recipe leaves it open: what `whispertide profile` found here, or even shares."""
        if recipe.executor.kind in ("serial", "hybrid"):  # all in one place: no model need be loaded to know it
            return {}
        resolved, allocation = allocate(self.transcriber(model).model, recipe)
        return {"allocation": resolved.executor.kind if allocation is None else label(allocation)}

    def _about(self, spec: CellSpec, corpus: Corpus, offline: Cell | None) -> Json:
        placed = corpus.error if isinstance(corpus, AlignedCorpus) else None
        return {
            "recipe": spec.label,
            **{name: getattr(spec, name) for name in ("model", "corpus", "corpus_hash")},
            "clock": spec.clock,
            "step_s": spec.step_s,
            "threads": self.engine.threads,
            "alignment": placed and asdict(placed),
            **{f"{name}_offline": offline and offline.score.get(name) for name in ("wer", "matched")},
        }


def _remembering(results: Results, spec: CellSpec, make: Callable[[], Recogniser], watch: Watch) -> Recogniser:
    """A recogniser that keeps each trace, and takes from the store what is there; `watch` is told of both."""
    made: list[Recogniser] = []

    def recognise(utterance: Utterance) -> Trace:
        if (kept := results.trace(spec, utterance.id)) is not None:
            # Once something was computed: other programs hear several at once, and these are of this run, too.
            (watch.advance if made else watch.skip)(utterance.seconds)
            return kept
        if not made:
            made.append(make())
        trace = made[0](utterance)
        results.save_trace(spec, trace)
        watch.advance(utterance.seconds)
        return trace

    return recognise
