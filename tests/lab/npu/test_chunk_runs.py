"""Unrolled decoding of the bundled model, and what its sessions refuse."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import remembering
from unrolled_models import Pair
from whispertide.audio.file import load_audio
from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.errors import GraphError, OptionError, ProviderError
from whispertide.features import log_mel
from whispertide.model.engine import LAST_LAYER, EncoderState
from whispertide.model.whisper import load_model
from whispertide.options import EngineOptions
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.npu import export
from whispertide_lab.npu.chunk_runs import ChunkRequest, start_chunks
from whispertide_lab.npu.chunks import UnrolledLayout
from whispertide_lab.npu.engine import StaticEngine
from whispertide_lab.npu.qnn import QnnOptions
from whispertide_lab.npu.search import run_unrolled

pytestmark = pytest.mark.slow

LAYOUT = UnrolledLayout(2, buckets=(3, 4))
HEADS = [(3, 0), (2, 1)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    model = remembering(load_model("nano.en", EngineOptions(precision="fp32", provider="cpu", threads=1)))
    folder = tmp_path_factory.mktemp("unrolled")
    export.build(load_checkpoint("nano.en"), "fp32", folder, LAYOUT, encoder=True)
    return Pair(model, static(folder, model.options), folder)


def static(folder: Path, options: EngineOptions, qnn: QnnOptions | None = None) -> StaticEngine:
    return StaticEngine(folder, load_checkpoint("nano.en"), options, qnn)


def demo(start_s: float, length_s: float) -> FloatArray:
    """Log-mel of a stretch of the demo recording."""
    audio = load_audio(BUNDLED_DIR / "audio" / "demo.flac")
    first = round(start_s * SAMPLE_RATE)
    return log_mel(audio[first : first + round(length_s * SAMPLE_RATE)])


@pytest.mark.slow
@pytest.mark.parametrize(("start_s", "length_s"), [(0.0, 2.6), (4.2, 3.9), (7.0, 3.33)])
def test_the_bundled_model_says_the_same_as_step_by_step(pair: Pair, start_s: float, length_s: float) -> None:
    mel = demo(start_s, length_s)
    encoded = pair.unrolled.encode(mel)
    text = pair.greedy(encoded, pair.prompt()).best.tokens
    for prefix in ((), text[:1], text[:3]):
        prompt = pair.prompt(*prefix)
        greedy = pair.greedy(encoded, prompt)
        found = run_unrolled(prompt, pair.rules, LAYOUT, start_chunks(pair.unrolled, encoded, HEADS))
        if found.best.stop == "length":  # the graphs end at 30 tokens
            assert len(found.best.tokens) == 31 - len(prompt.tokens)
            assert found.best.tokens == greedy.best.tokens[: len(found.best.tokens)]
            continue
        assert found.best.tokens
        assert found.best.tokens == greedy.best.tokens
        assert found.best.stop == greedy.best.stop == "end_of_text"
        assert found.best.sum_logprob == pytest.approx(greedy.best.sum_logprob, abs=1e-2)
        assert found.steps.runs < greedy.steps.runs


def test_the_static_encoder_is_the_masked_encoder(pair: Pair) -> None:
    mel = demo(0.0, 2.5)
    found = pair.unrolled.encode(mel, taps=(LAST_LAYER,))
    padded = np.pad(mel, [(0, 0), (0, 300 - mel.shape[1])])
    expected = pair.model.encode(padded, valid_frames=125, taps=(LAST_LAYER,))
    assert (found.frames, found.valid_frames) == (150, 125)
    np.testing.assert_allclose(found.taps[LAST_LAYER][:125], expected.taps[LAST_LAYER][:125], atol=1e-3)
    for ours, theirs in zip((*found.cross_k, *found.cross_v), (*expected.cross_k, *expected.cross_v), strict=True):
        assert ours.shape() == theirs.shape()
    np.testing.assert_allclose(found.cross_k[0].numpy()[..., :125], expected.cross_k[0].numpy()[..., :125], atol=1e-3)


def test_attention_is_of_the_chosen_heads_and_the_audio_only(pair: Pair) -> None:
    state = start_chunks(pair.unrolled, pair.window(0, 150, 90), HEADS)
    chunk = LAYOUT.plan(2)[0]
    output = state.run(ChunkRequest(chunk, (50257, 50362), np.zeros((2, 51864), np.float32), 0))
    assert output.attention is not None
    assert output.attention.shape == (2, 4, 90)
    np.testing.assert_allclose(output.attention.sum(axis=-1), 1.0, atol=1e-4)


def test_windows_and_heads_that_do_not_fit(pair: Pair) -> None:
    with pytest.raises(GraphError, match="150, 200 encoder frames"):
        start_chunks(pair.unrolled, pair.window(0, 160, 160))
    with pytest.raises(GraphError, match="attention heads"):
        start_chunks(pair.unrolled, pair.window(0, 150), [(4, 0)])
    encoder = pair.unrolled
    with pytest.raises(OptionError, match="longest bucket"):
        encoder.encode(np.zeros((80, 402), np.float32))
    with pytest.raises(GraphError, match="expected log-mel"):
        encoder.encode(np.zeros((128, 100), np.float32))


def test_what_static_graphs_cannot_do(pair: Pair) -> None:
    mel, one = np.zeros((80, 100), np.float32), EncoderState({}, 50)
    with pytest.raises(GraphError, match="no encoder state"):
        pair.unrolled.encode(mel, state=one)
    with pytest.raises(GraphError, match="no attention mask"):
        pair.unrolled.encode(mel, attention=np.zeros((50, 50), np.float32))
    with pytest.raises(GraphError, match="taps of the encoder layers"):
        pair.unrolled.encode(mel, taps=(0,))
    with pytest.raises(GraphError, match="run in chunks"):
        pair.unrolled.start(pair.window(0, 150))


def test_chunks_run_in_order_with_enough_known_tokens(pair: Pair) -> None:
    state = start_chunks(pair.unrolled, pair.window(0, 150))
    first, second = LAYOUT.plan(2)[:2]
    nothing = np.zeros((2, 51864), np.float32)
    for request in (ChunkRequest(second, (1,), nothing, None), ChunkRequest(first, (1,), nothing, None)):
        with pytest.raises(GraphError, match="expected a chunk after 0 tokens"):
            state.run(request)


def test_graphs_of_another_checkpoint(pair: Pair, tmp_path: Path) -> None:
    manifest = (pair.folder / "manifest.json").read_text()
    (tmp_path / "manifest.json").write_text(manifest.replace(pair.model.content_hash, "other"))
    with pytest.raises(GraphError, match="other weights"):
        static(tmp_path, pair.model.options)


def test_a_missing_graph(pair: Pair, tmp_path: Path) -> None:
    shutil.copy(pair.folder / "manifest.json", tmp_path)
    state = start_chunks(static(tmp_path, pair.model.options), pair.window(0, 150))
    with pytest.raises(GraphError, match=r"decoder-0150-00-04\.onnx"):
        state.run(ChunkRequest(LAYOUT.plan(2)[0], (50257, 50362), np.zeros((2, 51864), np.float32), 0))


def test_half_precision_is_for_accelerators(tmp_path: Path, pair: Pair) -> None:
    layout = UnrolledLayout(2, plans=((2,),), buckets=(3,))
    export.build(load_checkpoint("nano.en"), "fp16", tmp_path, layout)
    state = start_chunks(static(tmp_path, pair.model.options), pair.window(0, 150))
    with pytest.raises(ProviderError, match="accelerator"):
        state.run(ChunkRequest(layout.plan(2)[0], (50257, 50362), np.zeros((2, 51864), np.float32), 0))


class FakeSession:
    """Stands in for ONNX Runtime's session and notes what it was given."""

    seen: list[tuple[str, dict[str, str], Any]] = []  # noqa: RUF012

    def __init__(self, path: str, settings: Any, providers: Any, enable_fallback: int) -> None:
        names = ("session.disable_cpu_ep_fallback", "ep.context_enable", "ep.context_file_path")
        entries = {name: settings.get_session_config_entry(name) for name in names if _has(settings, name)}
        self.seen.append((Path(path).name, entries, providers))


def _has(settings: Any, name: str) -> bool:
    try:
        return bool(settings.get_session_config_entry(name))
    except RuntimeError:
        return False


@pytest.mark.parametrize("compiled", [False, True])
def test_qnn_options_reach_the_provider(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    import onnxruntime

    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["QNNExecutionProvider", "CPUExecutionProvider"]
    )
    monkeypatch.setattr(onnxruntime, "InferenceSession", FakeSession)
    FakeSession.seen.clear()
    if compiled:
        (tmp_path / "decoder-0150-00-04_ctx.onnx").touch()
    engine = static(pair.folder, EngineOptions("fp32", "qnn", 1), QnnOptions(vtcm_mb=8, contexts=tmp_path))
    engine.session("decoder-0150-00-04")
    ((name, entries, providers),) = FakeSession.seen
    options = {
        "backend_type": "htp",
        "htp_performance_mode": "burst",
        "htp_graph_finalization_optimization_mode": "3",
        "enable_htp_fp16_precision": "1",
        "vtcm_mb": "8",
    }
    assert providers == [("QNNExecutionProvider", options)]  # no CPU after it: nothing may fall back unnoticed
    assert entries["session.disable_cpu_ep_fallback"] == "1"
    assert name == ("decoder-0150-00-04_ctx.onnx" if compiled else "decoder-0150-00-04.onnx")
    assert entries.get("ep.context_enable") == (None if compiled else "1")


def test_qnn_options() -> None:
    lenient = QnnOptions(library=Path("QnnHtp.dll"), strict=False, fp16=False, soc_model="60", htp_arch="73")
    options = lenient.provider_options()
    assert options["backend_path"] == "QnnHtp.dll"
    assert "backend_type" not in options
    assert (options["enable_htp_fp16_precision"], options["soc_model"], options["htp_arch"]) == ("0", "60", "73")
    assert lenient.entries(Path("a.onnx")) == {}
    assert QnnOptions(backend="cpu").provider_options() == {"backend_type": "cpu"}
    with pytest.raises(OptionError, match="backend"):
        QnnOptions(backend="abacus")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="effort"):
        QnnOptions(effort=4)
