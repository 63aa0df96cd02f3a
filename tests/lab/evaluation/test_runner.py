"""What is measured clip by clip, and goes on where it was stopped."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from counting_watch import CountingWatch
from evaluation_cells import make_trace
from fake_recognisers import fake_recognisers, talks
from unheard_windows import without_short_windows
from whispertide.api import Transcriber, load
from whispertide.methods.attention.steadiness import read_rule
from whispertide.methods.short.hush import HushWord
from whispertide.model.providers import thread_count
from whispertide.options import EngineOptions, ProviderName
from whispertide.recipes import calibration
from whispertide.recipes.allocation import Allocation, Measured, Placement, remember
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import parse_overrides
from whispertide.recipes.short_windows import Costs
from whispertide.types import SAMPLE_RATE
from whispertide.understand.checkpoint import COMMANDS, load_late
from whispertide_lab.evaluation import store
from whispertide_lab.evaluation.attachment_digest import digest_folder
from whispertide_lab.evaluation.clips import CLIP_S, CUT_BY, Clip
from whispertide_lab.evaluation.grid import CellRequest, Setup
from whispertide_lab.evaluation.items import allocation, guard
from whispertide_lab.evaluation.runner import Job, Runner, _remembering
from whispertide_lab.evaluation.store import CellSpec, Json, Results
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.speech.utterance import Recordings, Utterance

USUAL, QUICK = 3, 2
# 45 s in which nobody speaks: five clips, the last of 5 s
SILENCE = Recordings("silence", "0", (Utterance("u", (), 45, lambda: np.arange(45 * SAMPLE_RATE, dtype=np.float32)),))


class Measuring:
    """Finds where a clip begins; at most `patience` clips, then it is interrupted."""

    def __init__(self, patience: int = 99) -> None:
        self.patience = patience
        self.heard: list[float] = []

    def __call__(self, clip: Clip) -> Json:
        if len(self.heard) == self.patience:
            raise KeyboardInterrupt
        self.heard.append(float(clip.samples[0]) / SAMPLE_RATE)
        return {"begins": self.heard[-1]}


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return make_runner(tmp_path, Setup())


def make_runner(folder: Path, setup: Setup) -> Runner:
    runner = Runner(folder, setup, CountingWatch())
    for length_s in (setup.length_s, USUAL * CLIP_S):  # of cells, and of as many clips as are usual
        runner._corpora["silence", frozenset({"en"}), length_s] = SILENCE
    runner.use_corpus("silence")
    return runner


def measure(runner: Runner, measuring: Measuring, **settings: str) -> list[float]:
    found = runner.each_clip("beginnings", measuring, usual=USUAL, quick=QUICK, made_by=(guard.__name__,), **settings)
    return [clip["begins"] for clip in found]


@pytest.mark.parametrize(("setup", "length_s"), [(Setup(usual_s=120), 60), (Setup(excerpt_s=300, usual_s=120), 300)])
def test_an_item_hears_less_where_nobody_asked_for_more(tmp_path: Path, setup: Setup, length_s: float) -> None:
    runner = make_runner(tmp_path, setup)
    with runner.on_corpus("talks", 60):
        assert (runner.corpus_name, runner.setup.length_s) == ("talks", length_s)
    assert (runner.corpus_name, runner.setup) == ("silence", setup)
    with runner.on_corpus("talks"):
        assert runner.setup == setup


@pytest.mark.parametrize(
    ("clock", "threads", "fair"),
    [("simulated", 1, "processor"), ("simulated", 2, "simulated"), ("free", 1, "free"), ("live", 1, "live")],
)
def test_times_that_are_compared_are_the_processors(tmp_path: Path, clock: str, threads: int, fair: str) -> None:
    runner = make_runner(tmp_path, Setup(clock=clock, engine=EngineOptions(threads=threads)))
    with runner.timed_fairly():
        assert runner.clock == fair
    assert runner.clock == clock


def test_an_interrupted_measurement_goes_on(runner: Runner) -> None:
    with pytest.raises(KeyboardInterrupt):
        measure(runner, Measuring(patience=2))
    again = Measuring()
    assert measure(runner, again) == [0.0, 10.0, 20.0]
    assert again.heard == [20.0]


def test_it_is_shown_how_far_it_is(runner: Runner) -> None:
    measure(runner, Measuring())
    assert isinstance(runner.watch, CountingWatch)
    assert runner.watch.done == runner.watch.total == 30


def test_what_an_earlier_run_did_is_told_apart(runner: Runner) -> None:
    with pytest.raises(KeyboardInterrupt):
        measure(runner, Measuring(patience=2))
    measure(runner, Measuring())
    assert isinstance(runner.watch, CountingWatch)
    assert (runner.watch.skipped, runner.watch.done) == (20, 10)


def test_so_are_the_utterances_of_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, watch = fake_recognisers(monkeypatch), CountingWatch()
    runner = Runner(tmp_path, Setup(), watch)
    runner.use_corpus("talks")
    heard.fail_after = 3  # both utterances offline, and the first of the stream
    with pytest.raises(KeyboardInterrupt):
        runner.cell("tide")
    assert (watch.skipped, watch.done) == (0, 40)
    heard.fail_after = None
    runner.cell("tide")
    assert (watch.skipped, watch.done, watch.total) == (40, 40, 80)


def test_what_was_heard_ahead_is_of_this_run(tmp_path: Path) -> None:
    """As other programs do, which load their model anew each time."""
    results, watch, said = Results(tmp_path), CountingWatch(), talks(count=3).items
    spec = CellSpec("peer:one", "nano.en", "talks", "0", "simulated")

    def hears_all(utterance: Utterance) -> Trace:
        for other in said[1:]:
            results.save_trace(spec, make_trace(other.id))
        return make_trace(utterance.id)

    results.save_trace(spec, make_trace(said[0].id))
    recognise = _remembering(results, spec, lambda: hears_all, watch)
    for utterance in said:
        recognise(utterance)
    assert (watch.skipped, watch.done) == (40, 80)


def test_other_settings_are_measured_anew(runner: Runner) -> None:
    measure(runner, Measuring())
    other = Measuring()
    measure(runner, other, hush="0.5 s")
    assert len(other.heard) == USUAL


@pytest.mark.parametrize(("setup", "count"), [(Setup(quick=True), QUICK), (Setup(), USUAL), (Setup(excerpt_s=45), 5)])
def test_an_excerpt_is_measured_whole(tmp_path: Path, setup: Setup, count: int) -> None:
    assert len(measure(make_runner(tmp_path, setup), Measuring())) == count


def test_the_row_of_a_program_that_runs_in_real_time_says_so(runner: Runner) -> None:
    """Whatever clock the cells next to it are measured by."""
    assert runner.clock == "simulated"
    server = CellSpec("peer:a-server", "nano.en", "silence", SILENCE.hash, "live")
    assert runner._about(server, SILENCE, None)["clock"] == "live"


def test_a_cell_says_how_its_windows_were_framed(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The framing of tide is chosen for the checkpoint: then it is part of what the cell is."""
    specs: list[CellSpec] = []

    def found(job: Job, *_: Any) -> Any:
        specs.append(job.spec)
        return SimpleNamespace(score={"wer": 0.0})

    monkeypatch.setattr(runner, "_measure", found)
    unsaid = str(without_short_windows(tmp_path / "models"))
    runner._loaded = (unsaid, Transcriber(load(unsaid, threads=1).model, measure=lambda _: Costs(0.12)))
    runner.cell("tide", model=unsaid)
    measured = specs[-1]
    changes = ("framing=merged", "zeros_s=0.5", "stand_for_all=128", "shift_guard=true")
    assert (measured.settings["framing"], measured.changes) == ("merged", changes)
    runner.cell("tide", *changes, model=unsaid)
    assert specs[-1].key == measured.key  # asked for by name it is the same cell
    runner.cell("tide", "framing=bare", model=unsaid)
    assert (specs[-1].settings["shift_guard"], specs[-1].changes) == ("False", ())
    assert specs[-1].key != measured.key


def first_spec(runner: Runner, recipe: str, *settings: str) -> CellSpec:
    chosen = parse_overrides(get_recipe(recipe), settings)
    return runner.jobs(CellRequest(recipe, "nano.en", "silence", chosen, chosen.schedule.step_s))[-1].spec


def test_the_threads_that_compute_are_those_that_the_key_names(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that `whispertide tune` found best here, which the key does not name."""
    monkeypatch.setattr(calibration, "tuned_threads", lambda _, options: options.threads or 7)
    threads = runner.transcriber("nano.en").model.options.threads
    assert threads == thread_count(Setup().engine)
    assert first_spec(runner, "whisper-streaming").engine["threads"] == str(threads)


def test_where_stages_compute_is_part_of_the_key(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = runner.transcriber("nano.en").model
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    two, one, three = (Placement("cpu", threads) for threads in (2, 1, 3))
    specs = []
    for measured in ((), (Allocation(two, one),), (Allocation(two, three),)):
        remember(model, "whisper-streaming", [Measured(allocation, 1.0, 1.0) for allocation in measured])
        specs.append(first_spec(runner, "whisper-streaming", "executor=pipelined"))
    assert len({spec.key for spec in specs}) == 3
    assert specs[1].settings["allocation"] == "pipelined: encoder 2 threads, cpu; decoder 1 thread, cpu"
    assert "allocation" not in first_spec(runner, "whisper-streaming").settings
    assert first_spec(runner, "whisper-streaming", "executor=auto").settings["allocation"].endswith("3 threads, cpu")


def test_clips_are_measured_anew_by_other_code_that_decodes_them(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def code_version(part: str = "", *more: str) -> str:
        asked.append(more)
        return "code"

    monkeypatch.setattr(store, "code_version", code_version)
    runner.each_clip("beginnings", Measuring(), usual=USUAL, quick=QUICK, made_by=(guard.__name__, "another"))
    assert (guard.__name__, "another", CUT_BY) in asked


def test_an_engine_of_ours_is_part_of_the_key(tmp_path: Path) -> None:
    def engine(provider: ProviderName) -> dict[str, str]:
        setup = Setup(engine=EngineOptions(precision="fp32", provider=provider))
        return make_runner(tmp_path, setup)._engine_and_version()

    assert "version" not in engine("cpu")
    assert engine("torch")["version"] == store.engine_version("torch")


# --- what is found at once --------------------------------------------------------------------------------------------


class Making:
    """A measurement that counts how often it is made."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> list[Measured]:
        self.times += 1
        return [Measured(Allocation(Placement("cpu", 2), Placement("cpu", 1)), 0.3, 0.2)]


def kept(runner: Runner, making: Making, name: str = "divisions", models: Sequence[str] = ()) -> list[Measured]:
    return runner.kept(name, list[Measured], making, allocation.__name__, models=models)


def test_what_was_found_is_kept_for_the_next_run(tmp_path: Path) -> None:
    making = Making()
    first = kept(make_runner(tmp_path, Setup()), making)
    assert kept(make_runner(tmp_path, Setup()), making) == first == making()
    assert making.times == 2, "once to measure, once to compare"


def test_what_was_interrupted_is_not_kept(runner: Runner) -> None:
    def stop() -> list[Measured]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.kept("divisions", list[Measured], stop, allocation.__name__)
    making = Making()
    kept(runner, making)
    assert making.times == 1


def test_what_was_measured_before_a_tuning_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By it recipes get their framing."""
    making = Making()
    kept(make_runner(tmp_path, Setup()), making)
    monkeypatch.setattr(Transcriber, "calibration", calibration.Calibration({"framing": "pad30"}, "for a test"))
    kept(make_runner(tmp_path, Setup()), making)
    assert making.times == 2


def test_what_was_measured_with_other_attachments_is_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every model that takes part."""
    making, lies_beside = Making(), {"nano.en": "one", "commands": "one"}
    monkeypatch.setattr(Runner, "attachments_hash", lambda self, model: lies_beside[model])
    for changed in ("nothing", "nano.en", "commands"):
        lies_beside[changed] = "another"
        kept(make_runner(tmp_path, Setup()), making, models=("nano.en", "commands"))
    assert making.times == 3


def test_a_tuned_row_is_named_so(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what was found, which holds a rule of many numbers; that is in the settings of the cell."""
    found = calibration.Calibration({"framing": "pad30", "rule": read_rule("").text()}, "for a test")
    monkeypatch.setattr(Transcriber, "calibration", found)
    asked = get_recipe("tide").replace(max_revision_rate=0.1)
    for recipe, name in ((get_recipe("tide"), "tide tuned"), (asked, "tide max_revision_rate=0.1 tuned")):
        job = runner.jobs(CellRequest("tide", "nano.en", "silence", recipe))[-1]
        assert job.spec.label == name
        assert job.spec.settings["rule"] == found.changes["rule"]
    named = get_recipe("tide").replace(framing="pad30")
    assert runner.jobs(CellRequest("tide", "nano.en", "silence", named))[-1].spec.label == "tide framing=pad30"


def test_another_name_model_length_or_code_is_measured_anew(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = Making()
    kept(runner, making)
    kept(runner, making, name="others")
    kept(runner, making, models=("nano.en", "nano.en"))
    quick = make_runner(tmp_path, Setup(quick=True))
    kept(quick, making)
    monkeypatch.setattr(store, "code_version", lambda *_: "another")
    kept(runner, making)
    assert making.times == 5
    kept(runner, making)
    assert making.times == 5


def test_a_network_for_commands_has_a_hash_of_its_own(runner: Runner) -> None:
    assert runner.model_hash("commands") == load_late(Path("commands")).content_hash[:12]
    assert runner.attachments_hash("commands") == digest_folder(COMMANDS)


def test_named_hush_words_are_told_apart_and_the_first_is_that_of_recipes(tmp_path: Path) -> None:
    short, long = (HushWord(np.sin(np.arange(length, dtype=np.float32))) for length in (8000, 16000))
    hashes = []
    for words in ((), (short,), (long,), (short, long)):
        runner = make_runner(tmp_path, Setup(hush=words))
        hashes.append(runner.attachments_hash("nano.en"))
        assert runner.transcriber("nano.en").hush is (words[0] if words else None)
    assert len(set(hashes)) == 4
