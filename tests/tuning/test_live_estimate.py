from dataclasses import replace

import pytest

from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DEFAULT_RECIPE, EngineOptions
from whispertide.recipes.calibration import Calibration, Pace, machine_of, shipped_for
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.tuning.live_estimate import (
    RULE,
    CheckpointFacts,
    LiveEstimate,
    Shape,
    estimate_live,
    published_facts,
)
from whispertide.tuning.speed import Speed

RECIPE = get_recipe("whisper-streaming")
SPEED = Speed("nano.en", "int8", "cpu", 2, 0.06, 0.006, 0.002, 0.003, 0.004, 1.1)
SLOW = Speed("nano.en", "int8", "cpu", 2, 0.9, 0.1, 0.002, 0.003, 0.004, 1.1)


@pytest.fixture(scope="module")
def int8() -> WhisperModel:
    return load_model("nano.en", EngineOptions(precision="int8", threads=1))


def test_an_encoder_costs_what_the_field_says() -> None:
    # ALGORITHMS of the papers: base 87 GFLOP for 30 s, 8.5 for 4 s, convolutions included; small 344.
    base, small = Shape(512, 6, 6), Shape(768, 12, 12)
    assert base.encoder_flops(1500) / 1e9 == pytest.approx(87, rel=0.15)
    assert base.encoder_flops(200) / 1e9 == pytest.approx(8.5, rel=0.15)
    assert small.encoder_flops(1500) / 1e9 == pytest.approx(344, rel=0.15)


def test_the_measured_model_is_judged_by_its_own_figures(int8: WhisperModel) -> None:
    found = {item.model: item for item in estimate_live(SPEED, int8.dims, {"whisper-streaming": RECIPE})}
    nano = found["nano.en"]
    tokens = 4.0 * (15.0 + 1.0)  # a window of `trim_s` and a step
    assert nano.measured
    assert nano.round_s == pytest.approx(0.06 + tokens * 0.003 + tokens / 50 * 0.004)
    assert nano.load == pytest.approx(nano.round_s / 1.0)
    assert nano.verdict == "yes"
    assert not found["base.en"].measured
    loads = [found[name].load for name in ("nano.en", "tiny.en", "base.en", "small.en", "medium.en", "large-v3")]
    assert loads == sorted(loads)
    assert found["large-v3"].verdict == "no"


def test_the_verdict_follows_the_stated_rule(int8: WhisperModel) -> None:
    assert "80%" in RULE
    for step_s in (0.2, 0.3, 0.4, 0.5, 1.0):
        recipe = RECIPE.replace(step_s=step_s)
        item = estimate_live(SPEED, int8.dims, {"x": recipe})[0]
        assert item.verdict == ("yes" if item.load <= 0.8 else "barely" if item.load <= 1 else "no")
        assert item.shortest_step_s == pytest.approx(item.round_s / 0.8)


def test_a_short_window_and_a_greedy_search_cost_less(int8: WhisperModel) -> None:
    def load(**changes: object) -> float:
        return estimate_live(SPEED, int8.dims, {"x": RECIPE.replace(**changes)})[0].load

    assert load(framing="bare", trim_s=4.0) < load(trim_s=4.0) < load()
    assert load(search="greedy") < load()


def test_a_stream_is_encoded_block_by_block(int8: WhisperModel) -> None:
    """whisperrt: a round encodes a tenth of a second and feeds the text in one run, however long the stream is."""
    recipe = get_recipe("whisperrt")
    nano = estimate_live(SPEED, int8.dims, {"whisperrt": recipe}, CheckpointFacts(checkpoint=int8.checkpoint))[0]
    tokens = 4.0 * recipe.usual_window_s
    assert nano.round_s < 0.006 + 0.002 + tokens / 50 * 0.004  # less than five seconds encoded anew
    assert nano.verdict == "yes"
    longer = estimate_live(SPEED, int8.dims, {"whisperrt": recipe.replace(stream_s=24.0)})[0]
    assert nano.round_s < longer.round_s < 2 * nano.round_s + 0.006


def test_a_model_without_the_adapter_that_a_recipe_needs(int8: WhisperModel) -> None:
    """The bundled one has a causal adapter; of the published ones nothing is known, and they have none."""
    recipes = {name: get_recipe(name) for name in ("whisperrt", "tide")}
    found = estimate_live(SPEED, int8.dims, recipes, CheckpointFacts(checkpoint=int8.checkpoint))
    verdicts = {(each.model, each.recipe): each.verdict for each in found}
    assert verdicts[int8.name, "whisperrt"] == "yes"
    assert verdicts["tiny.en", "whisperrt"] == "no adapter"
    assert verdicts["tiny.en", "tide"] != "no adapter"


def test_what_was_tuned_is_what_is_judged(int8: WhisperModel) -> None:
    """tide with a second of zeros, and with the step that was found for it; the published models know nothing of it."""
    tuned = Calibration({"framing": "zeros", "zeros_s": 1.0}, "so", pace={machine_of(int8.options): Pace(1, 0.6)})
    tide = get_recipe("tide")

    def judged(known: CheckpointFacts, recipe: Recipe = tide) -> tuple[LiveEstimate, LiveEstimate]:
        mine, other, *_ = estimate_live(SLOW, int8.dims, {"x": recipe}, known)
        return mine, other

    found, other = judged(CheckpointFacts(False, tuned, int8.options))
    as_tuned = tide.replace(framing="zeros", step_s=0.6)
    assert found == judged(CheckpointFacts(False), as_tuned)[0]
    assert found.load == pytest.approx(found.round_s / 0.6)
    assert found != judged(CheckpointFacts(False))[0]
    assert other == judged(CheckpointFacts(False))[1]


def test_on_a_slow_machine_it_tells_where_tune_takes_a_longer_step(int8: WhisperModel) -> None:
    """A checkpoint of which nothing is known has a step that fits by itself. One with a calibration in the package, as
    base has, keeps its own until it is tuned here; of other recipes nothing is timed.
    """
    # Rounds of base with tide take some 0.6 s, which is more than its step, and less than the longest of `tune`.
    slow = Speed("nano.en", "int8", "cpu", 1, 0.3, 0.03, 0.004, 0.006, 0.008, 1.1)
    tide, other = get_recipe("tide"), get_recipe("whisper-streaming")
    found = {(item.model, item.recipe): item for item in estimate_live(slow, int8.dims, {"tide": tide, "other": other})}
    base, unknown, streaming = found["base", "tide"], found["base.en", "tide"], found["base", "whisper-streaming"]
    assert (base.step_s, base.verdict, base.tune_helps) == (tide.schedule.step_s, "no", True)
    assert unknown.step_s > tide.schedule.step_s
    assert (unknown.verdict, unknown.tune_helps) == ("yes", False)
    assert (streaming.verdict, streaming.tune_helps) == ("no", False)

    def tuned(pace: dict[str, Pace]) -> LiveEstimate:
        known = CheckpointFacts(False, Calibration({"framing": "merged"}, "so", pace=pace), int8.options)
        return estimate_live(replace(slow, encode_30s=1.5), int8.dims, {"tide": tide}, known)[0]

    assert tuned({}).tune_helps
    timed = tuned({machine_of(int8.options): Pace(1, 0.5)})
    assert (timed.step_s, timed.load > 0.8, timed.tune_helps) == (0.5, True, False)


def test_where_no_step_of_tune_fits_it_is_not_proposed(int8: WhisperModel) -> None:
    known = CheckpointFacts(False, Calibration({"framing": "merged"}, "so"), int8.options)
    found = estimate_live(replace(SLOW, encode_30s=60.0), int8.dims, {"tide": get_recipe("tide")}, known)[0]
    assert (found.verdict, found.tune_helps) == ("no", False)


def test_what_users_get_by_default_comes_first(int8: WhisperModel) -> None:
    """The default recipe, and of it the measured model and then the default one, with the windows that it gets."""
    found = estimate_live(SPEED, int8.dims, {name: get_recipe(name) for name in ("whisper-streaming", DEFAULT_RECIPE)})
    assert [(item.model, item.recipe) for item in found[:2]] == [("nano.en", "tide"), ("base", "tide")]
    padded = get_recipe("tide").replace(framing="merged")
    assert found[1] == next(item for item in estimate_live(SPEED, int8.dims, {"x": padded}) if item.model == "base")


def test_a_measured_model_that_hears_merged_padding_is_judged_by_it(int8: WhisperModel) -> None:
    tide = get_recipe("tide")
    rounds = [
        estimate_live(SPEED, int8.dims, {"x": recipe}, known)[0].round_s
        for recipe, known in (
            (tide, CheckpointFacts()),
            (tide, CheckpointFacts(tuned=Calibration({"framing": "merged"}, "so it was measured"))),
            (tide.replace(framing="merged"), CheckpointFacts()),
        )
    ]
    assert rounds[0] < rounds[1] == rounds[2]


def test_of_checkpoints_that_the_package_has_adapters_for_it_is_known() -> None:
    assert published_facts("tiny.en").short
    assert published_facts("tiny.en").tuned is None
    assert published_facts("base").tuned == shipped_for("base")
    assert not published_facts("large-v3").short
