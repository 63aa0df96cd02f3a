"""The seam to what computes a model: other audio under a kept cache, layers tapped, and what an engine refuses."""

from collections.abc import Callable

import numpy as np
import pytest

from whispertide.errors import GraphError
from whispertide.model.engine import LAST_LAYER, DecodeOutput, DecodeRequest, DecoderRun, Encoded, EncoderState, Engine
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions
from whispertide.types import FloatArray

PROMPT = (50257, 50362, 383, 2068)
HEADS = ((0, 0), (0, 3), (3, 1))  # the first layer's, whose cache knows nothing of the audio, and one of the last
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


def feed(run: DecoderRun, *tokens: int) -> DecodeOutput:
    return run.run(DecodeRequest(np.array([tokens]), (len(tokens) - 1,), need="times"))


def close(found: FloatArray | None, expected: FloatArray | None) -> bool:
    assert found is not None
    assert expected is not None
    return found.shape == expected.shape and np.allclose(found, expected, atol=1e-4)


@pytest.fixture(scope="module")
def windows(model: WhisperModel) -> list[Encoded]:
    """Two of other audio and other length, the second with padding after it."""
    return [model.encode(mel(1, 200)), model.encode(mel(2, 320), valid_frames=130)]


@pytest.mark.slow
def test_other_audio_under_what_is_read_again(engine: Engine, windows: list[Encoded]) -> None:
    """A run that rewinds to its beginning is a fresh one over the other audio."""
    run, fresh = (engine.start(window, HEADS) for window in windows)
    feed(run, *PROMPT)
    feed(run, 11)
    run.rewind(len(PROMPT) + 1)
    run.hear(windows[1])
    for tokens in (PROMPT, (464,), (290,)):
        found, expected = feed(run, *tokens), feed(fresh, *tokens)
        assert close(found.top_logprobs, expected.top_logprobs)
        assert close(found.attention, expected.attention)


@pytest.mark.slow
def test_other_audio_under_a_kept_cache(engine: Engine, windows: list[Encoded]) -> None:
    """The first layer attends as in a fresh run over the other audio; deeper ones remember what was heard before."""
    run, before, after = (engine.start(windows[n], HEADS) for n in (0, 0, 1))
    for one in (run, before, after):
        feed(one, *PROMPT)
        feed(one, 464)
    run.hear(windows[1])
    found, stayed, fresh = (feed(one, 290) for one in (run, before, after))
    assert found.attention is not None
    assert fresh.attention is not None
    assert found.attention.shape == (3, 1, 1, 130)
    assert close(found.attention[:2], fresh.attention[:2])
    assert not close(found.attention[2:], fresh.attention[2:])
    assert not close(found.top_logprobs, stayed.top_logprobs)
    assert not close(found.top_logprobs, fresh.top_logprobs)


def test_the_same_audio_again_changes_nothing(engine: Engine, windows: list[Encoded]) -> None:
    run, other = (engine.start(windows[1], HEADS) for _ in range(2))
    for one in (run, other):
        feed(one, *PROMPT)
    run.hear(windows[1])
    found, expected = feed(run, 464), feed(other, 464)
    assert close(found.top_logprobs, expected.top_logprobs)
    assert close(found.attention, expected.attention)


def test_what_whole_windows_cannot_do(engine: Engine) -> None:
    with pytest.raises(GraphError, match=r"expected no encoder state.* 50 frames"):
        engine.encode(mel(1, 100), state=EncoderState({}, 50))
    with pytest.raises(GraphError, match=r"expected taps .*got \[0, 2\]"):
        engine.encode(mel(1, 100), taps=(LAST_LAYER, 2, 0))
    encoded = engine.encode(mel(1, 100))
    assert (dict(encoded.taps), encoded.state) == ({}, None)
