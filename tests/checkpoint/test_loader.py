import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whispertide.checkpoint import GenerationConfig, ModelDims, load_checkpoint
from whispertide.checkpoint.download import hub_cache
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.errors import CheckpointError, CheckpointNotFoundError, OptionError

WriteModel = Callable[..., Path]
NANO = BUNDLED_DIR / "nano.en"


def test_the_bundled_model() -> None:
    model = load_checkpoint("nano.en")
    assert model.name == "nano.en"
    assert (model.dims.n_audio_state, model.dims.n_vocab) == (256, 51_864)
    assert not model.dims.is_multilingual
    assert model.generation.alignment_heads
    assert model.generation.begin_suppress_tokens == (220, model.tokenizer.eot)
    assert model.tokenizer.decode(model.tokenizer.encode(" Hello world")) == " Hello world"
    assert model.tensors.get("decoder.embed_tokens.weight").shape == (51_864, 256)
    for name in model.tensors.names():
        assert np.isfinite(model.tensors.get(name)).all(), name


def test_opening_a_model_reads_no_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "fromfile", None)
    assert load_checkpoint("nano.en").dims.n_vocab == 51_864


def test_a_folder(write_model: WriteModel, dims: ModelDims) -> None:
    folder = write_model()
    model = load_checkpoint(folder)
    assert (model.name, model.dims, model.generation) == (folder.name, dims, GenerationConfig())
    assert load_checkpoint(str(folder)).content_hash == model.content_hash
    same = load_checkpoint(folder / "model.safetensors")
    assert (same.name, same.content_hash) == (model.name, model.content_hash)


def test_the_users_own_files_have_a_place_and_a_named_model_has_none(
    write_model: WriteModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the command line is given is the same model again, also where the folder is called like another."""
    named = load_checkpoint("nano.en")
    assert (named.place, named.argument) == (None, "nano.en")
    (tmp_path / "base.en").symlink_to(write_model())
    monkeypatch.chdir(tmp_path)
    own = load_checkpoint("./base.en")
    assert (own.place, own.argument) == (Path("base.en"), "./base.en")
    assert load_checkpoint(own.argument).content_hash == own.content_hash


def test_what_the_maker_warns_of(write_model: WriteModel) -> None:
    assert "does not understand people" in load_checkpoint("nano.en").caution
    folder = write_model()
    assert not load_checkpoint(folder).caution
    for text, caution in (('{"caution": "Only for cats."}', "Only for cats."), ("[]", ""), ("{", "")):
        (folder / "training.json").write_text(text)
        assert load_checkpoint(folder).caution == caution


def test_the_generation_config_is_read(write_model: WriteModel) -> None:
    folder = write_model()
    (folder / "generation_config.json").write_text('{"alignment_heads": [[1, 0]], "suppress_tokens": [3]}')
    generation = load_checkpoint(folder).generation
    assert (generation.alignment_heads, generation.suppress_tokens) == (((1, 0),), (3,))


def test_the_content_hash_is_of_the_content(write_model: WriteModel, tmp_path: Path) -> None:
    folder = write_model()
    model = load_checkpoint(folder)
    shutil.copytree(folder, tmp_path / "copy")
    assert load_checkpoint(tmp_path / "copy").content_hash == model.content_hash
    weights = tmp_path / "copy" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1  # one bit of one weight
    weights.write_bytes(content)
    assert load_checkpoint(tmp_path / "copy").content_hash != model.content_hash


def test_the_content_hash_is_of_the_dimensions_too(write_model: WriteModel) -> None:
    """The number of heads shows in no tensor."""
    folder = write_model()
    before = load_checkpoint(folder).content_hash
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "decoder_attention_heads": 4}))
    assert load_checkpoint(folder).content_hash != before


def test_no_config(write_model: WriteModel, tmp_path: Path) -> None:
    folder = write_model()
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointNotFoundError, match=r"expected config.json in"):
        load_checkpoint(folder)
    with pytest.raises(CheckpointNotFoundError, match=r"expected config.json in"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"config.json is not valid JSON.*download"),
        ("", r"config.json is not valid JSON"),
        ("[1]", "expected a JSON object"),
        ('{"model_type": "bert"}', "model_type 'whisper'.*got 'bert'"),
        ('{"model_type": "whisper"}', "config.json lacks"),
    ],
)
def test_a_damaged_config(write_model: WriteModel, content: str, message: str) -> None:
    folder = write_model()
    (folder / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(folder)


def test_a_config_of_another_model(write_model: WriteModel) -> None:
    folder = write_model()
    shutil.copy(NANO / "config.json", folder)
    with pytest.raises(CheckpointError, match="lacks"):
        load_checkpoint(folder)


def test_a_tokenizer_of_another_model(write_model: WriteModel, multilingual_folder: Path) -> None:
    folder = write_model()
    shutil.copy(multilingual_folder / "tokenizer.json", folder)
    with pytest.raises(CheckpointError, match=r"tokenizer for 51864 tokens.*is for 51865"):
        load_checkpoint(folder)


def test_an_english_tokenizer_next_to_a_fine_tuned_multilingual_model(write_model: WriteModel) -> None:
    """Or an English model with more tokens, which would count as multilingual."""
    with pytest.raises(CheckpointError, match=r"tokenizer for 51900 tokens.*is for 51864"):
        load_checkpoint(write_model(n_vocab=51_900))


def test_a_tokenizer_that_the_config_contradicts(write_model: WriteModel) -> None:
    """Of the same size: only the start token tells."""
    folder = write_model()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "decoder_start_token_id": 50_258}))
    with pytest.raises(CheckpointError, match=r"with token 50258, as its config.json says; it has 50257"):
        load_checkpoint(folder)


def test_an_english_model_without_a_tokenizer_takes_the_bundled_one(write_model: WriteModel) -> None:
    folder = write_model()
    (folder / "tokenizer.json").unlink()
    assert load_checkpoint(folder).tokenizer.encode(" hello") == load_checkpoint("nano.en").tokenizer.encode(" hello")


def test_a_multilingual_model_without_a_tokenizer(write_model: WriteModel, multilingual_folder: Path) -> None:
    folder = write_model(n_vocab=51_865)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointNotFoundError, match=r"put the tokenizer.json of openai/whisper-tiny next to"):
        load_checkpoint(folder)
    cached = hub_cache() / "models--openai--whisper-small"  # any model with this vocabulary will do
    shutil.copytree(multilingual_folder, cached / "snapshots" / "abc")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    model = load_checkpoint(folder)
    assert model.dims.is_multilingual
    assert model.tokenizer.language_tokens["de"] == 50261


def test_a_vocabulary_that_nobody_knows(write_model: WriteModel) -> None:
    folder = write_model(n_vocab=100)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointNotFoundError, match=r"none is known for 100 tokens"):
        load_checkpoint(folder)


def test_a_revision_of_a_folder(write_model: WriteModel) -> None:
    with pytest.raises(OptionError, match="models of the hub only"):
        load_checkpoint(write_model(), revision="main")


def openai_checkpoint(path: Path, dims: ModelDims) -> Path:
    import torch
    from whisper import model

    whisper = model.Whisper(model.ModelDimensions(**asdict(dims)))
    torch.nn.init.normal_(whisper.decoder.positional_embedding)
    torch.save({"dims": asdict(dims), "model_state_dict": whisper.half().state_dict()}, path)
    return path


@pytest.mark.slow
def test_an_english_pt(tmp_path: Path, dims: ModelDims) -> None:
    model = load_checkpoint(openai_checkpoint(tmp_path / "mine.en.pt", dims))
    assert (model.name, model.dims) == ("mine.en", dims)
    assert model.generation == GenerationConfig()
    assert model.tokenizer.sot == 50_257
    assert model.tensors.get("encoder.conv1.weight").dtype == np.float16
    assert len(model.content_hash) == 64


@pytest.mark.slow
@pytest.mark.parametrize(("n_vocab", "n_mels"), [(51_865, 80), (51_866, 128)])
def test_a_multilingual_pt_with_its_tokenizer_next_to_it(
    tmp_path: Path, dims: ModelDims, n_vocab: int, n_mels: int, request: pytest.FixtureRequest
) -> None:
    path = openai_checkpoint(tmp_path / "mine.pt", replace(dims, n_vocab=n_vocab, n_mels=n_mels))
    with pytest.raises(CheckpointNotFoundError, match=r"openai/whisper-(tiny|large-v3) next to the weights"):
        load_checkpoint(path)
    folder = request.getfixturevalue("multilingual_folder" if n_vocab == 51_865 else "v3_folder")
    shutil.copy(folder / "tokenizer.json", tmp_path)
    model = load_checkpoint(path)
    assert len(model.tokenizer.language_tokens) == (99 if n_vocab == 51_865 else 100)
    assert model.tensors.shape("encoder.conv1.weight") == (8, n_mels, 3)


@pytest.mark.slow
def test_a_pt_that_does_not_hold_what_its_dims_say(tmp_path: Path, dims: ModelDims) -> None:
    import torch

    path = openai_checkpoint(tmp_path / "mine.pt", dims)
    content: Any = torch.load(path)
    content["dims"]["n_text_layer"] = 3
    torch.save(content, path)
    with pytest.raises(CheckpointError, match=r"mine.pt lacks 24 of the .* first decoder.layers.2"):
        load_checkpoint(path)
