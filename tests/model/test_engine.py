"""The seam to what computes a model: what an engine refuses."""

from collections.abc import Callable

import numpy as np
import pytest

from whispertide.errors import GraphError
from whispertide.model.engine import LAST_LAYER, EncoderState, Engine
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions
from whispertide.types import FloatArray

ENGINES: dict[str, Callable[[Engine], Engine]] = {
    "onnx": lambda engine: engine,
}


@pytest.fixture(scope="module")
def model() -> WhisperModel:
    return load_model("nano.en", EngineOptions(precision="fp32", provider="cpu", threads=1))


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, model: WhisperModel) -> Engine:
    return ENGINES[request.param](model.engine)


def mel(seed: int, columns: int) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(80, columns)).astype(np.float32)


def test_what_whole_windows_cannot_do(engine: Engine) -> None:
    with pytest.raises(GraphError, match=r"expected no encoder state.* 50 frames"):
        engine.encode(mel(1, 100), state=EncoderState({}, 50))
    with pytest.raises(GraphError, match=r"expected taps .*got \[0, 2\]"):
        engine.encode(mel(1, 100), taps=(LAST_LAYER, 2, 0))
    encoded = engine.encode(mel(1, 100))
    assert (dict(encoded.taps), encoded.state) == ({}, None)
