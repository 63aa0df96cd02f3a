"""Weights to 8 bits and back, and what the quantised graphs make of it."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.checkpoint import load_checkpoint
from whispertide.graphs import arithmetic
from whispertide.graphs.arithmetic import signed_weights_saturate
from whispertide.graphs.contract import ENCODER
from whispertide.graphs.quantize import blockwise_int8, per_column_int8
from whispertide.graphs.store import GraphFiles
from whispertide.model.engine import LAST_LAYER, DecodeRequest
from whispertide.model.onnx_engine import OnnxEngine
from whispertide.options import EngineOptions, Precision
from whispertide.types import FloatArray


def weights(rows: int, columns: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


@given(st.integers(1, 70), st.integers(1, 40), st.integers(0, 5))
def test_columns_come_back_within_half_a_step(rows: int, columns: int, seed: int) -> None:
    original = weights(rows, columns, seed)
    data, scales = per_column_int8(original)
    assert data.dtype == np.int8
    assert scales.shape == (columns,)
    assert (np.abs(data * scales - original) <= scales / 2 + 1e-6).all()


@given(st.integers(1, 20), st.integers(1, 300), st.sampled_from([32, 128]), st.integers(0, 5))
def test_blocks_come_back_within_half_a_step(rows: int, columns: int, block: int, seed: int) -> None:
    original = weights(rows, columns, seed)
    data, scales = blockwise_int8(original, block)
    assert data.shape == (rows, -(-columns // block), block)
    restored = ((data.astype(np.float32) - 128) * scales[:, :, None]).reshape(rows, -1)
    assert np.abs(restored[:, :columns] - original).max() <= scales.max() / 2 + 1e-6
    assert (restored[:, columns:] == 0).all()


def test_zeros_stay_zeros() -> None:
    data, scales = per_column_int8(np.zeros((4, 3), np.float32))
    assert not data.any()
    assert np.isfinite(scales).all()


def run(folder: Path, precision: Precision, *, unsigned: bool = False) -> tuple[FloatArray, FloatArray]:
    """Hidden states and next-token log-probabilities of the bundled model for one fixed input."""
    checkpoint = load_checkpoint("nano.en")
    options = EngineOptions(precision=precision, provider="cpu", threads=1)
    engine = OnnxEngine(GraphFiles(checkpoint, precision, folder), options)
    mel = np.clip(0.3 * np.random.default_rng(0).standard_normal((80, 400)), -1, 1).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arithmetic, "signed_weights_saturate", lambda: unsigned)
        encoded = engine.encode(mel, taps=(LAST_LAYER,))
        decoder = engine.start(encoded)
    ids = np.array([[*checkpoint.tokenizer.sot_sequence("en", "transcribe", False), 464, 1660]])
    request = DecodeRequest(ids, tuple(range(ids.shape[1])), need="logits")
    logits = decoder.run(request).logits
    assert logits is not None
    peak = logits.max(axis=-1, keepdims=True)
    return encoded.taps[LAST_LAYER], logits - peak - np.log(np.exp(logits - peak).sum(axis=-1, keepdims=True))


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> tuple[FloatArray, FloatArray]:
    return run(tmp_path_factory.mktemp("exact") / "fp32", "fp32")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "unsigned", "tolerance"), [("int8", False, 0.06), ("int8", True, 0.06), ("int8-weights", False, 0.03)]
)
def test_quantised_graphs_are_near_the_exact_ones(
    exact: tuple[FloatArray, FloatArray], tmp_path: Path, precision: Precision, unsigned: bool, tolerance: float
) -> None:
    if not unsigned and precision == "int8" and signed_weights_saturate():
        pytest.skip("this CPU needs unsigned weights")
    hidden, logprobs = run(tmp_path / "graphs", precision, unsigned=unsigned)
    assert np.linalg.norm(hidden - exact[0]) / np.linalg.norm(exact[0]) <= tolerance
    likely = exact[1] > -5
    assert np.abs(logprobs - exact[1])[likely].mean() <= 5 * tolerance


@pytest.mark.slow
def test_unsigned_weights_mean_the_same(tmp_path: Path) -> None:
    if signed_weights_saturate():
        pytest.skip("this CPU needs unsigned weights")
    signed, unsigned = run(tmp_path / "signed", "int8"), run(tmp_path / "unsigned", "int8", unsigned=True)
    np.testing.assert_allclose(unsigned[0], signed[0], atol=1e-4 * np.abs(signed[0]).max())


def test_half_precision_builds_and_loads_only_on_accelerators(tmp_path: Path) -> None:
    """The CPU provider has no fp16; the graph itself is checked by letting it cast (no accelerator needed)."""
    import onnxruntime

    from whispertide.errors import ProviderError
    from whispertide.model.runtime import open_session

    checkpoint = load_checkpoint("nano.en")
    graph = GraphFiles(checkpoint, "fp16", tmp_path)[ENCODER]
    with pytest.raises(ProviderError, match="fp16"):
        open_session(graph, EngineOptions(precision="fp16", provider="cpu"))
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    mel = np.zeros((1, 80, 200), np.float32)
    (hidden,) = session.run(["hidden"], {"mel": mel, "positions": np.arange(100)})
    assert hidden.dtype == np.float32
    assert np.isfinite(hidden).all()
