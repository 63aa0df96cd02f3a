"""`model.bin` of CTranslate2: what is in it, and that it is the same Whisper."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converted_files import TINY, as_stored, complaints, fused, random_tensors, write_ct2, write_ggml
from slow_rows import slow_but
from whispertide.checkpoint import GenerationConfig, ModelDims, TensorStore, load_checkpoint
from whispertide.checkpoint.layout import EMBEDDING
from whispertide.checkpoint.safetensors_file import to_float
from whispertide.errors import CheckpointError, CheckpointNotFoundError

WriteModel = Callable[..., Path]


def opened(folder: Path) -> TensorStore:
    tensors, dims = TensorStore.from_ctranslate2(folder)
    tensors.check(dims)
    return tensors


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_the_very_tensors(dtype: str, tmp_path: Path) -> None:
    tensors = random_tensors(dtype=dtype)
    write_ct2(tmp_path / "model.bin", fused(tensors))
    store, dims = TensorStore.from_ctranslate2(tmp_path)
    assert dims == TINY
    store.check(dims)
    assert store.names() == tensors.keys()
    for name, expected in tensors.items():
        found = store.get(name)
        assert found.dtype == np.dtype(dtype), name
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_opening_reads_no_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ct2(tmp_path / "model.bin", fused(random_tensors()))
    monkeypatch.setattr(np, "fromfile", None)
    assert opened(tmp_path).shape("encoder.layers.0.self_attn.q_proj.weight") == (32, 32)


def test_bfloat16(tmp_path: Path) -> None:
    tensors = random_tensors()
    write_ct2(
        tmp_path / "model.bin", {k: as_stored(v) if v.ndim else v for k, v in fused(tensors).items()}, bfloat16=True
    )
    store = opened(tmp_path)
    for name, expected in tensors.items():
        np.testing.assert_array_equal(store.get(name), to_float(as_stored(expected), is_bfloat16=True))


def quantised(variables: dict[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    found = dict(variables)
    for name, values in variables.items():
        if name.endswith("/weight") and kind == "int8":
            rows = values.reshape(len(values), -1)
            scale = (127 / np.abs(rows).max(axis=1)).astype(np.float32)
            found[name] = np.rint(rows * scale[:, None]).astype(np.int8).reshape(values.shape)
            found[f"{name}_scale"] = scale
        elif name.endswith("/weight"):
            scale = np.float32(2**10 / np.abs(values).max())
            found[name], found[f"{name}_scale"] = np.rint(values * scale).astype(np.int16), np.array(scale)
    return found


@pytest.mark.parametrize(("kind", "steps"), [("int8", 127), ("int16", 1024)])
def test_quantised_weights_with_their_scales(kind: str, steps: int, tmp_path: Path) -> None:
    tensors = random_tensors()
    write_ct2(tmp_path / "model.bin", quantised(fused(tensors), kind))
    store = opened(tmp_path)
    for name, expected in tensors.items():
        found = store.get(name)
        assert found.dtype == np.float32
        # Half a step of the row's, or the tensor's, largest number; those that were joined share one in 16 bits.
        error = np.abs(found - expected).max()
        assert (error > 0) == (expected.ndim > 1 and "embed_positions" not in name), name
        assert error <= 0.51 * 6 / steps, name


@pytest.mark.slow
@pytest.mark.parametrize("quantization", [None, "int8_float16", "int16"])
def test_what_ctranslate2_itself_writes(quantization: str | None, write_model: WriteModel, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    from whispertide_lab.evaluation.peers.convert_ct2 import specification

    source = write_model()
    model = load_checkpoint(source)
    spec = specification(model, source)
    spec.optimize(quantization=quantization)
    folder = tmp_path / "converted"
    folder.mkdir()
    spec.save(str(folder))
    converted = load_checkpoint(folder)  # with vocabulary.json alone
    assert (converted.dims, converted.tokenizer.eot) == (model.dims, model.tokenizer.eot)
    assert converted.tokenizer.encode(" Hello there, (world)") == model.tokenizer.encode(" Hello there, (world)")
    tolerance = 0.0 if quantization is None else 0.03
    for name in model.tensors.names():
        np.testing.assert_allclose(
            converted.tensors.get(name), model.tensors.get(name), rtol=tolerance, atol=tolerance, err_msg=name
        )


@pytest.fixture
def folder(write_model: WriteModel, tmp_path: Path) -> Path:
    """A folder as faster-whisper has it."""
    source = load_checkpoint(write_model())
    made = tmp_path / "faster-whisper-mini.en"
    write_ct2(made / "model.bin", fused({name: source.tensors.get(name) for name in source.tensors.names()}))
    config = {"alignment_heads": [[1, 0]], "lang_ids": [], "suppress_ids": [1, 2], "suppress_ids_begin": [220, 50256]}
    (made / "config.json").write_text(json.dumps(config))
    shutil.copy(source.tokenizer.folder / "tokenizer.json", made)
    return made


def test_a_folder_is_a_checkpoint(folder: Path, dims: ModelDims) -> None:
    model = load_checkpoint(folder)
    assert (model.name, model.dims, model.place) == ("faster-whisper-mini.en", dims, folder)
    assert model.generation == GenerationConfig(((1, 0),), (1, 2), (220, 50256))
    same = load_checkpoint(folder / "model.bin")
    assert (same.name, same.content_hash, same.argument) == (model.name, model.content_hash, model.argument)


def test_weights_of_the_original_come_first(folder: Path, write_model: WriteModel) -> None:
    write_model(folder)
    assert [path.name for path in load_checkpoint(folder).tensors.files] == ["model.safetensors"]


def test_a_vocabulary_in_place_of_a_tokenizer(folder: Path) -> None:
    texts = load_checkpoint(folder).tokenizer
    known = texts._vocabulary.texts | texts._vocabulary.special_texts
    listed = [known[token] for token in range(texts.timestamp_begin)]
    listed += [f"<|{step * 0.02:.2f}|>" for step in range(1_501)]
    (folder / "tokenizer.json").unlink()
    for name, content in (("vocabulary.txt", "\n".join(listed) + "\n"), ("vocabulary.json", json.dumps(listed))):
        (folder / name).write_text(content, encoding="utf-8", newline="\n")
        model = load_checkpoint(folder)
        assert model.tokenizer.encode(" It isn't the end.") == texts.encode(" It isn't the end.")
        assert (model.tokenizer.sot, model.tokenizer.no_timestamps) == (texts.sot, texts.no_timestamps)


def test_the_number_of_heads_may_be_left_out(tmp_path: Path) -> None:
    wide = replace(TINY, n_audio_state=128, n_text_state=128)
    variables = fused(random_tensors(wide))
    write_ct2(tmp_path / "model.bin", {k: v for k, v in variables.items() if not k.endswith("num_heads")})
    assert TensorStore.from_ctranslate2(tmp_path)[1] == wide


def test_aliases_and_the_projection(tmp_path: Path) -> None:
    variables = fused(random_tensors())
    other = {**variables, "decoder/projection/weight": variables["decoder/embeddings/weight"] + 1}
    write_ct2(tmp_path / "model.bin", other, {})
    with pytest.raises(CheckpointError, match="expected them tied"):
        opened(tmp_path)
    moved = {("decoder/projection/weight" if k == "decoder/embeddings/weight" else k): v for k, v in variables.items()}
    write_ct2(tmp_path / "model.bin", moved, {"decoder/embeddings/weight": "decoder/projection/weight"})
    np.testing.assert_array_equal(opened(tmp_path).get(EMBEDDING), variables["decoder/embeddings/weight"])


def without(name: str) -> dict[str, np.ndarray]:
    variables = fused(random_tensors())
    del variables[name]
    return variables


FOREIGN: dict[str, tuple[dict[str, Any], str]] = {
    "another model": ({"name": "TransformerSpec", "revision": 7}, "got a TransformerSpec"),
    "an old revision": ({"revision": 2}, "got revision 2 of it"),
    "an old format": ({"version": 5}, "found version 5: convert it again"),
    "gguf": ({"version": int.from_bytes(b"GGUF", "little")}, "found a GGUF file"),
    "an alias of nothing": ({"aliases": {"a": "b"}}, "a stands for b, which is not there"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_no_such_whisper_is_called_what_it_is(case: str, tmp_path: Path) -> None:
    changes, message = FOREIGN[case]
    write_ct2(tmp_path / "model.bin", fused(random_tensors()), **changes)
    with pytest.raises(CheckpointError, match=message):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("encoder/conv1/weight", "no encoder/conv1/weight of 3 dimensions"),
        ("decoder/embeddings/weight", "decoder/embeddings/weight"),
        ("decoder/layer_0/attention/linear_1/bias", r"lacks 1 of the \d+ tensors"),
        ("encoder/layer_0/ffn/linear_0/weight", "n_audio_layer to be a positive integer; got 0"),
    ],
)
def test_a_variable_is_missing(name: str, message: str, tmp_path: Path) -> None:
    write_ct2(tmp_path / "model.bin", without(name), {})
    with pytest.raises(CheckpointError, match=message):
        opened(tmp_path)


def test_scales_that_are_missing_or_senseless(tmp_path: Path) -> None:
    variables = quantised(fused(random_tensors()), "int8")
    name = "encoder/layer_0/ffn/linear_0/weight"
    write_ct2(tmp_path / "model.bin", {k: v for k, v in variables.items() if k != f"{name}_scale"})
    with pytest.raises(CheckpointError, match=f"{name} has no scale"):
        opened(tmp_path)
    write_ct2(tmp_path / "model.bin", {**variables, f"{name}_scale": np.zeros(128, np.float32)})
    with pytest.raises(CheckpointError, match=f"scales above zero of {name}"):
        opened(tmp_path).get("encoder.layers.0.fc1.weight")


def test_packed_weights_are_refused(tmp_path: Path) -> None:
    variables = fused(random_tensors())
    name = "encoder/layer_0/ffn/linear_0/weight"
    write_ct2(tmp_path / "model.bin", {**variables, name: variables[name].astype(np.int32)})
    with pytest.raises(CheckpointError, match="is packed"):
        opened(tmp_path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"model\.bin"):
        opened(tmp_path)


def test_a_ggml_file_of_that_name(write_model: WriteModel, tmp_path: Path) -> None:
    """whisper.cpp's own scripts call theirs so as well."""
    write_ggml(tmp_path / "model.bin", random_tensors())
    with pytest.raises(CheckpointError, match="found a ggml file"):
        opened(tmp_path)
    with pytest.raises(CheckpointError, match="as OpenAI's models have; got 40"):
        load_checkpoint(tmp_path)  # which opens it as what it is


@pytest.mark.parametrize("kind", slow_but(["float16", "int8"], "float16"))
def test_damage_is_one_clear_error(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either the damage lies in the numbers, which nobody can see, or it is told briefly; nothing else is raised."""
    monkeypatch.chdir(tmp_path)
    variables = fused(random_tensors(dtype="f2" if kind == "float16" else "f4"))
    path = write_ct2(Path("model.bin"), quantised(variables, "int8") if kind == "int8" else variables)

    def use() -> None:
        store = opened(Path())
        for name in store.names():
            store.get(name)

    said = complaints(path, 200, use)
    assert len(said) > 80
    assert max(map(len, said)) <= 300
