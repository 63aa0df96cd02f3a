import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.cli.bundled import bundled_audio
from whispertide.decoding.rules import log_softmax
from whispertide.features import log_mel
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions
from whispertide.tuning.parity import (
    EXACT,
    QUANTISED,
    Limits,
    check_parity,
    compare,
    log_probabilities,
    transformers_log_probabilities,
)
from whispertide.types import N_FRAMES, FloatArray
from whispertide_lab.compression.palette_writer import write_palette_file

NANO = BUNDLED_DIR / "nano.en"


@pytest.fixture(scope="module")
def int8() -> WhisperModel:
    return load_model("nano.en", EngineOptions(precision="int8", threads=1))


@pytest.fixture(scope="module")
def fp32() -> WhisperModel:
    return load_model("nano.en", EngineOptions(precision="fp32", threads=1))


@pytest.fixture(scope="module")
def speech() -> FloatArray:
    return bundled_audio()


def test_equal_figures_pass_and_no_figures_do_not() -> None:
    truth = log_softmax(np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32))
    assert compare("a", "b", truth, truth, [0, 1, 2], EXACT).passed
    broken = truth.copy()
    broken[0, 1] = np.nan
    assert not compare("a", "b", broken, truth, [0, 1, 2], EXACT).passed
    assert not compare("a", "b", broken, truth, [0, 1, 2], QUANTISED).passed


def test_each_limit_counts() -> None:
    truth = log_softmax(np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32))
    other = truth + np.array([0, 0.1, 0, 0, 0], np.float32)
    loose = Limits(math.inf, math.inf, 0.0)
    assert compare("a", "b", other, truth, [0, 1, 1], loose).passed
    assert not compare("a", "b", other, truth, [0, 1, 1], Limits(1e-3, math.inf, 0.0)).passed
    assert not compare("a", "b", other, truth, [0, 1, 1], Limits(math.inf, 0.09, 0.0)).passed
    assert compare("a", "b", other, truth, [0, 1, 1], Limits(math.inf, 0.11, 0.0)).passed
    assert not compare("a", "b", -truth, truth, [0, 1, 1], Limits(math.inf, math.inf, 0.9)).passed


@pytest.mark.slow
def test_the_bundled_model_is_healthy(int8: WhisperModel, fp32: WhisperModel, speech: FloatArray) -> None:
    checks = check_parity(int8, fp32, speech, NANO / "no such folder")  # without transformers
    assert [(check.what, check.against) for check in checks] == [("int8 engine", "own fp32")]
    assert checks[0].passed


@pytest.mark.slow  # torch takes its time to import
def test_the_fp32_graphs_equal_transformers(fp32: WhisperModel, speech: FloatArray) -> None:
    (check,) = check_parity(fp32, fp32, speech, NANO)
    assert (check.what, check.against) == ("own fp32", "transformers")
    assert check.passed
    assert check.largest_error < 1e-4


@pytest.mark.slow
def test_an_engine_that_hears_something_else_fails(fp32: WhisperModel, speech: FloatArray) -> None:
    mel = log_mel(speech, 80, padding=480_000)[:, :N_FRAMES]
    start = list(fp32.tokenizer.sot_sequence(None, "transcribe", True))
    tokens = start + fp32.tokenizer.encode(" She put the book on the table. They gave him money for his work.")
    truth = log_probabilities(fp32, mel, tokens)
    late = log_probabilities(fp32, np.roll(mel, 300, axis=1), tokens)  # as a wrong position would make it
    for limits in (EXACT, QUANTISED):
        assert compare("fp32", "itself", truth, truth, tokens, limits).passed
        assert not compare("late", "fp32", late, truth, tokens, limits).passed


def test_transformers_is_asked_only_where_it_can_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mel = np.zeros((80, N_FRAMES), np.float32)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(importlib, "import_module", pytest.fail)
    assert transformers_log_probabilities(tmp_path / "model.pt", mel, [0]) is None
    (tmp_path / "model.bin").touch()  # faster-whisper's folder
    assert transformers_log_probabilities(tmp_path, mel, [0]) is None
    write_palette_file(tmp_path / "model.safetensors", {"weight": np.ones((2, 2), np.float16)}, "of something")
    assert transformers_log_probabilities(tmp_path, mel, [0]) is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert transformers_log_probabilities(NANO, mel, [0]) is None
