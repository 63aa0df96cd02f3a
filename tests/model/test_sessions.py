"""Encoder and decoder sessions refuse what does not fit, and say so; providers and threads are chosen by name."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from slow_rows import slow_but
from whispertide.checkpoint import load_checkpoint
from whispertide.errors import GraphError, OptionError, ProviderError
from whispertide.graphs.contract import ENCODER
from whispertide.graphs.store import GraphFiles
from whispertide.model.engine import DecodeRequest
from whispertide.model.onnx_engine import OnnxEngine
from whispertide.model.providers import available_providers, choose_provider, physical_cores, thread_count, usable_cpus
from whispertide.model.runtime import GraphSession, open_session
from whispertide.model.whisper import WhisperModel, load_model, open_engine
from whispertide.options import EngineOptions


@pytest.fixture(scope="module")
def model() -> WhisperModel:
    return load_model("nano.en", EngineOptions(precision="fp32", threads=1))


def mel(frames: int, mels: int = 80) -> np.ndarray:
    return np.zeros((mels, frames), np.float32)


@pytest.mark.parametrize("bad", [mel(0), mel(3), mel(3002), mel(100, mels=128), mel(100)[None]])
def test_features_of_a_wrong_shape(model: WhisperModel, bad: np.ndarray) -> None:
    with pytest.raises(GraphError, match="expected log-mel"):
        model.encode(bad)


@pytest.mark.parametrize("valid", [0, 51, -1])
def test_valid_frames_lie_in_the_window(model: WhisperModel, valid: int) -> None:
    with pytest.raises(GraphError, match="valid frames"):
        model.encode(mel(100), valid_frames=valid)


@pytest.mark.parametrize("frames", slow_but([2, 100, 3000], 2, 100))
def test_any_length_up_to_30_s(model: WhisperModel, frames: int) -> None:
    encoded = model.encode(mel(frames))
    assert (encoded.frames, encoded.valid_frames) == (frames // 2, frames // 2)


@pytest.mark.slow
def test_attention_of_chosen_heads_is_cropped_to_the_valid_frames(model: WhisperModel) -> None:
    state = model.decoder(model.encode(mel(100), valid_frames=30), heads=[(3, 1), (0, 2)])
    attention = state.run(DecodeRequest(np.array([[50257, 50362]]), (1,))).attention
    assert attention is not None
    assert attention.shape == (2, 1, 2, 30)
    np.testing.assert_allclose(attention.sum(axis=-1), 1.0, atol=1e-5)


@pytest.mark.parametrize("head", [(4, 0), (0, 4), (-1, 0)])
def test_heads_that_the_model_has_not(model: WhisperModel, head: tuple[int, int]) -> None:
    with pytest.raises(GraphError, match="attention heads"):
        model.decoder(model.encode(mel(100)), heads=[head])


def test_the_text_context_does_not_overflow(model: WhisperModel) -> None:
    state = model.decoder(model.encode(mel(100)))
    state.run(DecodeRequest(np.full((1, 448), 50257), (447,)))
    with pytest.raises(GraphError, match="448"):
        state.run(DecodeRequest(np.array([[1]]), (0,)))


def test_forks_go_their_own_way(model: WhisperModel) -> None:
    assert isinstance(model.engine, OnnxEngine)
    state = model.engine.start(model.encode(mel(100)))
    state.run(DecodeRequest(np.array([[50257, 50362]]), (1,)))
    fork = copy(state)
    fork.run(DecodeRequest(np.array([[464]]), (0,)))
    assert (state.cache.length, fork.cache.length) == (2, 3)


def test_providers_by_name() -> None:
    assert "cpu" in available_providers()
    assert choose_provider("cpu") == "cpu"
    assert choose_provider("auto") in available_providers()
    missing = next(name for name in ("coreml", "directml", "qnn") if name not in available_providers())
    with pytest.raises(ProviderError, match="install"):
        choose_provider(missing)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="provider"):
        EngineOptions(provider="abacus")  # type: ignore[arg-type]


def test_an_accelerator_that_is_of_no_use_is_told_from_one_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """ONNX Runtime would compute on the CPU in both cases, and say so on standard output."""
    real, path = onnxruntime.InferenceSession, GraphFiles(load_checkpoint("nano.en"), "int8")[ENCODER]

    def without_a_driver(path: str, settings: Any, providers: Any, **more: Any) -> Any:
        assert more == {"enable_fallback": 0}
        if providers[0][0] == "CUDAExecutionProvider":
            raise RuntimeError("no driver")
        return real(path, settings, providers=providers, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", without_a_driver)
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    with pytest.raises(GraphError, match="no driver"):
        open_session(path, EngineOptions(provider="cuda"))
    assert not caplog.messages
    session = open_session(path, EngineOptions())
    assert session.session.get_providers() == ["CPUExecutionProvider"]
    assert caplog.messages == ["computing on the CPU: no driver"]
    assert capsys.readouterr().out == ""


def test_what_cannot_compute_is_refused_before_graphs_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = load_checkpoint("nano.en")
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    with pytest.raises(ProviderError, match="fp16 needs an accelerator"):
        open_engine(checkpoint, EngineOptions("fp16", "cpu"))
    assert not (tmp_path / "graphs").exists()


def test_threads() -> None:
    assert thread_count(EngineOptions(threads=3)) == 3
    assert 1 <= thread_count(EngineOptions()) <= 4
    assert 1 <= physical_cores() <= len(usable_cpus())


def test_a_damaged_graph_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "encoder.onnx"
    path.write_bytes(b"nothing")
    with pytest.raises(GraphError, match="remove its folder"):
        open_session(path, EngineOptions(provider="cpu"))


def test_threads_open_a_graph_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, opened = load_model("nano.en", EngineOptions(threads=1)), list[str]()

    def slowly(path: Path, options: EngineOptions) -> GraphSession:
        opened.append(path.name)
        time.sleep(0.05)
        return open_session(path, options)

    monkeypatch.setattr("whispertide.model.onnx_engine.open_session", slowly)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(model.encode, [mel(100)] * 4))
    assert opened == ["encoder.onnx"]


@pytest.mark.slow
def test_nothing_is_sent(tmp_path: Path) -> None:
    """ONNX Runtime's own builds keep an identifier and a database of what they will send; without them nothing is."""
    code = (
        "from whispertide.model.whisper import load_model;"
        "from whispertide.options import EngineOptions;"
        "load_model('nano.en', EngineOptions(precision='fp32'))"
    )
    homes = {name: str(tmp_path / name) for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    away = ("ORT_DISABLE_TELEMETRY", "WHISPERTIDE_CACHE")
    environment = {name: value for name, value in os.environ.items() if name not in away}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment | homes, timeout=120)
    written = [path.relative_to(tmp_path).parts[:2] for path in tmp_path.rglob("*") if path.is_file()]
    assert set(written) == {("XDG_CACHE_HOME", "whispertide")}


# In a process of its own: what other tests have freed would be taken first.
WIDE_RUNS = """
from pathlib import Path
import numpy as np
from whispertide.model import runtime
from whispertide.model.engine import DecodeRequest
from whispertide.model.whisper import load_model
from whispertide.options import EngineOptions

now = 0.0
runtime.time.monotonic = lambda: now
model = load_model("nano.en", EngineOptions(precision="fp32", threads=1))
encoded = model.encode(np.zeros((80, 100), np.float32))

def resident_mb(rows):
    state = model.engine.start(encoded)
    state.run(DecodeRequest(np.full((1, 440), 50257), (439,)))
    state.run(DecodeRequest(np.full((rows, 1), 464), (0,), parents=[0] * rows, need="logits"))
    del state
    return resident_now()

def resident_now():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))

before, wide, at_once = resident_mb(1), resident_mb(64), resident_mb(1)
now = 6.0
later = resident_mb(1)
again = resident_mb(64)
now = 10.5
assert [graph.path.stem for graph in runtime.spare_graphs()] == ["encoder"]  # not yet of what ran a moment ago
now = 11.0
runtime.give_back_spare()
assert runtime.spare_graphs() == []
print(*(size - before for size in (wide, at_once, later, again, resident_now())))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_what_wide_runs_used_is_given_back_after_seconds() -> None:
    told = subprocess.run([sys.executable, "-c", WIDE_RUNS], capture_output=True, text=True, check=True).stdout
    wide, at_once, later, again, without_a_run = map(float, told.split())
    assert wide > 60
    assert at_once > 60, "what may be needed again is kept for a moment"
    assert later < 20
    assert again > 60
    assert without_a_run < 20, "where no run comes any more, a server has one"
