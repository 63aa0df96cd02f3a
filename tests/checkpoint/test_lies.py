"""Files that lie: one short error, for every format that is loaded, and nothing is computed that they ask for."""

import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from converted_files import complaints, random_tensors
from each_row import each_row
from slow_rows import slow_but
from whispertide.checkpoint import Tokenizer, load_checkpoint
from whispertide.checkpoint.safetensors_file import SafetensorsFile
from whispertide.checkpoint.torch_zip import Storage, TorchTensor, TorchZip
from whispertide.errors import CheckpointError

WriteModel = Callable[..., Path]
DIGITS = 4_000


def safetensors(path: Path, header: dict[str, Any]) -> Path:
    content = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content)) + content)
    return path


ABSURD: dict[str, Any] = {
    "a shape of 200,000 numbers": {"dtype": "F32", "shape": [2] * 200_000, "data_offsets": [0, 4]},
    "lengths of 4,000 digits": {"dtype": "F32", "shape": [10**DIGITS] * 300, "data_offsets": [0, 4]},
    "a place of 4,000 digits": {"dtype": "F32", "shape": [1], "data_offsets": [0, 10**DIGITS]},
    "a type of a million letters": {"dtype": "F" * 10**6, "shape": [1], "data_offsets": [0, 4]},
    "a shape of texts": {"dtype": "F32", "shape": ["1" * 10**6], "data_offsets": [0, 4]},
    "half a number": {"dtype": "F32", "shape": [0.5], "data_offsets": [0, 2]},
    "a place of one number": {"dtype": "F32", "shape": [1], "data_offsets": [0]},
    "a list for a type": {"dtype": ["F32"] * 10**5, "shape": [1], "data_offsets": [0, 4]},
    "no entry": [1] * 10**5,
}


@pytest.mark.parametrize("case", ABSURD)
@pytest.mark.parametrize("name", ["x", "x" * 10**5], ids=["short", "long"])
def test_safetensors(case: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError) as raised:
        SafetensorsFile(safetensors(Path("model.safetensors"), {name: ABSURD[case]}))
    assert len(str(raised.value)) <= 300


@each_row(
    ("shape", "strides", "offset"),
    [
        ((2,) * 100_000, (1,) * 100_000, 0),
        ((10**DIGITS,) * 8, (1,) * 8, 0),
        ((1,), (10**DIGITS,), 0),
        ((1,), (1,), 10**DIGITS),
        ((True,), (1,), 0),
        ((2, 2), (0, 0), 0),
        ((-1,), (1,), 0),
    ],
)
def test_tensors_of_torch(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
    with pytest.raises(ValueError, match="tensor") as raised:
        TorchTensor(Storage("FloatStorage", "0", 1), offset, shape, strides)
    assert len(str(raised.value)) < 150


def test_an_empty_tensor_of_torch() -> None:
    assert TorchTensor(Storage("FloatStorage", "0", 0), 0, (0, 5), (5, 1)).extent == 0


def test_a_pickle_with_long_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for pickled in (
        b"\x80\x02c" + b"m" * 10**6 + b"\nname\n.",
        pickle.dumps({"x" * 10**6: 1}, 2),
        pickle.dumps({"dims": {"x" * 10**6: 1}, "model_state_dict": {}}, 2),
        pickle.dumps({"dims": dict.fromkeys(map(str, range(10**4)), 1), "model_state_dict": {}}, 2),
    ):
        with zipfile.ZipFile("x.pt", "w") as archive:
            archive.writestr("x/data.pkl", pickled)
        with pytest.raises(CheckpointError) as raised:
            load_checkpoint(Path("x.pt"))
        assert len(str(raised.value)) <= 300


ODD_IDS: dict[str, Any] = {
    "a text": "50361",
    "a list": [1],
    "nothing": None,
    "true": True,
    "half": 0.5,
    "below zero": -1,
    "of 4,000 digits": 10**DIGITS,
}


@pytest.mark.parametrize("case", slow_but(ODD_IDS, "a text", "of 4,000 digits"))
def test_odd_ids_of_special_tokens(case: str, write_model: WriteModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_model()
    monkeypatch.chdir(folder.parent)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    for item in tokenizer["added_tokens"]:
        item["id"] = ODD_IDS[case] if item["content"] == "<|notimestamps|>" else item["id"]
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(CheckpointError, match="the tokenizer in") as raised:
        load_checkpoint(Path(folder.name))
    assert len(str(raised.value)) <= 300


@pytest.mark.slow
def test_a_text_that_stands_for_no_bytes(write_model: WriteModel) -> None:
    folder = write_model()
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    text = next(text for text, token in vocabulary.items() if token == 50_000)
    vocabulary["\u20ac\u65e5"] = vocabulary.pop(text)
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in tokenizer["model"]["merges"]]
    tokenizer["model"]["merges"] = [pair for pair in pairs if "".join(pair) != text and text not in pair]
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(CheckpointError, match=r"token id 50000 .* which are not bytes"):
        Tokenizer.from_folder(folder, 51_864).token_bytes(50_000)


@pytest.mark.parametrize("key", ["d_model", "vocab_size", "model_type", "encoder_layers", "activation_function"])
@pytest.mark.parametrize("value", ["x" * 10**6, [1] * 10**5, 10**DIGITS, {"a": 1}], ids=range(4))
def test_a_configuration(key: str, value: object, write_model: WriteModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_model()
    monkeypatch.chdir(folder.parent)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(CheckpointError) as raised:
        load_checkpoint(Path(folder.name))
    assert len(str(raised.value)) <= 300


def test_damaged_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("model.safetensors")
    save_file({name: values[:1] for name, values in random_tensors().items()}, path)

    def use() -> None:
        file = SafetensorsFile(path)
        for name in file.tensors:
            file.read(name)

    said = complaints(path, 200, use)
    assert len(said) > 50
    assert max(map(len, said)) <= 300


def test_damaged_files_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("x.pt")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps({"dims": {"n_mels": 80}, "model_state_dict": {}}, 2))
        archive.writestr("x/data/0", np.zeros(8, "<f4").tobytes())
    said = complaints(path, 200, lambda: TorchZip(path))
    assert len(said) > 50
    assert max(map(len, said)) <= 300
