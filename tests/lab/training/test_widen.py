"""Widening keeps the function: through our engine, and through the other programs that will load the result.

Logits are compared for the tokens that the bundled model's training met (see tests/graphs/test_parity.py), at fp32.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from each_row import each_row
from reference import ct2_folder, hf_model, mel_of, openai_model
from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.causal import CausalAdapter
from whispertide.checkpoint.low_rank import merge_adapter
from whispertide.checkpoint.mask import Mask
from whispertide.checkpoint.masked import MaskedAdapter
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.cli.main import app
from whispertide.errors import CheckpointError, OptionError, OutputError
from whispertide.graphs.store import GraphFiles
from whispertide.methods.attention.truncation import KIND, TruncationDetector
from whispertide.methods.short.hush import HushWord
from whispertide.model.engine import LAST_LAYER, DecodeRequest
from whispertide.model.onnx_engine import OnnxEngine
from whispertide.model.whisper import WhisperModel
from whispertide.options import EngineOptions
from whispertide.types import FloatArray, IntArray
from whispertide_lab.training.widen import TARGETS, Widening, plan_widening, widen, widened, write_safetensors

TOLERANCE = 1e-4
DEMO = BUNDLED_DIR / "audio" / "demo.flac"
TEXT = DEMO.with_suffix(".txt").read_text()
NARROW = load_checkpoint("nano.en")
# The published shapes (openai/whisper, model-card.md): width, heads, layers
SHAPES = {"base.en": (512, 8, 6), "small.en": (768, 12, 12), "medium.en": (1024, 16, 24)}


@dataclass(frozen=True)
class Computed:
    """What a model makes of the demo: hidden [1500, width], logits [tokens, live], the words it hears."""

    hidden: FloatArray
    logits: FloatArray
    words: list[tuple[str, int, int]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return widen("nano.en", "base.en", tmp_path_factory.mktemp("wide") / "base.en")


@pytest.fixture(
    scope="module",
    params=[pytest.param("base.en", marks=pytest.mark.slow), pytest.param("small.en", marks=pytest.mark.soak)],
)
def wide(request: pytest.FixtureRequest, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "base.en":
        return base
    return widen("nano.en", request.param, tmp_path_factory.mktemp("wide") / request.param)


@pytest.fixture(scope="module")
def narrow_result(tmp_path_factory: pytest.TempPathFactory) -> Computed:
    return ours(NARROW, tmp_path_factory.mktemp("graphs"))


def live_tokens() -> IntArray:
    embedding = np.asarray(NARROW.tensors.get("decoder.embed_tokens.weight"), np.float32)
    return np.flatnonzero(np.linalg.norm(embedding, axis=1) < 100)


def prompt() -> IntArray:
    tokenizer = NARROW.tokenizer
    return np.array([[*tokenizer.sot_sequence(None, "transcribe", False), *tokenizer.encode(" " + TEXT)][:60]])


def ours(checkpoint: Checkpoint, folder: Path) -> Computed:
    options = EngineOptions(precision="fp32", provider="cpu", threads=1)
    model = WhisperModel(checkpoint, OnnxEngine(GraphFiles(checkpoint, "fp32", folder), options))
    encoded = model.encode(mel_of(DEMO), taps=(LAST_LAYER,))
    ids = prompt()
    output = model.decoder(encoded).run(DecodeRequest(ids, tuple(range(ids.shape[1])), need="logits"))
    assert output.logits is not None
    heard = Transcriber(model).transcribe(load_audio(DEMO)[: 8 * 16000]).words
    words = [(word.text, word.start, word.end) for word in heard]
    return Computed(encoded.taps[LAST_LAYER], output.logits[0][:, live_tokens()], words)


def theirs(module: Any) -> tuple[FloatArray, FloatArray]:
    """Hidden and logits by `transformers`."""
    import torch

    with torch.no_grad():
        out = module(input_features=torch.from_numpy(mel_of(DEMO))[None], decoder_input_ids=torch.from_numpy(prompt()))
    return out.encoder_last_hidden_state[0].numpy(), out.logits[0].numpy()[:, live_tokens()]


def relative_error(found: FloatArray, expected: FloatArray) -> float:
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def repeated(hidden: FloatArray, wide: Path) -> FloatArray:
    copies = load_checkpoint(wide).dims.n_audio_state // NARROW.dims.n_audio_state
    return np.tile(hidden, (1, copies))


@pytest.mark.soak
def test_same_function_in_our_engine(base: Path, narrow_result: Computed, tmp_path: Path) -> None:
    found = ours(load_checkpoint(base), tmp_path)
    assert relative_error(found.hidden, repeated(narrow_result.hidden, base)) <= TOLERANCE
    assert relative_error(found.logits, narrow_result.logits) <= TOLERANCE
    assert len(narrow_result.words) > 10
    assert found.words == narrow_result.words


def test_same_function_in_transformers(wide: Path, narrow_result: Computed) -> None:
    hidden, logits = theirs(hf_model(wide))
    assert relative_error(hidden, repeated(narrow_result.hidden, wide)) <= TOLERANCE
    assert relative_error(logits, narrow_result.logits) <= TOLERANCE


@pytest.mark.slow
def test_same_function_in_openai_whisper(base: Path, narrow_result: Computed) -> None:
    import torch

    model = openai_model(base)
    with torch.no_grad():
        hidden = model.embed_audio(torch.from_numpy(mel_of(DEMO))[None])
        logits = model.logits(torch.from_numpy(prompt()), hidden)[0].numpy()[:, live_tokens()]
    assert relative_error(hidden[0].numpy(), repeated(narrow_result.hidden, base)) <= TOLERANCE
    assert relative_error(logits, narrow_result.logits) <= TOLERANCE


@pytest.mark.soak
def test_faster_whisper_hears_the_same(base: Path, tmp_path: Path) -> None:
    import faster_whisper

    texts = []
    for name, folder in (("narrow", NARROW.tensors.files[0].parent), ("wide", base)):
        converted = ct2_folder(folder, tmp_path / name)
        model = faster_whisper.WhisperModel(str(converted), device="cpu", compute_type="float32", cpu_threads=1)
        segments, _ = model.transcribe(load_audio(DEMO)[: 8 * 16000], beam_size=1, temperature=0)  # no sampling
        texts.append("".join(segment.text for segment in segments))
    assert len(texts[0].split()) > 10
    assert texts[0] == texts[1]


@pytest.mark.parametrize("to", TARGETS)
def test_true_shape(to: str) -> None:
    width, heads, layers = SHAPES[to]
    dims = plan_widening(NARROW.dims, to).target
    assert (dims.n_audio_state, dims.n_audio_head, dims.n_audio_layer) == (width, heads, layers)
    assert (dims.n_text_state, dims.n_text_head, dims.n_text_layer) == (width, heads, layers)
    kept = ("n_mels", "n_audio_ctx", "n_vocab", "n_text_ctx")
    assert [getattr(dims, name) for name in kept] == [getattr(NARROW.dims, name) for name in kept]


@pytest.mark.slow
def test_folder_is_whole(base: Path) -> None:
    config = json.loads((base / "config.json").read_text())
    assert (config["encoder_ffn_dim"], config["decoder_ffn_dim"]) == (2048, 2048)
    assert config["widened_from"] == "nano.en"
    checkpoint = load_checkpoint(base)
    heads = tuple((layer + 2, head) for layer, head in NARROW.generation.alignment_heads)
    assert checkpoint.generation == replace(NARROW.generation, alignment_heads=heads)
    assert checkpoint.generation.short_windows
    assert checkpoint.tokenizer.encode(TEXT) == NARROW.tokenizer.encode(TEXT)
    assert checkpoint.tensors.get("encoder.conv1.weight").dtype == np.float16


def test_copies_and_added_layers() -> None:
    """By hand: the second copy equals the first, a reader's copies sum to the original, added layers write nothing."""
    plan = plan_widening(NARROW.dims, "small.en")

    def wide_tensor(name: str) -> FloatArray:
        return widened(name, NARROW, plan)

    def narrow_tensor(name: str) -> FloatArray:
        return np.asarray(NARROW.tensors.get(name), np.float32)

    query = "layers.{}.encoder_attn.q_proj"
    wide, narrow = f"decoder.{query.format(9)}", f"decoder.{query.format(1)}"  # after eight added layers
    assert wide_tensor(f"{wide}.bias")[256:512].tolist() == narrow_tensor(f"{narrow}.bias").tolist()
    summed = wide_tensor(f"{wide}.weight")[512:].reshape(256, 3, 256).sum(axis=1)
    np.testing.assert_allclose(summed, narrow_tensor(f"{narrow}.weight"), rtol=1e-6)
    norm = "decoder.layer_norm.weight"
    np.testing.assert_allclose(wide_tensor(norm)[:256] * 3, narrow_tensor(norm), rtol=1e-6)
    assert (
        wide_tensor("encoder.layer_norm.weight")[:256].tolist() == narrow_tensor("encoder.layer_norm.weight").tolist()
    )
    for name in (
        "encoder.layers.4.self_attn.out_proj",
        "decoder.layers.7.encoder_attn.out_proj",
        "decoder.layers.0.fc2",
    ):
        assert not wide_tensor(f"{name}.weight").any()
        assert not wide_tensor(f"{name}.bias").any()
    assert wide_tensor("decoder.layers.4.fc1.weight").any()
    assert wide_tensor("decoder.layers.11.fc2.weight").any(), "the last layer is the source's last: guards watch it"


@pytest.mark.slow
def test_its_attachments_suit_the_wide_model(base: Path) -> None:
    """The hush word is the same sound; the detector says the same of a repeated hidden state."""
    source, wide = NARROW.tensors.files[0].parent, load_checkpoint(base)
    word = HushWord.load(base / "hush-0.5s.npz")
    assert word.content_hash == wide.content_hash
    assert word.samples.tolist() == HushWord.load(source / "hush-0.5s.npz").samples.tolist()
    narrow = TruncationDetector.load(source / KIND.file, NARROW.content_hash, width=256)
    detector = TruncationDetector.load(base / KIND.file, wide.content_hash, width=512)
    hidden = np.random.default_rng(5).standard_normal((40, 256)).astype(np.float32)
    np.testing.assert_allclose(detector.weights(np.tile(hidden, (1, 2))), narrow.weights(hidden), rtol=1e-4)


@pytest.mark.slow
def test_the_causal_adapter_changes_the_wide_model_as_it_does_the_narrow_one(base: Path) -> None:
    narrow, wide = (load_checkpoint(source) for source in ("nano.en", base))
    small, large = (merge_adapter(one, CausalAdapter.of_checkpoint(one)) for one in (narrow, wide))
    added = wide.dims.n_audio_layer - narrow.dims.n_audio_layer
    for projection in ("q_proj", "out_proj"):
        name = f"encoder.layers.{{}}.self_attn.{projection}.weight"
        changed = small.tensors.get(name.format(0)).astype(np.float32)
        expected = np.tile(changed / 2, (2, 2))
        np.testing.assert_allclose(large.tensors.get(name.format(added)), expected, atol=2e-4)
        assert np.abs(changed - narrow.tensors.get(name.format(0))).max() > 0.01
    silent = "encoder.layers.0.self_attn.out_proj.weight"
    assert not large.tensors.get(silent).any()


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["d250", "d750"])
def test_adapters_for_masks_change_the_wide_model_as_they_do_the_narrow_one(base: Path, mask: str) -> None:
    narrow, wide = (load_checkpoint(source) for source in ("nano.en", base))
    small, large = (merge_adapter(one, MaskedAdapter.of_checkpoint(one, Mask.parse(mask))) for one in (narrow, wide))
    name = "encoder.layers.{}.self_attn.v_proj.weight"
    changed = small.tensors.get(name.format(0)).astype(np.float32)
    added = wide.dims.n_audio_layer - narrow.dims.n_audio_layer
    np.testing.assert_allclose(large.tensors.get(name.format(added)), np.tile(changed / 2, (2, 2)), atol=2e-4)
    assert np.abs(changed - narrow.tensors.get(name.format(0))).max() > 1e-3
    assert not large.tensors.get("encoder.layers.0.self_attn.out_proj.weight").any()


def test_precision_follows_the_copies() -> None:
    types = {to: plan_widening(NARROW.dims, to).dtype for to in TARGETS}
    assert types == {"base.en": np.float16, "small.en": np.float32, "medium.en": np.float16}


@pytest.mark.slow
def test_unnamed_alignment_heads_are_not_looked_for_in_added_layers(tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.mkdir()
    for file in NARROW.tensors.files[0].parent.iterdir():
        if file.name != "generation_config.json":
            (silent / file.name).symlink_to(file)
    assert load_checkpoint(silent).generation.alignment_heads == ()
    heads = load_checkpoint(widen(silent, "base.en", tmp_path / "base.en")).generation.alignment_heads
    assert heads == tuple((layer, head) for layer in (4, 5) for head in range(4))


@each_row(
    ("change", "to", "error", "message"),
    [
        ({}, "large", OptionError, "base.en, small.en, medium.en"),
        ({"n_audio_state": 384, "n_text_state": 384}, "base.en", CheckpointError, "divides the 512"),
        ({"n_audio_head": 8, "n_text_head": 8}, "base.en", CheckpointError, "4 heads of 64 channels"),
        ({"n_text_layer": 7}, "base.en", CheckpointError, "at most the 6 layers"),
        ({"n_vocab": 51865}, "base.en", CheckpointError, "multilingual"),
    ],
)
def test_refuses(change: dict[str, int], to: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plan_widening(replace(NARROW.dims, **change), to)


def test_refuses_a_full_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="new or empty folder"):
        widen("nano.en", "base.en", tmp_path)


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever breaks off last: then there is nothing that looks like a model, and nothing in the way."""
    output = tmp_path / "base.en"

    def fail(*_: Any) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("whispertide_lab.training.widen.write_safetensors", lambda *_: None)
        patch.setattr("whispertide_lab.training.widen._write_attachments", fail)
        with pytest.raises(OutputError, match="no room"):
            widen("nano.en", "base.en", output)
    assert list(tmp_path.iterdir()) == []


def test_refuses_an_openai_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.pt"
    monkeypatch.setattr(NARROW.tensors, "files", (file,))
    monkeypatch.setattr("whispertide_lab.training.widen.load_checkpoint", lambda *_, **__: NARROW)
    with pytest.raises(CheckpointError, match=r"OpenAI \.pt"):
        widen(file, "base.en", tmp_path / "out")


def test_writer_refuses_the_wrong_shape(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a of shape"):
        write_safetensors(tmp_path / "x", {"a": (2, 2)}, np.float16, [("a", np.zeros((2, 3), np.float32))])


def test_the_command_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    unknown = CliRunner().invoke(app, ["train", "widen", "nano.en", "--to", "tiny", "--output", str(tmp_path / "x")])
    assert unknown.exit_code == 2


@pytest.mark.slow
def test_the_command_makes_a_folder_that_may_be_called_like_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["train", "widen", "nano.en", "--to", "base.en", "-o", "base"])
    assert (result.exit_code, result.stdout) == (0, "./base\n"), result.output
    made = load_checkpoint("./base")
    assert made.name == "base"
    assert made.dims == Widening(NARROW.dims, plan_widening(NARROW.dims, "base.en").target).target
