"""WhisperFlow's tables and figures have the content of the paper's: which recipes are run for each, at which steps."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from evaluation_cells import SPEC
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe, parse_overrides
from whispertide.streaming.searches import Pruned
from whispertide_lab.evaluation import report
from whispertide_lab.evaluation.items import whisperflow as items
from whispertide_lab.evaluation.trace import RoundCost, Trace

_NO_REPORT: dict[str, Any] = {"QUALITY": (), "LATENCY": (), "COST": ()}
_NO_REPORT |= {"cells_table": lambda *_, **__: None, "mark_notes": lambda _: []}
MODELS = ("one", "two")


@dataclass
class FakeRunner:
    quick: bool = True
    models: tuple[str, ...] = MODELS
    asked: list[Recipe] = field(default_factory=list)
    asked_of: list[str] = field(default_factory=list)  # the models of these recipes

    def cell(self, recipe: str, *settings: str, model: str | None = None, step_s: float | None = None) -> Any:
        chosen = parse_overrides(get_recipe(recipe), settings)
        self.asked.append(chosen if step_s is None else chosen.replace(step_s=step_s))
        self.asked_of.append(model or self.models[0])
        costs = (RoundCost(1.0, 0.5, 1.0, encode_s=0.1, decode_s=0.2, align_s=0.05),)
        spec = SimpleNamespace(model=model or "one", label=recipe)
        return SimpleNamespace(spec=spec, traces=lambda: iter([Trace("u", recipe, "simulated", 2.0, (), costs)]))


def asked(measure: Any, monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """The recipes that an item runs; what is made of them is not looked at."""
    monkeypatch.setattr(items, "_latencies", lambda *_: None)
    monkeypatch.setattr(items, "report", SimpleNamespace(**_NO_REPORT))
    monkeypatch.setattr(items, "charts", SimpleNamespace(trade_off_plot=lambda cells: None))
    runner: Any = FakeRunner()
    measure(runner)
    found: list[Recipe] = runner.asked
    return found


class ScoringRunner(FakeRunner):
    """Its cells have all that is reported of a cell."""

    score: ClassVar[dict[str, Any]] = {
        **{"wer": 0.05, "wer_offline": 0.04, "confirmed_mean_s": 1.25},
        **{"avg_beam": 2.5, "reduce_ratio": 0.625, "decoder_runs_per_s": 9.0, "cpu_s_per_s": 0.1},
    }

    def cell(self, recipe: str, *settings: str, model: str | None = None, step_s: float | None = None) -> Any:
        super().cell(recipe, *settings, model=model, step_s=step_s)
        spec = replace(SPEC, recogniser=recipe, changes=settings, model=self.asked_of[-1], step_s=step_s)
        return SimpleNamespace(spec=spec, score=self.score, utterances=())


def test_stages_are_timed_with_a_beam_of_one_and_of_five() -> None:
    runner: Any = FakeRunner()
    (table,) = items.stage_table(runner).tables
    assert [row[:5] for row in table.rows] == [
        (model, beam, "100", "200", "50") for model in ("one", "two") for beam in ("1", "5")
    ]
    assert [recipe.search.hypotheses for recipe in runner.asked] == [1, 5, 1, 5]


def test_every_row_of_the_table_of_beams_has_a_hush_word_and_prunes(monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = asked(items.beam_table, monkeypatch)
    assert {recipe.framing.kind for recipe in recipes} == {"hush"}
    assert {recipe.search.kind for recipe in recipes} == {"pruned", "verified"}
    assert {recipe.schedule.step_s for recipe in recipes} == {0.5, 0.75, 1.0}
    published = recipes[0].search
    fields = [getattr(published, name, None) for name in ("align", "recover", "follows")]
    assert fields == ["first", False, "shown"]


def test_the_table_of_beams_is_of_every_model_and_step() -> None:
    """WhisperFlow's table 4: model, step, latency, average beam, reduce ratio."""
    runner: Any = ScoringRunner()
    (table,) = items.beam_table(runner).tables
    places = [table.columns.index(name) for name in ("model", "step", "confirmed mean s", "avg beam", "reduce ratio")]
    rows = [tuple(row[place] for place in places) for row in table.rows if "align=first" in str(row[0])]
    assert rows == [(model, step, "1.25", "2.50", "0.62") for model in MODELS for step in ("0.5 s", "0.75 s", "1 s")]


def test_baseline_and_system_are_both_as_fast_as_they_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = asked(items.model_figure, monkeypatch)
    assert {recipe.schedule.step_s for recipe in recipes} == {0.1}
    pairs = {(recipe.name, recipe.executor.kind) for recipe in recipes}
    assert pairs == {(name, kind) for name in ("whisper-streaming", "whisperflow") for kind in ("serial", "pipelined")}


def test_every_model_has_a_bar_for_baseline_and_system_with_one_worker_and_with_two() -> None:
    """WhisperFlow's figure 7."""
    runner: Any = ScoringRunner()
    outcome = items.model_figure(runner)
    ran = [
        (model, recipe.name, recipe.executor.kind) for model, recipe in zip(runner.asked_of, runner.asked, strict=True)
    ]
    systems = [(name, kind) for name in ("whisper-streaming", "whisperflow") for kind in ("serial", "pipelined")]
    assert ran == [(model, *system) for model in MODELS for system in systems]
    assert [row[0].split(":")[0] for row in outcome.plots[0].drawing.rows] == runner.asked_of
    table = outcome.tables[0]
    assert [row[table.columns.index("model")] for row in table.rows] == runner.asked_of


def test_latency_against_errors_has_a_curve_for_two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = asked(items.step_figure, monkeypatch)
    curves = {(recipe.name, recipe.executor.kind) for recipe in recipes}
    assert curves == {("whisper-streaming", "serial"), ("whisperflow", "serial"), ("whisperflow", "pipelined")}
    assert {recipe.schedule.step_s for recipe in recipes} == set(items.QUICK_STEPS)


@pytest.mark.slow
def test_latency_against_errors_has_points_for_all_steps_and_a_line_for_the_offline_errors() -> None:
    """WhisperFlow's figure 8, whose points are annotated with their steps."""
    runner: Any = ScoringRunner(quick=False)
    *points, level = items.step_figure(runner).plots[0].drawing.rows
    steps = ("0.1 s", "0.25 s", "0.5 s", "0.75 s", "1 s", "1.5 s", "2 s", "3 s")
    curves = ("whisper-streaming", "whisperflow", "whisperflow executor=pipelined")
    assert [(row[0], row[-1]) for row in points] == [(curve, step) for curve in curves for step in steps]
    assert level[0] == "offline WER 4.0 %"


def test_the_ablation_has_a_bar_for_each_part_on_each_model() -> None:
    """WhisperFlow's figure 10 has the first three and the last; those in between are ours."""
    runner: Any = ScoringRunner()
    outcome = items.ablation_figure(runner)
    parts = [
        *("baseline, best effort", "+ hush word", "+ beam pruning"),
        *("+ place found by time", "+ what breaks off waits", "+ unlikely words wait", "+ two workers"),
    ]
    assert [row[0] for row in outcome.plots[0].drawing.rows] == [
        f"{model}: {part}" for model in MODELS for part in parts
    ]
    assert runner.asked_of == 7 * ["one"] + 7 * ["two"]
    assert {recipe.schedule.step_s for recipe in runner.asked} == {0.1}


@pytest.mark.slow
def test_the_same_rounds_are_one_cell_in_three_figures() -> None:
    """Measured twice, they differ by what the machine did meanwhile."""
    runs: list[Any] = [ScoringRunner(quick=False) for _ in range(3)]
    for run, measure in zip(runs, (items.model_figure, items.step_figure, items.ablation_figure), strict=True):
        measure(run)
    firsts = [run.asked[0] for run in runs]
    assert firsts[0] == firsts[1] == firsts[2]
    systems = [next(recipe for recipe in run.asked if recipe.name == "whisperflow") for run in runs[:2]]
    assert systems[0] == systems[1]


def test_how_many_times_sooner_has_its_spread_over_recordings() -> None:
    runner: Any = ScoringRunner()
    late: list[dict[str, Any]] = [{"confirmed_s": [2.0, 3.0 + at % 2]} for at in range(20)]
    made = runner.cell

    def cell(recipe: str, *settings: str, **more: Any) -> Any:
        found = made(recipe, *settings, **more)
        found.utterances = late if recipe == items.BASELINE else [{**row, "confirmed_s": [0.5]} for row in late]
        return found

    runner.cell = cell
    *_, sooner = items.model_figure(runner).tables
    assert [row[0] for row in sooner.rows] == 3 * ["one"] + 3 * ["two"]  # each next to the first of its model
    assert [row[2] for row in sooner.rows[:3]] == ["1.00", "5.50", "5.50"]
    low, high = map(float, str(sooner.rows[1][3]).split(" to "))
    assert low < 5.5 < high
    assert "simulation" in items.model_figure(runner).note
    assert "over speakers, or recordings where nobody knows the speaker" in items.model_figure(runner).note
    late = [{**row, "words": 2, "group": f"speaker {at % 10}"} for at, row in enumerate(late)]
    *_, sooner = items.model_figure(runner).tables
    assert str(sooner.rows[1][3]).endswith(" (only 10: too narrow)")


def test_each_part_is_added_to_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = asked(items.ablation_figure, monkeypatch)[: len(items.ABLATION)]  # of the first model
    parts = [(recipe.framing.kind, recipe.search.kind, recipe.executor.kind) for recipe in recipes]
    assert parts[:3] == [("pad30", "beam", "serial"), ("hush", "beam", "serial"), ("hush", "pruned", "serial")]
    assert parts[-1] == ("hush", "pruned", "pipelined")
    how = [
        (recipe.search.align, recipe.search.recover, recipe.search.follows)
        for recipe in recipes
        if isinstance(recipe.search, Pruned)
    ]
    assert how[:2] == [("first", False, "shown"), ("time", True, "heard")]
    assert set(how[1:]) == {("time", True, "heard")}


@pytest.mark.parametrize("measure", [items.beam_table, items.model_figure, items.step_figure])
def test_latencies_of_too_few_matched_words_are_marked(measure: Any) -> None:
    def outcome(*, enough: bool) -> Any:
        score = {"wer": 0.05, "confirmed_mean_s": 1.25, "matched_as_offline": enough, "wer_offline": 0.04}
        found = SimpleNamespace(spec=SPEC, score=score, utterances=())
        return measure(SimpleNamespace(models=("one",), quick=True, cell=lambda *_, **__: found))

    sure, few = outcome(enough=True), outcome(enough=False)
    assert "!" not in f"{sure.tables[0].rows}{sure.note}"
    assert all("1.25 !" in row for row in few.tables[0].rows)
    assert report.UNRELIABLE_NOTE in few.note
    if measure is items.model_figure:
        assert [row[0] for row in few.plots[0].drawing.rows] == [f"{name} !" for name, *_ in sure.plots[0].drawing.rows]
