"""Smart Turn's input, and a network of the same shape in its place: no weights are needed."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from whispertide.errors import CheckpointError, CheckpointNotFoundError
from whispertide.features import log_mel
from whispertide.streaming.smart_turn import OWN_FILE, SmartTurn, features, find_smart_turn, load_smart_turn
from whispertide.types import SAMPLE_RATE, FloatArray

S = SAMPLE_RATE


def voice(seconds: float) -> FloatArray:
    samples = round(seconds * S)
    syllables = np.sin(np.linspace(0, 20 * seconds, samples)) ** 2
    return (0.1 * syllables * np.random.default_rng(0).standard_normal(samples)).astype(np.float32)


def write_network(path: Path, frames: int = 800) -> Path:
    """The mean of the input through a sigmoid."""
    given = helper.make_tensor_value_info("input_features", TensorProto.FLOAT, ["batch", 80, frames])
    answer = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    flat = helper.make_node("Flatten", ["input_features"], ["flat"], axis=1)
    mean = helper.make_node("ReduceMean", ["flat", "axes"], ["mean"], keepdims=1)
    graph = helper.make_graph(
        [flat, mean, helper.make_node("Sigmoid", ["mean"], ["logits"])], "g", [given], [answer], [axes]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_a_short_turn_has_silence_before_it() -> None:
    audio = voice(2.0)
    heard = features(audio)
    assert heard.shape == (1, 80, 800)
    assert heard.dtype == np.float32
    # 6 s of silence: all of its frames are the same
    np.testing.assert_allclose(heard[0, :, 10:590], np.tile(heard[0, :, 10:11], 580), atol=1e-4)
    assert heard[0, :, :590].max() < heard[0, :, 610:].max()


def test_of_a_long_turn_the_last_seconds_count() -> None:
    audio = voice(10.0)
    np.testing.assert_array_equal(features(audio), features(audio[-8 * S :]))


def test_how_loud_it_is_does_not_matter() -> None:
    audio = voice(8.0)
    np.testing.assert_allclose(features(audio * 0.1), features(audio), atol=1e-3)


def test_it_is_whispers_log_mel_of_the_normalised_turn() -> None:
    audio = voice(8.0)
    scaled = (audio - audio.mean()) / np.sqrt(audio.var() + 1e-7)
    np.testing.assert_allclose(features(audio)[0], log_mel(scaled.astype(np.float32)), atol=1e-5)


def test_an_own_file_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = write_network(tmp_path / "own.onnx")
    monkeypatch.setenv(OWN_FILE, str(place))
    assert find_smart_turn() == place
    ear = load_smart_turn()
    assert isinstance(ear, SmartTurn)
    assert ear is load_smart_turn()
    audio = voice(3.0)
    expected = 1 / (1 + np.exp(-features(audio).mean()))
    assert ear.probability(audio) == pytest.approx(float(expected), abs=1e-5)


def test_a_file_that_is_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWN_FILE, str(write_network(tmp_path / "long.onnx", frames=3000)))
    with pytest.raises(CheckpointError, match=r"expected a graph of Smart Turn v3, input_features \[1, 80, 800\]"):
        load_smart_turn()
    (tmp_path / "text.onnx").write_text("no graph")
    monkeypatch.setenv(OWN_FILE, str(tmp_path / "text.onnx"))
    with pytest.raises(CheckpointError, match=r"text\.onnx does not load"):
        load_smart_turn()
    for nothing in (str(tmp_path / "nothing.onnx"), "~no-such-user/nothing.onnx"):
        monkeypatch.setenv(OWN_FILE, nothing)
        with pytest.raises(CheckpointNotFoundError, match=f"nothing.onnx .{OWN_FILE}.; nothing is there"):
            load_smart_turn()


def test_without_a_file_the_error_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OWN_FILE, raising=False)
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert find_smart_turn() is None
    with pytest.raises(CheckpointNotFoundError, match="run `whispertide models pull smart-turn`"):
        load_smart_turn()
