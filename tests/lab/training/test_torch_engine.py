"""The torch engine computes what the graphs compute, alone and hand in hand with them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.errors import GraphError, ProviderError
from whispertide.events import Confirmed
from whispertide.features import log_mel
from whispertide.methods.agreement.whole_window import WholeWindow
from whispertide.model.engine import LAST_LAYER, DecodeOutput, DecodeRequest, DecoderRun, Encoded, EncoderState
from whispertide.model.installed import is_accelerated, is_installed, load_engine
from whispertide.model.providers import choose_provider
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.recipes.allocation import Allocation, Placement
from whispertide.recipes.assembly import make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.streaming.round import RoundPlan
from whispertide.types import FloatArray, Span
from whispertide_lab.training.torch_engine import TorchEngine

pytestmark = pytest.mark.slow

TOLERANCE = 2e-4  # of values about 1, fp32 on both sides
AUDIO_S = 8
MEL_S = 4  # of it; what is compared value by value
PROMPT = [50257, 50362, 383, 2068]
HEADS = ((3, 1), (0, 2), (3, 0))


@pytest.fixture(scope="module")
def graphs() -> WhisperModel:
    return load_model("nano.en", EngineOptions("fp32", "cpu", 1))


@pytest.fixture(scope="module")
def backed() -> WhisperModel:
    return load_model("nano.en", EngineOptions("fp32", "torch", 1))


@pytest.fixture(scope="module")
def audio() -> FloatArray:
    return load_audio(BUNDLED_DIR / "audio" / "demo.flac")[: AUDIO_S * 16_000]


@pytest.fixture(scope="module")
def mel(audio: FloatArray) -> FloatArray:
    return log_mel(audio[: MEL_S * 16_000])


def close(found: np.ndarray | None, expected: np.ndarray | None) -> None:
    assert found is not None
    assert expected is not None
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=TOLERANCE * max(1.0, float(np.abs(expected).max())))


def same_output(found: DecodeOutput, expected: DecodeOutput) -> None:
    for name in ("top_logprobs", "time_logprobs", "time_mass", "logits", "attention", "hidden"):
        if (value := getattr(expected, name)) is not None:
            close(getattr(found, name), value)
    for name in ("top_ids", "time_ids"):
        if (value := getattr(expected, name)) is not None:
            assert getattr(found, name)[..., 0].tolist() == value[..., 0].tolist()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"valid_frames": 150},
        {"valid_frames": 150, "mask_padding": False},
        {"attention": np.triu(np.full((200, 200), -1e30, np.float32), 20)},
    ],
    ids=["whole", "masked", "half masked", "local"],
)
def test_windows(graphs: WhisperModel, backed: WhisperModel, mel: FloatArray, settings: dict[str, object]) -> None:
    found = backed.encode(mel, taps=(LAST_LAYER,), **settings)  # type: ignore[arg-type]
    expected = graphs.encode(mel, taps=(LAST_LAYER,), **settings)  # type: ignore[arg-type]
    assert (found.frames, found.valid_frames) == (expected.frames, expected.valid_frames)
    close(found.taps[LAST_LAYER], expected.taps[LAST_LAYER])
    for mine, other in zip((*found.cross_k, *found.cross_v), (*expected.cross_k, *expected.cross_v), strict=True):
        close(np.asarray(mine), other.numpy())


def conversation(state: DecoderRun, vocabulary: int) -> list[DecodeOutput]:
    """A prefill, a beam of three that changes places, a rewind, a block, one under suppression, and hidden states."""
    suppress = np.zeros(vocabulary, np.float32)
    suppress[:1000] = -np.inf
    outputs = [state.run(DecodeRequest(np.array([PROMPT]), (0, 3), need="times"))]
    three = np.array([[464], [290], [257]])
    outputs.append(state.run(DecodeRequest(three, (0,), parents=(0, 0, 0), need="logits")))
    outputs.append(state.run(DecodeRequest(three[::-1], (0,), parents=(2, 0, 0), suppress=suppress, need="times")))
    state.rewind(1)
    outputs.append(state.run(DecodeRequest(np.array([[11, 290, 262]]), (0, 1, 2), parents=(1,))))
    outputs.append(state.run(DecodeRequest(np.array([[464, 290, 11, 257]]), (0, 1, 2, 3), hidden=True)))
    state.rewind(3)
    outputs.append(state.run(DecodeRequest(np.array([[383]]), (0,))))
    return outputs


@pytest.mark.parametrize("valid", [None, 120])
def test_decoding(graphs: WhisperModel, backed: WhisperModel, mel: FloatArray, valid: int | None) -> None:
    found = conversation(backed.decoder(backed.encode(mel, valid_frames=valid), heads=HEADS), backed.dims.n_vocab)
    expected = conversation(graphs.decoder(graphs.encode(mel, valid_frames=valid), heads=HEADS), graphs.dims.n_vocab)
    for mine, other in zip(found, expected, strict=True):
        same_output(mine, other)


def test_any_layer_can_be_tapped(backed: WhisperModel, mel: FloatArray) -> None:
    """The layers after a tapped one make of it what the encoder gives out."""
    last = backed.dims.n_audio_layer - 1
    taps = backed.encode(mel, taps=(1, last, LAST_LAYER)).taps
    engine = backed.engine
    assert isinstance(engine, TorchEngine)
    with torch.inference_mode():
        x = torch.from_numpy(taps[1])[None]
        for layer in engine.network.encoder.layers[2:]:
            normed = layer.self_attn_layer_norm(x)
            x = layer.feed_forward(x + layer.self_attn(normed, normed, None)[0])
        close(taps[last], x[0].numpy())
        close(taps[LAST_LAYER], engine.network.encoder.layer_norm(x)[0].numpy())


def test_each_decoder_reads_the_windows_of_the_other(
    graphs: WhisperModel, backed: WhisperModel, mel: FloatArray
) -> None:
    request = DecodeRequest(np.array([PROMPT]), (3,), need="times")
    here = graphs.decoder(graphs.encode(mel), heads=HEADS).run(request)
    pairs: list[tuple[WhisperModel, Encoded]] = [(graphs, backed.encode(mel)), (backed, graphs.encode(mel))]
    for model, encoded in pairs:
        same_output(model.decoder(encoded, heads=HEADS).run(request), here)


def test_transcripts(graphs: WhisperModel, backed: WhisperModel, audio: FloatArray) -> None:
    found, expected = (Transcriber(model).transcribe(audio) for model in (backed, graphs))
    assert found.text == expected.text
    assert [word.text for word in found.words] == [word.text for word in expected.words]


def said(model: WhisperModel, audio: FloatArray, recipe: str) -> list[str]:
    events = Transcriber(model).stream([audio], recipe)
    return [word.text for event in events if isinstance(event, Confirmed) for word in event.words]


@pytest.mark.parametrize("name", ["whisper-streaming", "tide"])
def test_streams(graphs: WhisperModel, backed: WhisperModel, audio: FloatArray, name: str) -> None:
    found, expected = (said(model, audio[: 5 * 16_000], name) for model in (backed, graphs))
    assert found == expected
    assert len(expected) > 5


def test_encoding_here_and_decoding_there(graphs: WhisperModel, audio: FloatArray) -> None:
    """The division of WhisperFlow's section 4, with the processor in the accelerator's place."""
    recipe = get_recipe("whisper-streaming").replace(executor="pipelined")
    allocation = Allocation(Placement("torch", 1, "fp32"), Placement("cpu", 1))
    plan, options = RoundPlan(0, Span(0, len(audio)), WholeWindow()), DecodeOptions()
    found: Any = make_executor(graphs, recipe, allocation=allocation).run(plan, audio, options)
    expected: Any = make_executor(graphs, recipe.replace(executor="serial")).run(plan, audio, options)
    assert [word.text for word in found.heard.words] == [word.text for word in expected.heard.words]
    assert found.heard.words


def test_it_is_found_by_its_name() -> None:
    assert is_installed("torch")
    assert load_engine("torch") is TorchEngine
    assert choose_provider("torch") == "torch"
    assert is_accelerated("torch") is torch.cuda.is_available()
    assert not is_installed("abacus")
    with pytest.raises(ProviderError, match="abacus"):
        load_engine("abacus")


def missing(name: str) -> None:
    return None


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.model.installed.find_spec", missing)
    assert not is_installed("torch")
    with pytest.raises(ProviderError, match=r"pip install '\./lab\[train\]'"):
        choose_provider("torch")


BYTES = EngineOptions("int8", "torch")
Call = Callable[[WhisperModel, FloatArray], object]
REFUSED: dict[str, tuple[Call, type[Exception], str]] = {
    "features of another shape": (lambda model, mel: model.encode(mel[:40]), GraphError, "expected log-mel"),
    "heads that there are not": (lambda model, mel: model.decoder(model.encode(mel), heads=[(9, 0)]), GraphError, "9"),
    "encoder state": (lambda model, mel: model.encode(mel, state=EncoderState({}, 3)), GraphError, "no encoder state"),
    "layers that there are not": (lambda model, mel: model.encode(mel, taps=(9,)), GraphError, "taps"),
    "another precision": (lambda model, mel: model.view(BYTES).encode(mel), ProviderError, "int8: use --precision fp"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(backed: WhisperModel, mel: FloatArray, case: str) -> None:
    call, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        call(backed, mel)


def test_the_text_context_does_not_overflow(backed: WhisperModel, mel: FloatArray) -> None:
    state = backed.decoder(backed.encode(mel))
    state.run(DecodeRequest(np.full((1, 448), 50257), (447,)))
    with pytest.raises(GraphError, match="448"):
        state.run(DecodeRequest(np.array([[1]]), (0,)))
