"""What is measured, what is kept of it, and what `executor=auto` makes of that. No test judges speed."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import Run
from oracle import Oracle, audio_between
from whispertide.api import Transcriber
from whispertide.atomic import CHOOSE_CACHE
from whispertide.checkpoint.cache import cache_dir
from whispertide.cli import bundled
from whispertide.cli import profile as command
from whispertide.decoding.search import Guard
from whispertide.methods.agreement.whole_window import WholeWindow
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions, EngineOptions, ProviderName
from whispertide.recipes import allocation
from whispertide.recipes.allocation import Allocation, Measured, Placement, allocate, recall, remember, split_evenly
from whispertide.recipes.catalogue import get_recipe
from whispertide.streaming.pipelined import PipelinedExecutor
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.stages import SerialExecutor
from whispertide.tuning import profile as measuring
from whispertide.tuning.profile import (
    LEAST_ROUNDS,
    RecordedRound,
    candidates,
    choose_rounds,
    label,
    measure,
    record_rounds,
)
from whispertide.types import SAMPLE_RATE, FloatArray, Span

WHOLE, TIDE = get_recipe("whisper-streaming"), get_recipe("tide")
ONE, TWO = Placement("cpu", 1), Placement("cpu", 2)
SERIAL, PIPELINE = Allocation(TWO), Allocation(ONE, ONE)
FOUND = [Measured(SERIAL, 0.3, 0.3), Measured(PIPELINE, 0.3, 0.2)]


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where profiles are kept in this test; graphs stay where they are."""
    monkeypatch.setattr(allocation, "cache_path", tmp_path.joinpath)
    return tmp_path


def nano(threads: int = 2) -> WhisperModel:
    return load_model("nano.en", EngineOptions(precision="fp32", threads=threads))


@pytest.fixture(scope="module")
def model() -> WhisperModel:
    return nano()


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_what_was_measured_is_found_again_the_best_first(cache: Path, model: WhisperModel) -> None:
    assert recall(model, WHOLE.name) == []
    path = remember(model, WHOLE.name, FOUND)
    assert path.is_relative_to(cache)
    assert recall(model, WHOLE.name) == [FOUND[1], FOUND[0]]
    assert recall(nano(threads=1), WHOLE.name) == [FOUND[1], FOUND[0]]
    assert sorted(cache.rglob("*.json")) == [path]


def test_another_recipe_precision_or_machine_has_nothing(
    cache: Path, model: WhisperModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(model, WHOLE.name, FOUND)
    assert recall(model, TIDE.name) == []
    assert recall(load_model("nano.en", EngineOptions(precision="int8")), WHOLE.name) == []
    monkeypatch.setattr(allocation, "processor", lambda: "another processor")
    assert recall(model, WHOLE.name) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", '{"measured": 3}'])
def test_a_damaged_file_is_none(cache: Path, model: WhisperModel, content: str) -> None:
    remember(model, WHOLE.name, FOUND).write_text(content)
    assert recall(model, WHOLE.name) == []


def test_a_damaged_measurement_is_none(cache: Path, model: WhisperModel) -> None:
    path = remember(model, WHOLE.name, FOUND)
    kept = json.loads(path.read_text())
    kept["measured"][0]["allocation"]["encoder"] = {"threads": 1}
    path.write_text(json.dumps(kept))
    assert recall(model, WHOLE.name) == []


# --- what auto makes of it --------------------------------------------------------------------------------------------


def test_serial_asks_for_nothing(cache: Path, model: WhisperModel) -> None:
    remember(model, WHOLE.name, FOUND)
    assert allocate(model, WHOLE) == (WHOLE, None)


def test_auto_without_a_profile_is_serial_and_says_so(cache: Path, model: WhisperModel) -> None:
    with pytest.warns(UserWarning, match=r"whispertide profile nano\.en --recipe whisper-streaming"):
        recipe, places = allocate(model, WHOLE.replace(executor="auto"))
    assert (recipe, places) == (WHOLE, None)


def test_auto_takes_the_best_that_the_recipe_allows(cache: Path, model: WhisperModel) -> None:
    for recipe in (WHOLE, TIDE):
        remember(model, recipe.name, FOUND)
    assert allocate(model, WHOLE.replace(executor="auto")) == (WHOLE.replace(executor="pipelined"), PIPELINE)
    assert allocate(model, TIDE.replace(executor="auto")) == (TIDE, SERIAL)


def test_where_nothing_that_was_measured_fits_rounds_are_serial(cache: Path, model: WhisperModel) -> None:
    """As after the recipe was changed into one that cannot be pipelined."""
    remember(model, TIDE.name, FOUND[1:])
    assert allocate(model, TIDE.replace(executor="auto")) == (TIDE, None)


def test_a_pipeline_takes_the_best_split_or_an_even_one(cache: Path, model: WhisperModel) -> None:
    recipe = WHOLE.replace(executor="pipelined")
    assert allocate(model, recipe) == (recipe, split_evenly(model.options))
    uneven = Allocation(ONE, TWO)
    remember(model, WHOLE.name, [*FOUND[:1], Measured(uneven, 0.3, 0.2)])
    assert allocate(model, recipe) == (recipe, uneven)


@pytest.mark.parametrize(("threads", "encoder", "decoder"), [(1, 1, 1), (2, 1, 1), (3, 2, 1), (4, 2, 2)])
def test_an_even_split_leaves_nobody_without(threads: int, encoder: int, decoder: int) -> None:
    split = split_evenly(EngineOptions(threads=threads))
    assert split == Allocation(Placement("auto", encoder), Placement("auto", decoder))


def test_a_session_computes_where_the_profile_says(cache: Path, model: WhisperModel) -> None:
    uneven = Allocation(TWO, ONE)
    remember(model, WHOLE.name, [Measured(uneven, 0.1, 0.1)])
    remember(model, TIDE.name, [Measured(Allocation(ONE), 0.1, 0.1)])
    transcriber = Transcriber(model)
    executor: Any = transcriber.session(WHOLE.replace(executor="auto")).executor
    assert isinstance(executor, PipelinedExecutor)
    stages: Any = executor.stages
    assert (stages.resources.encodes.options.threads, stages.resources.model.options.threads) == (2, 1)
    assert stages.resources.encodes.engine is not stages.resources.model.engine
    assert transcriber.session(WHOLE.replace(executor="pipelined")).executor is executor
    executor = transcriber.session(TIDE.replace(executor="auto")).executor
    assert isinstance(executor, SerialExecutor)
    assert (executor.resources.model.options.threads, executor.resources.encodes is executor.resources.model) == (
        1,
        True,
    )


# --- what is measured -------------------------------------------------------------------------------------------------


def test_all_splits_of_the_threads_are_candidates() -> None:
    found = [(one.encoder.threads, one.decoder.threads if one.decoder else None) for one in candidates(nano(3), WHOLE)]
    assert found == [(1, None), (2, None), (3, None), (1, 1), (1, 2), (2, 1)]
    assert all(one.decoder is None for one in candidates(nano(3), TIDE))
    assert candidates(nano(1), WHOLE) == [Allocation(ONE)]


def test_an_accelerator_may_leave_decoding_to_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    def there(wanted: ProviderName) -> str:
        return "cuda"

    monkeypatch.setattr(measuring, "choose_provider", there)
    gpu = Placement("auto", 2)
    assert candidates(nano(2), WHOLE) == [
        Allocation(gpu),
        Allocation(gpu, gpu),
        Allocation(gpu, ONE),
        Allocation(gpu, TWO),
    ]
    assert label(Allocation(gpu, ONE)) == "pipelined: encoder 2 threads, auto; decoder 1 thread, cpu"


def test_an_accelerator_that_only_torch_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding there and decoding on the processor at the model's own precision, next to what the processor can do."""

    def there(name: str) -> bool:
        return name == "torch"

    monkeypatch.setattr(measuring, "is_accelerated", there)
    gpu = Placement("torch", 1, "fp16")
    found = candidates(nano(2), WHOLE)
    assert [item for item in found if item.encoder == gpu] == [
        Allocation(gpu),
        Allocation(gpu, ONE),
        Allocation(gpu, TWO),
    ]
    assert len(found) == 6
    assert [item.encoder for item in candidates(nano(2), TIDE)] == [ONE, TWO, gpu]
    assert gpu.engine(EngineOptions("int8", "auto", 2)) == EngineOptions("fp16", "torch", 1)
    assert label(Allocation(gpu, ONE)) == "pipelined: encoder 1 thread, torch, fp16; decoder 1 thread, cpu"


def rounds(count: int, seconds: float = 0.1) -> list[RecordedRound]:
    return [
        RecordedRound(RoundPlan(n, Span(0, 8000), WholeWindow()), audio_between(0, 8000), DecodeOptions(), seconds)
        for n in range(count)
    ]


def test_rounds_are_chosen_from_all_of_the_recording() -> None:
    every = rounds(100, seconds=measuring.MEASURING_S / 20)
    few = choose_rounds(every, allocations=2)
    assert [item.plan.id for item in few] == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]
    assert len(choose_rounds(every, allocations=50)) == LEAST_ROUNDS
    three = rounds(3)
    assert choose_rounds(three, allocations=9) == three


def test_recording_stops_when_it_has_taken_long_enough() -> None:
    recipe = WHOLE.replace(vad=False)
    audio = audio_between(0, 10 * SAMPLE_RATE)
    everything = record_rounds(Oracle(()), recipe, audio)
    assert [item.plan.window.end // SAMPLE_RATE for item in everything] == [*range(1, 11), 10]
    assert len(record_rounds(Oracle(()), recipe, audio, most_s=0.0)) == 1


class Stages:
    """Does nothing, and can be told to fail in a round."""

    def __init__(self, fail_in: int | None = None) -> None:
        self.decoded: list[int] = []
        self.fail_in = fail_in

    def encode(self, plan: RoundPlan, audio: FloatArray, state: Any) -> None:
        if len(self.decoded) == self.fail_in:
            raise KeyboardInterrupt

    def decode(
        self, plan: RoundPlan, opening: Any, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult[Any]:
        self.decoded.append(plan.id)
        return RoundResult(plan)


def test_every_round_is_run_once_in_order_after_one_that_does_not_count() -> None:
    stages = Stages()
    found = measure(PipelinedExecutor(stages), PIPELINE, rounds(5))
    assert stages.decoded == [0, 0, 1, 2, 3, 4]
    assert found.allocation is PIPELINE
    assert found.round_s > 0
    assert found.delay_s == pytest.approx(found.period_s / 2 + found.round_s)


def test_an_interrupt_leaves_no_worker_and_no_profile(
    run: Run, cache: Path, model: WhisperModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(*_: object, **__: object) -> PipelinedExecutor:
        return PipelinedExecutor(Stages(fail_in=3))

    monkeypatch.setattr(measuring, "make_executor", make)
    monkeypatch.setattr(measuring, "record_rounds", lambda *_: rounds(5))
    assert run("profile", "--threads", 2, "--precision", "fp32").exit_code == 130
    assert not list(cache.rglob("*"))
    workers = [thread for thread in threading.enumerate() if thread.name.startswith("round")]
    for worker in workers:
        worker.join(60)  # whoever waits for a result may have it before the thread has ended
    assert not [worker for worker in workers if worker.is_alive()]


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_table_fits_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "measure_allocations", lambda *_: (None, FOUND[::-1]))
    monkeypatch.setattr(allocation, "remember", lambda *_: Path("profiles/1.json"))
    result = run("profile", "--recipe", "whisper-streaming")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    rows = [line.split() for line in lines if line.startswith(("serial", "pipelined"))]
    assert rows[0] == ["pipelined", "1", "thread,", "cpu", "1", "thread,", "cpu", "300", "ms", "200", "ms", "400", "ms"]
    assert rows[1] == ["serial", "2", "threads,", "cpu", "2", "threads,", "cpu", "300", "ms", "300", "ms", "450", "ms"]
    assert "profiles/1.json" in result.stderr


def test_json_has_all_of_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "measure_allocations", lambda *_: (None, FOUND[::-1]))
    monkeypatch.setattr(allocation, "remember", lambda *_: Path("profiles/1.json"))
    data = json.loads(run("profile", "--json", "--recipe", "whisper-streaming").stdout)
    assert data["recipe"] == "whisper-streaming"
    assert [item["executor"] for item in data["measured"]] == ["pipelined", "serial"]
    assert data["measured"][0]["allocation"]["decoder"] == {"provider": "cpu", "threads": 1, "precision": None}
    assert data["measured"][0]["delay_s"] == pytest.approx(0.4)


def test_what_cannot_be_kept_is_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> Path:
        raise PermissionError("read-only")

    monkeypatch.setattr(command, "measure_allocations", lambda *_: (None, FOUND[::-1]))
    monkeypatch.setattr(allocation, "remember", denied)
    result = run("profile", "--json")
    assert (result.exit_code, len(json.loads(result.stdout)["measured"])) == (5, 2)
    assert f"{cache_dir()} cannot be written: read-only; {CHOOSE_CACHE}" in result.stderr


def test_an_unknown_recipe_or_model_is_told_before_anything_is_measured(run: Run) -> None:
    assert run("profile", "--recipe", "tsunami").exit_code == 2
    assert run("profile", "bass.en").exit_code == 4


@pytest.mark.slow
def test_the_bundled_model_is_measured_and_auto_uses_it(run: Run, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audio = bundled.bundled_audio()[: 3 * SAMPLE_RATE]
    monkeypatch.setattr(bundled, "bundled_audio", lambda: audio)
    monkeypatch.setattr(measuring, "MEASURING_S", 1.0)
    fast = ("--set", "search=greedy", "--set", "framing=bare")
    result = run(
        "profile", "--recipe", WHOLE.name, *fast, "--threads", 2, "--precision", "fp32", "--provider", "auto", "--json"
    )
    assert result.exit_code == 0, result.stderr
    measured = json.loads(result.stdout)["measured"]
    assert sorted(item["executor"] for item in measured) == ["pipelined", "serial", "serial"]
    assert all(item["round_s"] > 0 for item in measured)
    recipe = WHOLE.replace(search="greedy", framing="bare", executor="auto")
    session = Transcriber(nano()).session(recipe)
    assert session.recipe.executor.kind == measured[0]["executor"]
    assert session.push(np.zeros(SAMPLE_RATE, np.float32)) is not None
    session.close()
