"""Files of whisper.cpp: what is in them, and that it is the same Whisper."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from converted_files import TINY, complaints, random_tensors, write_ggml
from slow_rows import slow_but
from whispertide.checkpoint import TensorStore, load_checkpoint
from whispertide.checkpoint.ggml_blocks import FORMATS, weights_of
from whispertide.checkpoint.ggml_file import GgmlFile
from whispertide.errors import CheckpointError, CheckpointNotFoundError
from whispertide_lab.evaluation.peers import convert_ggml

WriteModel = Callable[..., Path]


def opened(path: Path) -> TensorStore:
    file = GgmlFile(path)
    tensors = TensorStore.from_ggml(file)
    tensors.check(file.dims)
    return tensors


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_the_very_tensors(dtype: str, tmp_path: Path) -> None:
    tensors = random_tensors(dtype=dtype)
    path = write_ggml(tmp_path / "ggml-tiny.bin", tensors)
    file = GgmlFile(path)
    assert (file.dims, file.tokens) == (TINY, (b"a", b"b", b"ab"))
    store = opened(path)
    assert store.names() == tensors.keys()
    for name, expected in tensors.items():
        found = store.get(name)
        assert found.dtype == np.dtype(dtype), name
        np.testing.assert_array_equal(found, expected, err_msg=name)


def in_blocks(kind: int, tensors: Mapping[str, np.ndarray]) -> dict[str, tuple[int, bytes]]:
    """Random blocks in place of the matrices that whisper.cpp quantises."""
    rng, form = np.random.default_rng(kind), FORMATS[kind]
    stored = {}
    for name, values in tensors.items():
        if values.ndim == 2 and "embed_positions" not in name:
            blocks = rng.integers(0, 256, (values.size // 32, form.block_bytes), np.uint8)
            blocks[:, :2] = np.frombuffer(np.float16(0.125).tobytes(), np.uint8)
            blocks[:, 2:4] = np.frombuffer(np.float16(-0.5).tobytes(), np.uint8)  # an offset, or weights like others
            stored[name] = (kind, blocks.tobytes())
    return stored


@pytest.mark.parametrize("kind", FORMATS)
def test_quantised_matrices(kind: int, tmp_path: Path) -> None:
    tensors = random_tensors()
    stored = in_blocks(kind, tensors)
    assert len(stored) > 10
    store = opened(write_ggml(tmp_path / "ggml-tiny-q.bin", tensors, stored=stored))
    for name, expected in tensors.items():
        if name in stored:
            blocks = np.frombuffer(stored[name][1], np.uint8)
            expected = weights_of(blocks, FORMATS[kind]).reshape(expected.shape)
        np.testing.assert_array_equal(store.get(name), expected, err_msg=name)


def test_opening_reads_no_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_ggml(tmp_path / "ggml-tiny.bin", random_tensors())
    monkeypatch.setattr(np, "fromfile", None)
    assert opened(path).shape("decoder.layers.0.fc2.weight") == (32, 128)


@pytest.mark.parametrize("name", slow_but(["ggml-mini.en.bin", "model.bin"], "ggml-mini.en.bin"))
def test_a_file_is_a_checkpoint(name: str, write_model: WriteModel, tmp_path: Path) -> None:
    """Nothing lies next to it: the tokens are the file's own."""
    source = load_checkpoint(write_model())
    folder = tmp_path / "whisper.cpp"
    convert_ggml.convert(str(source.tensors.source), folder)
    path = (folder / "model.bin").rename(folder / name)
    model = load_checkpoint(path)
    assert model.dims == source.dims
    assert (model.name, model.place) == (("ggml-mini.en", path) if name != "model.bin" else ("whisper.cpp", path))
    assert load_checkpoint(model.argument).content_hash == model.content_hash
    for text in (" Hello there, (world)", "L'été à Paris... 12,345", "  spaces", " ♪ 日本語"):
        assert model.tokenizer.encode(text) == source.tokenizer.encode(text)
        assert model.tokenizer.decode(model.tokenizer.encode(text)) == text
    assert model.tokenizer.non_speech_tokens == source.tokenizer.non_speech_tokens
    assert model.tokenizer.sot_sequence("en", timestamps=False) == source.tokenizer.sot_sequence("en", timestamps=False)
    for tensor in source.tensors.names():
        np.testing.assert_allclose(model.tensors.get(tensor), source.tensors.get(tensor), rtol=1e-3, atol=1e-4)


def test_what_is_no_such_file_is_called_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ggml-x.bin"
    for content, message in (
        (b"GGUF" + bytes(100), "found a GGUF file, as llama.cpp reads it"),
        (b"\x06\0\0\0\x0c\0WhisperSpec\0", "found a model.bin of CTranslate2"),
        (b"PK\x03\x04", "found a zip file"),
        (b"Hello", "found bytes b'Hell'"),
        (b"lm", "ends early"),
    ):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=message):
            GgmlFile(path)
        with pytest.raises(CheckpointError, match=message.removeprefix("found ") if content != b"lm" else "lm"):
            load_checkpoint(path)
    with pytest.raises(CheckpointNotFoundError, match="no such file"):
        GgmlFile(tmp_path / "ggml-y.bin")


@pytest.mark.parametrize("at", [4 + 8, 4 + 36])  # the width of the audio encoder, the mel bands
def test_other_models_in_ggml_are_called_that(at: int, tmp_path: Path) -> None:
    """A voice detector of ggml was said to lack "n_mels" alone."""
    path = write_ggml(tmp_path / "ggml-silero.bin", random_tensors())
    content = path.read_bytes()
    path.write_bytes(content[:at] + struct.pack("<i", 8_454_144) + content[at + 4 :])
    with pytest.raises(CheckpointError, match=r"ggml-silero.bin is a ggml file, but of another model than Whisper"):
        GgmlFile(path)


def test_other_filters_are_another_model(tmp_path: Path) -> None:
    filters = np.zeros((4, 201), np.float32)
    path = write_ggml(tmp_path / "ggml-tiny.bin", random_tensors(), filters=filters)
    with pytest.raises(CheckpointError, match="other mel filters"):
        GgmlFile(path)


def test_types_that_are_not_read_are_named(tmp_path: Path) -> None:
    tensors = random_tensors()
    path = write_ggml(tmp_path / "ggml-tiny.bin", tensors, stored={"decoder.embed_tokens.weight": (12, b"")})
    with pytest.raises(CheckpointError, match=r"ggml's type 12; expected f32, f16, q4_0, q4_1, q5_0, q5_1, q8_0"):
        GgmlFile(path)


@pytest.mark.slow
def test_too_few_tokens(write_model: WriteModel, tmp_path: Path) -> None:
    dims = replace(TINY, n_vocab=51_864)
    path = write_ggml(tmp_path / "ggml-tiny.bin", random_tensors(dims, "f2"), dims)
    with pytest.raises(CheckpointError, match=r"expected 50256 tokens in .*; it has 3"):
        load_checkpoint(path)


def test_lies_about_sizes(tmp_path: Path) -> None:
    path = write_ggml(tmp_path / "ggml-tiny.bin", random_tensors())
    content = path.read_bytes()
    tokens = 4 + 44 + 8 + 4 * 4 * 201
    for at, number in ((tokens, 2**31 - 1), (tokens, -1), (tokens + 4, 2**31 - 1), (4 + 4, 10**9), (4 + 44, 10**9)):
        path.write_bytes(content[:at] + struct.pack("<i", number) + content[at + 4 :])
        with pytest.raises(CheckpointError) as raised:
            GgmlFile(path)
        assert len(str(raised.value)) < 300 + len(str(path))


@pytest.mark.parametrize("kind", slow_but([1, 6, 8], 1))
def test_damage_is_one_clear_error(kind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either the damage lies in the numbers, which nobody can see, or it is told briefly; nothing else is raised."""
    monkeypatch.chdir(tmp_path)
    tensors = random_tensors(dtype="f2")
    path = write_ggml(Path("ggml-tiny.bin"), tensors, stored={} if kind == 1 else in_blocks(kind, tensors))

    def use() -> None:
        store = opened(path)
        for name in store.names():
            store.get(name)

    said = complaints(path, 200, use)
    assert len(said) > 80
    assert max(map(len, said)) <= 300
