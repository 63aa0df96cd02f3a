import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from whispertide.checkpoint import ModelDims, TensorStore
from whispertide.checkpoint.layout import expected_shapes
from whispertide.errors import CheckpointError, CheckpointNotFoundError

WriteModel = Callable[..., Path]


def rewrite(folder: Path, change: Callable[[dict[str, np.ndarray]], None]) -> Path:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    return folder


def shard(folder: Path) -> list[str]:
    """Split the weights of a folder into two files with an index."""
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    places = {name: files[i % 2] for i, name in enumerate(names)}
    for file in files:
        save_file({name: tensors[name] for name in names if places[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "model.safetensors").unlink()
    return files


def test_values_and_canonical_names(write_model: WriteModel, dims: ModelDims) -> None:
    folder = write_model()
    stored = load_file(folder / "model.safetensors")
    store = TensorStore.from_folder(folder)
    store.check(dims)
    assert store.names() == {name.removeprefix("model.") for name in stored}
    for name, values in stored.items():
        got = store.get(name.removeprefix("model."))
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, values)
        assert store.shape(name.removeprefix("model.")) == values.shape


def test_shards(write_model: WriteModel, dims: ModelDims) -> None:
    folder = write_model()
    whole = TensorStore.from_folder(folder)
    values = {name: whole.get(name) for name in whole.names()}
    files = shard(folder)
    store = TensorStore.from_folder(folder)
    store.check(dims)
    assert [path.name for path in store.files] == files
    for name, expected in values.items():
        np.testing.assert_array_equal(store.get(name), expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_types(write_model: WriteModel, dtype: str) -> None:
    import torch
    from safetensors.torch import save_file as save_torch

    values = torch.randn(3, 5, dtype=torch.float64).to(getattr(torch, dtype))
    folder = write_model()
    save_torch({"model.a": values, "model.scalar": values[0, 0].clone()}, folder / "model.safetensors")
    store = TensorStore.from_folder(folder)
    expected = values.float().numpy() if dtype != "float16" else values.numpy()
    assert store.get("a").dtype == (np.float16 if dtype == "float16" else np.float32)
    np.testing.assert_array_equal(store.get("a"), expected)
    np.testing.assert_array_equal(store.get("scalar"), expected[0, 0])


def small_transformers_model(**changes: Any) -> Any:
    import transformers

    config = {
        **{"vocab_size": 64, "num_mel_bins": 80, "d_model": 16, "encoder_layers": 2, "decoder_layers": 3},
        **{"encoder_attention_heads": 2, "decoder_attention_heads": 4, "max_source_positions": 20},
        **{"encoder_ffn_dim": 64, "decoder_ffn_dim": 48, "max_target_positions": 12},
        **{"pad_token_id": 1, "bos_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 2},
    }
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**{**config, **changes}))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("max_shard_size", ["1GB", "20KB"])
@pytest.mark.slow
def test_what_transformers_saves(tmp_path: Path, dtype: str, max_shard_size: str) -> None:
    import torch

    model = small_transformers_model().to(getattr(torch, dtype))
    model.save_pretrained(tmp_path, max_shard_size=max_shard_size)
    store = TensorStore.from_folder(tmp_path)
    assert (len(store.files) > 1) == (max_shard_size == "20KB")
    dims = ModelDims.from_hf_config(json.loads((tmp_path / "config.json").read_text()))
    store.check(dims)  # the decoder's feed-forward width is not 4x
    assert dims.n_text_layer == 3
    state = {name.removeprefix("model."): values for name, values in model.state_dict().items()}
    assert store.names() == set(state) - {"proj_out.weight"}
    for name in store.names():
        np.testing.assert_array_equal(store.get(name).astype(np.float32), state[name].float().numpy())


@pytest.mark.slow
@pytest.mark.parametrize("files", [1, 2])
def test_weights_from_before_safetensors(tmp_path: Path, files: int) -> None:
    import torch

    model = small_transformers_model()
    state = model.state_dict()  # with the output projection, which shares the storage of the embedding
    names = sorted(state)
    places = {name: f"pytorch_model-{1 + i * files // len(names):05}.bin" for i, name in enumerate(names)}
    for file in set(places.values()):
        torch.save({name: state[name] for name in names if places[name] == file}, tmp_path / file)
    if files == 1:
        (tmp_path / "pytorch_model-00001.bin").rename(tmp_path / "pytorch_model.bin")
    else:
        (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    store = TensorStore.from_folder(tmp_path)
    assert len(store.files) == files
    store.check(ModelDims.from_hf_config(model.config.to_dict()))
    for name in store.names():
        np.testing.assert_array_equal(store.get(name), state[f"model.{name}"].numpy())


def test_safetensors_come_before_a_pickle(write_model: WriteModel) -> None:
    folder = write_model()
    (folder / "pytorch_model.bin").write_bytes(b"not even read")
    assert [path.name for path in TensorStore.from_folder(folder).files] == ["model.safetensors"]


@pytest.mark.slow
def test_a_pickle_that_holds_something_else(tmp_path: Path) -> None:
    import torch

    torch.save([1, 2], tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="to hold tensors by name; found list"):
        TensorStore.from_folder(tmp_path)


def test_a_tied_output_projection_is_dropped(write_model: WriteModel, dims: ModelDims) -> None:
    def tie(tensors: dict[str, np.ndarray]) -> None:
        tensors["proj_out.weight"] = tensors["model.decoder.embed_tokens.weight"].copy()

    store = TensorStore.from_folder(rewrite(write_model(), tie))
    store.check(dims)
    assert "proj_out.weight" not in store.names()


def test_an_output_projection_that_stands_for_the_embedding(write_model: WriteModel, dims: ModelDims) -> None:
    folder = write_model()
    embedding = TensorStore.from_folder(folder).get("decoder.embed_tokens.weight")

    def rename(tensors: dict[str, np.ndarray]) -> None:
        tensors["proj_out.weight"] = tensors.pop("model.decoder.embed_tokens.weight")

    store = TensorStore.from_folder(rewrite(folder, rename))
    store.check(dims)
    np.testing.assert_array_equal(store.get("decoder.embed_tokens.weight"), embedding)


def test_an_output_projection_of_its_own(write_model: WriteModel) -> None:
    def untie(tensors: dict[str, np.ndarray]) -> None:
        tensors["proj_out.weight"] = tensors["model.decoder.embed_tokens.weight"] + 1

    with pytest.raises(CheckpointError, match="differs from the token embedding"):
        TensorStore.from_folder(rewrite(write_model(), untie))


def test_missing_tensors_are_named(write_model: WriteModel, dims: ModelDims) -> None:
    def drop(tensors: dict[str, np.ndarray]) -> None:
        del tensors["model.encoder.conv1.bias"]
        del tensors["model.decoder.layers.1.fc1.weight"]

    store = TensorStore.from_folder(rewrite(write_model(), drop))
    with pytest.raises(CheckpointError, match=r"lacks 2 of the \d+ tensors.*encoder.conv1.bias, decoder.layers.1.fc1"):
        store.check(dims)


def test_wrong_shapes_are_named(write_model: WriteModel, dims: ModelDims) -> None:
    store = TensorStore.from_folder(write_model(n_mels=128))
    with pytest.raises(
        CheckpointError, match=r"1 tensors.*encoder.conv1.weight: expected \(8, 80, 3\), found \(8, 128, 3\)"
    ):
        store.check(dims)


def test_layers_too_many_are_named(write_model: WriteModel, dims: ModelDims) -> None:
    store = TensorStore.from_folder(write_model(n_text_layer=3))
    with pytest.raises(CheckpointError, match=r"has 24 tensors that .* first decoder.layers.2."):
        store.check(dims)


def test_heads_that_a_training_added_are_kept(write_model: WriteModel, dims: ModelDims) -> None:
    def add(tensors: dict[str, np.ndarray]) -> None:
        tensors["ctc_head.weight"] = np.ones((3, 8), np.float32)

    store = TensorStore.from_folder(rewrite(write_model(), add))
    store.check(dims)
    np.testing.assert_array_equal(store.get("ctc_head.weight"), np.ones((3, 8)))


def test_an_unknown_name(write_model: WriteModel) -> None:
    store = TensorStore.from_folder(write_model())
    with pytest.raises(CheckpointError, match="no tensor 'nothing'"):
        store.get("nothing")


@pytest.mark.slow
def test_expected_shapes_are_those_of_transformers() -> None:
    model = small_transformers_model(decoder_ffn_dim=64)
    dims = ModelDims.from_hf_config(model.config.to_dict())
    expected = {name.removeprefix("model."): tuple(values.shape) for name, values in model.state_dict().items()}
    del expected["proj_out.weight"]
    assert expected_shapes(dims) == expected


# Damaged files. Each message says what is wrong with which file.


def test_no_weights(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"expected model.safetensors .*download"):
        TensorStore.from_folder(tmp_path)


def test_truncated_weights(write_model: WriteModel) -> None:
    path = write_model() / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(CheckpointError, match=f"truncated: expected {len(content)} bytes, found {len(content) - 1}"):
        TensorStore.from_folder(path.parent)
    path.write_bytes(content[:500])
    with pytest.raises(CheckpointError, match=r"truncated: expected .* found 500"):
        TensorStore.from_folder(path.parent)


def test_weights_that_shrink_while_in_use(write_model: WriteModel) -> None:
    path = write_model() / "model.safetensors"
    store = TensorStore.from_folder(path.parent)
    path.write_bytes(path.read_bytes()[:10_000])
    with pytest.raises(CheckpointError, match="became shorter"):
        store.get(max(store.names(), key=lambda name: store.shape(name)[0]))  # the embedding, which is the largest
    path.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        store.get("encoder.conv1.bias")


def with_header(header: object) -> bytes:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(content)) + content + bytes(64)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "only 0 bytes"),
        (b"\x05\x00", "only 2 bytes"),
        (b"<!DOCTYPE html><html>", "expected a safetensors file at .* found bytes b'<!DO'"),
        (b"version https://git-lfs.github.com/spec/v1\n", "found a pointer of git LFS"),
        (with_header(b"\xff\xfe{}"), "damaged header"),
        (with_header(b"not json"), "damaged header"),
        (with_header([1, 2]), "damaged header"),
        (with_header({"a": {"dtype": "F32", "shape": [2]}}), "damaged header.*data_offsets"),
        (with_header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}), "occupies 4 bytes"),
        (with_header({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}), "damaged header"),
        (with_header({"a": {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 4]}}), "damaged header"),
        (with_header({"a": {"dtype": "F32", "shape": [100], "data_offsets": [0, 400]}}), "truncated"),
        (with_header({"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]}}), "has the type I8.*Quantised"),
    ],
)
def test_garbage(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        TensorStore.from_folder(tmp_path)


def test_a_missing_shard(write_model: WriteModel) -> None:
    folder = write_model()
    files = shard(folder)
    (folder / files[1]).unlink()
    with pytest.raises(CheckpointNotFoundError, match=f"1 of 2 parts .* missing, first {files[1]}"):
        TensorStore.from_folder(folder)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{", "not valid JSON"),
        ("{}", "no usable weight_map"),
        ('{"weight_map": {}}', "no usable weight_map"),
        ('{"weight_map": {"a": "../elsewhere.safetensors"}}', "no usable weight_map"),
        ('{"weight_map": {"a": 3}}', "no usable weight_map"),
    ],
)
def test_a_damaged_index(tmp_path: Path, index: str, message: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(CheckpointError, match=message):
        TensorStore.from_folder(tmp_path)
