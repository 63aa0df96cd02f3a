"""Checkpoints in the formats of the peers: against the peers' own converters where they are here, else by hand."""

import struct
from pathlib import Path

import numpy as np
import pytest

from reference import NANO, ct2_folder
from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.layout import expected_shapes, from_openai_name
from whispertide_lab.evaluation.peers import convert_ct2, convert_ggml, convert_openai
from whispertide_lab.evaluation.peers.livekit import alignment_mask
from whispertide_lab.evaluation.peers.names import to_openai_name

CHECKPOINT = load_checkpoint(NANO)


def test_every_name_has_its_openai_name() -> None:
    for name in expected_shapes(CHECKPOINT.dims):
        assert from_openai_name(to_openai_name(name)) == name
        assert to_openai_name(name) != name or name.startswith("encoder.conv")


@pytest.mark.slow
def test_ct2_equals_its_own_converter(tmp_path: Path) -> None:
    ct2_folder(NANO, tmp_path / "theirs")
    convert_ct2.convert(str(NANO), tmp_path / "ours")
    for name in ("model.bin", "config.json", "vocabulary.json"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes(), name


@pytest.mark.slow
def test_openai_file_is_read_back(tmp_path: Path) -> None:
    convert_openai.convert(str(NANO), tmp_path)
    (tmp_path / "tokenizer.json").symlink_to(NANO / "tokenizer.json")
    found = load_checkpoint(tmp_path / "model.pt")
    assert found.dims == CHECKPOINT.dims
    name = "decoder.layers.3.encoder_attn.out_proj.weight"
    np.testing.assert_array_equal(found.tensors.get(name), CHECKPOINT.tensors.get(name))


@pytest.mark.slow
def test_ggml_by_hand(tmp_path: Path) -> None:
    """Read as whisper.cpp reads it (src/whisper.cpp, whisper_model_load)."""
    convert_ggml.convert(str(NANO), tmp_path)
    data = (tmp_path / "model.bin").read_bytes()
    assert struct.unpack_from("<12i", data) == (0x67676D6C, 51864, 1500, 256, 4, 4, 448, 256, 4, 4, 80, 1)
    place = 48
    assert struct.unpack_from("<2i", data, place) == (80, 201)
    place += 8 + 80 * 201 * 4
    (count,) = struct.unpack_from("<i", data, place)
    assert count == 50256
    place += 4
    texts = []
    for _ in range(count):
        (length,) = struct.unpack_from("<i", data, place)
        texts.append(data[place + 4 : place + 4 + length])
        place += 4 + length
    assert b"".join(texts[token] for token in CHECKPOINT.tokenizer.encode(" the naïve")) == " the naïve".encode()
    tensors = {}
    while place < len(data):
        rank, length, kind = struct.unpack_from("<3i", data, place)
        place += 12
        shape = struct.unpack_from(f"<{rank}i", data, place)[::-1]
        place += 4 * rank
        name = data[place : place + length].decode()
        place += length
        dtype = np.dtype("<f2" if kind else "<f4")
        values = np.frombuffer(data, dtype, int(np.prod(shape)), place).reshape(shape)
        place += values.nbytes
        tensors[name] = values
    assert set(tensors) == {to_openai_name(name) for name in expected_shapes(CHECKPOINT.dims)}
    assert tensors["encoder.conv1.bias"].shape == (256, 1)
    assert tensors["encoder.positional_embedding"].dtype == np.float32
    assert tensors["encoder.conv2.weight"].dtype == np.float16
    expected = CHECKPOINT.tensors.get("decoder.layers.2.fc1.weight")
    np.testing.assert_array_equal(tensors["decoder.blocks.2.mlp.0.weight"], expected)


def test_alignment_heads_as_a_mask() -> None:
    import base64
    import gzip

    mask = np.frombuffer(gzip.decompress(base64.b85decode(alignment_mask(str(NANO)))), bool).reshape(4, 4)
    assert tuple(zip(*np.nonzero(mask), strict=True)) == CHECKPOINT.generation.alignment_heads
