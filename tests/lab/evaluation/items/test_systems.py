"""NPUsper's comparisons of systems: which recipes run at which step, and errors of texts that end early, by hand."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation_traces import reference, trace
from result_tables import by_first
from whispertide.errors import CheckpointNotFoundError
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe, parse_overrides
from whispertide_lab.evaluation import report
from whispertide_lab.evaluation.items import systems as items
from whispertide_lab.evaluation.items.systems import errors_of, first_text_taken_s, spread, stages
from whispertide_lab.evaluation.latency import first_text_s
from whispertide_lab.evaluation.trace import RoundCost, Trace
from whispertide_lab.evaluation.views import look

SAID = reference(("the", 0, 1), ("cat", 1, 2), ("sits", 2, 3), ("down", 3, 4), seconds=4)


def test_a_text_that_comes_late_is_whole_in_the_end() -> None:
    late = trace((2.0, "the cat", ""), (4.5, "sits down", ""), audio_s=4.0)
    whole, ended, reached = errors_of(SAID, late)
    assert whole == (0.0, 0.0)
    assert ended is not None
    assert ended == pytest.approx((50.0, 100 * 10 / 17))  # " sits down" of "the cat sits down" is missing
    assert reached == (0.0, 0.0)


def test_an_error_before_the_last_right_word_counts_in_what_was_reached() -> None:
    late = trace((3.0, "the hat sits", ""), (4.5, "down", ""), audio_s=4.0)
    whole, ended, reached = errors_of(SAID, late)
    assert whole is not None
    assert ended is not None
    assert reached is not None
    assert (whole[0], ended[0]) == (25.0, 50.0)
    assert reached[0] == pytest.approx(100 / 3)


def test_where_nothing_was_reached_there_is_no_rate() -> None:
    whole, ended, reached = errors_of(SAID, trace((9.0, "the cat sits down", ""), audio_s=4.0))
    assert (whole, ended, reached) == ((0.0, 0.0), (100.0, 100.0), None)
    assert spread([None, None]) == ("–", "–")


def test_recordings_count_alike_and_spread_as_a_population() -> None:
    assert spread([(10.0, 2.0), (20.0, 4.0)]) == ("15.0±5.0", "3.0±1.0")


def test_how_many_recordings_a_mean_is_of_is_told_where_some_have_nothing() -> None:
    """A system that shows nothing until the audio ends has no errors in what it reached."""
    assert spread([(10.0, 2.0), None, (20.0, 4.0)]) == ("15.0±5.0 (2 of 3)", "3.0±1.0 (2 of 3)")


def test_stages_are_means_over_rounds() -> None:
    one = RoundCost(0, 1, 1, encode_s=0.2, decode_s=0.3, features_s=0.1)
    costs = [one, RoundCost(2, 1, 1, encode_s=0.3, align_s=0.2)]
    assert stages(costs) == {"log-mel": 0.05, "encoding": 0.2, "decoding": 0.15, "word times": 0.1}


LATE = {"whisper-streaming": 3.0, "whisperflow": 2.0, "simulstreaming": 4.0, "npusper": 1.0, "tide": 0.5}
SLOW = {"whisper-streaming": 2.5}  # seconds of every round; else 0.4


@dataclass
class FakeRunner:
    models: tuple[str, ...] = ("one", "folder/two")
    detectors: bool = True
    few: tuple[str, ...] = ()  # recipes of which too few words are matched
    asked: list[tuple[str, Recipe]] = field(default_factory=list)
    corpus: Any = field(default_factory=lambda: SimpleNamespace(name="talks-120s", utterances=lambda: iter([SAID])))

    def transcriber(self, name: str) -> Any:
        return SimpleNamespace(framed=lambda recipe: SimpleNamespace(recipe=recipe))

    def cell(self, name: str, *changes: str, model: str, step_s: float | None) -> Any:
        if "truncate=detector" in changes and not self.detectors:
            raise CheckpointNotFoundError("no detector")
        recipe = parse_overrides(get_recipe(name), changes)
        recipe = recipe if step_s is None else recipe.replace(step_s=step_s)
        self.asked.append((model, recipe))
        took = SLOW.get(name, 0.4)
        cost = RoundCost(2.0, took, 2.0, encode_s=took / 4, decode_s=took / 2, tokens=5, search_runs=6, cpu_s=took)
        cost = replace(cost, features_s=took / 20)
        score = {"wer": 0.05, "confirmed_mean_s": LATE[name], "ttft_s": 1.5, "cpu_s_per_s": took / 2}
        score["matched_as_offline"] = name not in self.few
        shown = trace((2.0 + took, "the cat sits down", ""), audio_s=4.0).shown
        found = Trace("u", name, "simulated", 4.0, shown, (cost, cost))
        rows, spec = ({"id": "u"},), SimpleNamespace(label=name)
        return SimpleNamespace(score=score, traces=lambda: iter([found]), utterances=rows, spec=spec)


def test_every_system_has_a_round_every_two_seconds() -> None:
    runner: Any = FakeRunner()
    items.processor_table(runner)
    assert {recipe.schedule.step_s for _, recipe in runner.asked} == {2.0}
    assert {recipe.schedule.kind for _, recipe in runner.asked if recipe.name != "npusper"} == {"fixed"}
    names = [recipe.name for model, recipe in runner.asked if model == "one"]
    assert names == [*list(LATE)[:3], "simulstreaming", *list(LATE)[3:]]


def test_the_table_of_processors_counts_padding_and_rounds_that_are_too_slow() -> None:
    runner: Any = FakeRunner()
    found = by_first(items.processor_table(runner))
    assert found["one: Whisper-Streaming"] == ("5.00", "–", "3.00", "30.0", "125", "500", "1250", "0", "100")
    assert found["two: NPUsper"] == ("5.00", "0.0±0.0", "1.00", "2.0", "20", "80", "200", "0", "0")
    assert found["one: WhisperFlow"][3] == "2.5", "with its hush word"


def test_work_is_counted_by_round_and_by_token() -> None:
    runner: Any = FakeRunner(("one",))
    assert by_first(items.work_table(runner))["one: NPUsper"] == ("0.200", "400", "80.0", "16.7", "–")


def test_a_system_that_cannot_run_is_named_with_the_reason() -> None:
    runner: Any = FakeRunner(("one",), detectors=False)
    outcome = items.errors_table(runner)
    assert "one: Simul-Whisper" not in by_first(outcome)
    assert "Not measured: Simul-Whisper with one: no detector." in outcome.note
    assert by_first(outcome)["one: NPUsper"][:3] == ("1", "0.0±0.0", "0.0±0.0")


def test_the_table_of_errors_has_every_system_and_errors_of_the_whole_and_of_what_was_reached() -> None:
    """NPUsper's table 5; `tide` and the text when the audio ended are ours."""
    runner: Any = FakeRunner()
    ours, paper = items.errors_table(runner).tables
    baselines = ("Whisper-Streaming", "WhisperFlow", "SimulStreaming", "Simul-Whisper")
    assert [row[0] for row in ours.rows] == [
        f"{model}: {name}" for model in ("one", "two") for name in (*baselines, "NPUsper", "tide")
    ]
    assert ours.columns == (
        *("system", "recordings", "WER %", "CER %"),
        *("WER % when the audio ended", "CER % when the audio ended"),
        *("WER % of what was reached then", "CER % of what was reached then"),
    )
    policies: list[Any] = [recipe.policy for _, recipe in runner.asked if recipe.name == "simulstreaming"]
    assert [policy.truncate for policy in policies] == 2 * ["none", "detector"]
    assert {recipe.schedule.step_s for _, recipe in runner.asked} == {2.0}
    assert [row[:2] for row in paper.rows] == [
        (name, corpus) for corpus in ("Meanwhile", "TED-LIUM 3") for name in (*baselines, "NPUsper")
    ]
    assert paper.columns[2:] == ("WER %", "CER %", "WER % of what was reached", "CER % of what was reached")


def test_the_paper_s_errors_are_those_of_both_of_its_corpora() -> None:
    runner: Any = FakeRunner(("one",))
    paper = {row[:2]: row[2:] for row in items.errors_table(runner).tables[1].rows}
    assert paper["Whisper-Streaming", "TED-LIUM 3"] == ("91.15±5.16", "90.09±5.73", "11.04±3.56", "2.81±1.08")
    assert paper["NPUsper", "Meanwhile"] == ("16.36±11.21", "8.44±6.29", "–", "–")
    assert len(paper) == 10


def test_inferences_are_compared_with_npusper_s_of_the_same_model() -> None:
    runner: Any = FakeRunner()
    outcome = items.stage_figure(runner)
    assert by_first(outcome)["two: Whisper-Streaming"] == (
        *("125", "500", "1250", "0"),
        *("2500", "6.25", "6.25 to 6.25"),  # by the processor's time, which another program does not change
        *("2500", "1.50"),
    )
    assert by_first(outcome)["two: NPUsper"][4:8] == ("400", "1.00", "1.00 to 1.00", "400")


def test_the_first_text_takes_the_round_that_gave_it() -> None:
    """Rounds that are late begin when the one before them ends."""
    late = trace((3.5, "", ""), (5.0, "", "the"), (6.0, "the", ""), audio_s=6.0)
    costs = tuple(RoundCost(start, taken, 2.0) for start, taken in ((2.0, 1.5), (3.5, 1.5), (5.0, 1.0)))
    assert first_text_taken_s(replace(late, rounds=costs)) == 1.5
    assert first_text_taken_s(replace(trace((2.0, "", "")), rounds=costs)) is None
    assert first_text_taken_s(late) is None


def test_latencies_stand_at_the_paper_s_step_and_at_each_system_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "cells_table", lambda cells, columns: len(cells))
    runner: Any = FakeRunner(("one",))
    outcome: Any = items.word_figure(runner)
    assert outcome.tables == (12,)
    assert "one: Whisper-Streaming 3.00, WhisperFlow 2.00, SimulStreaming 4.00, Simul-Whisper 4.00, tide 0.50." in (
        outcome.note
    )
    own = {recipe.name: recipe.schedule.step_s for _, recipe in runner.asked[6:]}
    assert own == {name: get_recipe(name).schedule.step_s for name in LATE}
    labels = [row[0] for row in outcome.plots[0].drawing.rows]
    assert labels[0] == "one: Whisper-Streaming, every 2 s"
    assert labels[-1] == "one: tide, own step"


@pytest.mark.slow
def test_latencies_of_too_few_matched_words_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "cells_table", lambda cells, columns: None)
    runner: Any = FakeRunner(("one",), few=("whisperflow",))
    found = by_first(items.processor_table(runner))
    assert (found["one: WhisperFlow"][2], found["one: NPUsper"][2]) == ("2.00 !", "1.00")
    assert by_first(items.stage_figure(runner))["one: WhisperFlow"][-1] == "1.50 !"
    figure: Any = items.word_figure(runner)
    assert "WhisperFlow 2.00 !, SimulStreaming 4.00," in figure.note
    labels = [row[0] for row in figure.plots[0].drawing.rows]
    assert [label for label in labels if "!" in label] == [
        "one: WhisperFlow, every 2 s !",
        "one: WhisperFlow, own step !",
    ]
    for measure in (items.processor_table, items.stage_figure, items.word_figure):
        assert report.UNRELIABLE_NOTE in measure(runner).note
    judged: Any = FakeRunner(("one",), few=("npusper",))
    assert "Whisper-Streaming 3.00 !, WhisperFlow 2.00 !," in items.word_figure(judged).note


def test_the_first_text_is_timed_as_it_is_said_to_be() -> None:
    """`latency.first_text_s`: from where the first word begins."""
    runner: Any = FakeRunner(("one",))
    assert "In seconds it is from the beginning of the first word." in items.stage_figure(runner).note
    assert first_text_s(SAID, look(trace((2.5, "the", "")), "en"), end_s=9.0) == 2.5


def test_processor_time_over_time_has_a_curve_for_each_system(monkeypatch: pytest.MonkeyPatch) -> None:
    runner: Any = FakeRunner(("one",))
    drawing = items.load_figure(runner).plots[0].drawing
    assert {row[0] for row in drawing.rows} == {f"one: {system.name}" for system in items.SYSTEMS}
