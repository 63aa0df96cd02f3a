import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.palette import Palettised
from whispertide.checkpoint.palette_file import Stored
from whispertide.checkpoint.weights import WEIGHTS, TensorStore
from whispertide.errors import CheckpointError
from whispertide_lab.compression.packing import gaps_of, pack
from whispertide_lab.compression.palette_writer import write_palette_file

WriteModel = Callable[..., Path]
RNG = np.random.default_rng(0)
BIT = RNG.integers(0, 2, (6, 5))
HALF = np.array([[0.5, -0.25, 1.0]], np.float16)


def tensors() -> dict[str, Stored]:
    palettised = Palettised(
        shape=(6, 5),
        bits=1,
        rows=4,
        palettes=np.array([[-1, 1], [-2, 2]], np.float16),
        indices=pack(BIT.reshape(-1), 1),
        outliers=np.array([7], np.float16),
        gaps=gaps_of(np.array([12])),
    )
    return {"a": palettised, "b": HALF, "c": np.array([1.5, 2.5], np.float32)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_palette_file(tmp_path / WEIGHTS, tensors(), "of something")
    return tmp_path


def read_all(folder: Path) -> dict[str, Any]:
    store = TensorStore.from_folder(folder)
    return {name: store.get(name) for name in store.names()}


def test_tensors_come_back(folder: Path) -> None:
    store = TensorStore.from_folder(folder)
    assert {name: store.shape(name) for name in store.names()} == {"a": (6, 5), "b": (1, 3), "c": (2,)}
    expected = np.where(BIT > 0, 1.0, -1.0) * np.array([1, 1, 1, 1, 2, 2])[:, None]
    expected[2, 2] = 7
    np.testing.assert_array_equal(store.get("a"), expected)
    np.testing.assert_array_equal(store.get("b"), HALF)
    assert store.get("c").dtype == np.float32


def header_of(folder: Path) -> tuple[dict[str, Any], bytes]:
    content = (folder / WEIGHTS).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def with_header(folder: Path, header: dict[str, Any], body: bytes) -> None:
    text = json.dumps(header).encode()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + body)


def rewritten(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """With another index, whose digest is right."""
    import hashlib

    header, body = header_of(folder)
    index = json.loads(header["__metadata__"]["index"])
    change(index)
    text = json.dumps(index)
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    header["__metadata__"] |= {"index": text, "digest": digest}
    with_header(folder, header, body)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index["tensors"].pop("a"), "has 4 others"),
        (lambda index: index["tensors"].update(d={"shape": [1], "digest": ""}), "lacks 1 parts"),
        (lambda index: index["tensors"]["a"].update(bits=2), "palettes of shape"),
        (lambda index: index["tensors"]["a"].update(bits=5), "5 bits"),
        (lambda index: index["tensors"]["a"].update(rows=2), "palettes of shape"),
        (lambda index: index["tensors"]["a"].update(shape=[6, 500]), "bytes of indices"),
        (lambda index: index["tensors"]["a"].update(shape=[6, -5]), "its index cannot be used"),
        (lambda index: index["tensors"]["a"].update(shape="65"), "its index cannot be used"),
        (lambda index: index["tensors"]["b"].update(shape=[3]), "has not the shape"),
        (lambda index: index.pop("tensors"), "its index cannot be used"),
        (lambda index: index.pop("original"), "its index cannot be used"),
        (lambda index: index.update(tensors=[]), "its index cannot be used"),
    ],
)
def test_an_index_that_lies(folder: Path, change: Callable[[Any], None], message: str) -> None:
    rewritten(folder, change)
    with pytest.raises(CheckpointError, match=message):
        read_all(folder)


def test_an_index_that_was_changed(folder: Path) -> None:
    header, body = header_of(folder)
    header["__metadata__"]["index"] = header["__metadata__"]["index"].replace('"bits":1', '"bits":2')
    with_header(folder, header, body)
    with pytest.raises(CheckpointError, match="not the one that was written"):
        read_all(folder)


def test_a_later_version(folder: Path) -> None:
    header, body = header_of(folder)
    header["__metadata__"]["version"] = "2"
    with_header(folder, header, body)
    with pytest.raises(CheckpointError, match="later whispertide"):
        read_all(folder)


def test_bytes_of_an_unknown_format(folder: Path) -> None:
    header, body = header_of(folder)
    header["__metadata__"]["format"] = "pt"
    with_header(folder, header, body)
    with pytest.raises(CheckpointError, match="Quantised ones"):
        read_all(folder)


def test_places_of_tensors_that_are_exchanged(folder: Path) -> None:
    """The same sizes and types: only the digests tell."""
    header, body = header_of(folder)
    one, other = header["a.outliers"], header["b"]
    other["data_offsets"], other["shape"] = one["data_offsets"], [1, 1]
    header.pop("__metadata__")
    assert one["data_offsets"] == other["data_offsets"]
    header["__metadata__"] = header_of(folder)[0]["__metadata__"]
    with_header(folder, header, body)
    with pytest.raises(CheckpointError, match="the bytes of b"):
        read_all(folder)


def test_damage_of_every_kind_is_refused(folder: Path) -> None:
    """Flipped bits, bytes cut off, cut out and put in: an error of the right type, or the very same tensors."""
    path, whole = folder / WEIGHTS, (folder / WEIGHTS).read_bytes()
    right, rng = read_all(folder), np.random.default_rng(1)
    refused = 0
    for attempt in range(400):
        damaged = bytearray(whole)
        place = int(rng.integers(len(whole)))
        match attempt % 4:
            case 0 | 1:
                damaged[place] ^= 1 << int(rng.integers(8))
            case 2:
                del damaged[place:]
            case _:
                damaged[place : place + int(rng.integers(2))] = bytes([int(rng.integers(256))])
        path.write_bytes(damaged)
        try:
            found = read_all(folder)
        except CheckpointError:
            refused += 1
            continue
        assert found.keys() == right.keys(), f"attempt {attempt}"
        for name, values in right.items():
            np.testing.assert_array_equal(found[name], values, err_msg=f"attempt {attempt}")
    assert refused > 350


def test_a_checkpoint_without_a_layer(write_model: WriteModel) -> None:
    original = write_model()
    store = TensorStore.from_folder(original)
    stored: dict[str, Stored] = {name: store.get(name) for name in store.names()}
    del stored["encoder.layers.0.fc1.weight"]
    shutil.move(original / WEIGHTS, original / "before")
    write_palette_file(original / WEIGHTS, stored, "")
    with pytest.raises(CheckpointError, match=r"lacks 1 .* encoder.layers.0.fc1.weight"):
        load_checkpoint(original)
