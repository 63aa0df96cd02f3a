import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from whispertide.checkpoint import ModelDims, TensorStore
from whispertide.checkpoint.torch_zip import TorchZip
from whispertide.errors import CheckpointError, CheckpointNotFoundError

pytestmark = pytest.mark.slow


@pytest.fixture
def whisper_model(dims: ModelDims) -> Any:
    from whisper import model

    small = replace(dims, n_vocab=128)
    torch.manual_seed(0)
    result = model.Whisper(model.ModelDimensions(**asdict(small)))
    torch.nn.init.normal_(result.decoder.positional_embedding)
    return result


def save(path: Path, model: Any, dtype: Any = None) -> Path:
    state = model.state_dict()
    if dtype is not None:
        state = {name: values.to(dtype) for name, values in state.items()}
    torch.save({"dims": asdict(model.dims), "model_state_dict": state}, path)
    return path


@pytest.mark.parametrize("dtype", [None, "float16", "bfloat16", "float64"])
def test_an_openai_checkpoint(tmp_path: Path, whisper_model: Any, dtype: str | None) -> None:
    target = getattr(torch, dtype) if dtype else None
    store, dims = TensorStore.from_openai(save(tmp_path / "model.pt", whisper_model, target))
    assert asdict(dims) == asdict(whisper_model.dims)
    store.check(dims)
    state = whisper_model.state_dict()
    assert len(store.names()) == len(state)
    same_place = {
        "encoder.embed_positions.weight": "encoder.positional_embedding",
        "encoder.conv2.bias": "encoder.conv2.bias",
        "encoder.layers.0.self_attn.q_proj.weight": "encoder.blocks.0.attn.query.weight",
        "encoder.layers.0.self_attn.k_proj.weight": "encoder.blocks.0.attn.key.weight",
        "encoder.layers.0.final_layer_norm.bias": "encoder.blocks.0.mlp_ln.bias",
        "encoder.layer_norm.weight": "encoder.ln_post.weight",
        "decoder.embed_tokens.weight": "decoder.token_embedding.weight",
        "decoder.embed_positions.weight": "decoder.positional_embedding",
        "decoder.layers.1.self_attn_layer_norm.weight": "decoder.blocks.1.attn_ln.weight",
        "decoder.layers.1.encoder_attn.v_proj.bias": "decoder.blocks.1.cross_attn.value.bias",
        "decoder.layers.1.encoder_attn.out_proj.weight": "decoder.blocks.1.cross_attn.out.weight",
        "decoder.layers.1.encoder_attn_layer_norm.bias": "decoder.blocks.1.cross_attn_ln.bias",
        "decoder.layers.1.fc1.weight": "decoder.blocks.1.mlp.0.weight",
        "decoder.layers.1.fc2.bias": "decoder.blocks.1.mlp.2.bias",
        "decoder.layer_norm.bias": "decoder.ln.bias",
    }
    for ours, theirs in same_place.items():
        expected = state[theirs].to(target) if target else state[theirs]
        got = store.get(ours)
        assert got.dtype == (np.float16 if dtype == "float16" else np.float32)
        np.testing.assert_array_equal(got.astype(np.float32), expected.float().numpy())


def test_the_same_model_as_transformers_has_it(tmp_path: Path, whisper_model: Any) -> None:
    """The mapping of names, checked by what a model of the other library computes with the renamed weights."""
    import transformers

    store, dims = TensorStore.from_openai(save(tmp_path / "model.pt", whisper_model))
    config = transformers.WhisperConfig(
        vocab_size=dims.n_vocab,
        num_mel_bins=dims.n_mels,
        d_model=dims.n_audio_state,
        encoder_layers=dims.n_audio_layer,
        decoder_layers=dims.n_text_layer,
        encoder_attention_heads=dims.n_audio_head,
        decoder_attention_heads=dims.n_text_head,
        encoder_ffn_dim=4 * dims.n_audio_state,
        decoder_ffn_dim=4 * dims.n_text_state,
        max_source_positions=dims.n_audio_ctx,
        max_target_positions=dims.n_text_ctx,
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 1),
    )
    other = transformers.WhisperForConditionalGeneration(config).eval()
    state = {f"model.{name}": torch.from_numpy(store.get(name)) for name in store.names()}
    other.load_state_dict({**state, "proj_out.weight": state["model.decoder.embed_tokens.weight"]})
    mel = torch.randn(1, dims.n_mels, 2 * dims.n_audio_ctx)
    tokens = torch.tensor([[1, 5, 7, 100]])
    with torch.no_grad():
        expected = whisper_model.eval()(mel, tokens)
        got = other(input_features=mel, decoder_input_ids=tokens).logits
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_views_and_shared_storages(tmp_path: Path) -> None:
    base = torch.arange(60, dtype=torch.float32).reshape(6, 10)
    views = {
        "whole": base,
        "transposed": base.t(),
        "row": base[3],
        "column": base[:, 4],
        "steps": base[1::2, 2::3],
        "expanded": base[:1].expand(4, 10),
        "empty": base[:0],
        "scalar": base[2, 2],
        "parameter": torch.nn.Parameter(base.half()),
    }
    torch.save(views, tmp_path / "views.pt")
    file = TorchZip(tmp_path / "views.pt")
    with zipfile.ZipFile(tmp_path / "views.pt") as archive:
        assert sum("/data/" in name for name in archive.namelist()) == 2  # one storage for all of them, and the halves
    for name, expected in views.items():
        got = file.read(file.root[name])
        np.testing.assert_array_equal(got, expected.detach().numpy(), err_msg=name)
        assert got.shape == tuple(expected.shape)
        assert got.flags.c_contiguous


def test_plain_values_survive(tmp_path: Path) -> None:
    content = {"a": [1, 2.5, "x", None, True, (1, 2)], "b": OrderedDict(c=3), "d": {"e": -(10**12)}}
    torch.save(content, tmp_path / "plain.pt")
    assert TorchZip(tmp_path / "plain.pt").root == content


class Evil:
    """Runs a command when it is unpickled the ordinary way."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


def zip_with_pickle(path: Path, pickled: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
    return path


def forbidden() -> list[tuple[str, Any]]:
    import builtins
    import os
    import subprocess

    return [
        ("posix.system|nt.system", Evil(os.system, "touch {marker}")),
        ("builtins.eval", Evil(builtins.eval, "open('{marker}', 'w')")),
        ("builtins.getattr", Evil(builtins.getattr, "x", "upper")),
        ("subprocess.Popen", Evil(subprocess.Popen, ["touch", "{marker}"])),
        ("torch.serialization.load", Evil(torch.load, "{marker}")),
        ("torch.hub.load", Evil(torch.hub.load, "{marker}")),
        ("numpy", np.float64(3)),
        ("whisper.model.ModelDimensions", None),
    ]


@pytest.mark.parametrize("case", range(8))
def test_forbidden_globals_are_refused_by_name_and_not_run(tmp_path: Path, case: int) -> None:
    name, evil = forbidden()[case]
    marker = tmp_path / "executed"
    if evil is None:
        from whisper import model

        evil = model.ModelDimensions(**dict.fromkeys(ModelDims.__slots__, 1))
    elif isinstance(evil, Evil):
        function, args = evil.call
        evil = Evil(function, *(str(arg).format(marker=marker) if isinstance(arg, str) else arg for arg in args))
    path = zip_with_pickle(tmp_path / "evil.pt", pickle.dumps({"dims": {}, "model_state_dict": evil}, protocol=4))
    with pytest.raises(CheckpointError, match=rf"refers to ({name}).*it was not run"):
        TensorStore.from_openai(path)
    assert not marker.exists()


def test_allowed_globals_cannot_be_turned_into_calls(tmp_path: Path) -> None:
    """`__setstate__` and attributes of the few things that a pickle may name do nothing."""
    from whispertide.checkpoint import torch_zip

    build_mapping = b"\x80\x02ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsK\x01sb."
    assert TorchZip(zip_with_pickle(tmp_path / "a.pt", build_mapping)).root == {}
    build_function = b"\x80\x02ctorch._utils\n_rebuild_parameter\n}X\x04\x00\x00\x00evilK\x01sb."
    TorchZip(zip_with_pickle(tmp_path / "b.pt", build_function))
    assert not any(hasattr(value, "evil") for value in vars(torch_zip).values())
    storage_as_call = b"\x80\x02ctorch\nFloatStorage\nK\x05\x85R."
    with pytest.raises(CheckpointError, match="damaged"):
        TorchZip(zip_with_pickle(tmp_path / "c.pt", storage_as_call))


def tensor_pickle(storage: tuple[Any, ...], *view: Any) -> bytes:
    """A pickle of one tensor, as torch would write it, with any numbers."""

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return obj.pid if isinstance(obj, Storage) else None

    class Storage:
        pid = storage

    out = io.BytesIO()
    Pickler(out, 2).dump({"t": Evil(torch._utils._rebuild_tensor_v2, Storage(), *view, False, OrderedDict())})
    return out.getvalue()


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ((0, (4,), (1,)), None),
        ((0, (5,), (1,)), "more than 4 numbers"),
        ((1, (4,), (1,)), "beyond its storage"),
        ((0, (2, 2), (3, 1)), "beyond its storage"),
        ((-1, (4,), (1,)), "not counts"),
        ((3, (4,), (-1,)), "strides"),
        ((0, (4,), (1, 1)), "strides"),
        ((0, (2.0,), (1,)), "shape"),
    ],
)
def test_views_beyond_their_storage(tmp_path: Path, view: tuple[Any, ...], message: str | None) -> None:
    path = tmp_path / "t.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", tensor_pickle(("storage", torch.FloatStorage, "0", "cpu", 4), *view))
        archive.writestr("x/data/0", np.arange(4, dtype="<f4").tobytes())
    if message is None:
        file = TorchZip(path)
        np.testing.assert_array_equal(file.read(file.root["t"]), [0, 1, 2, 3])
    else:
        with pytest.raises(CheckpointError, match=message):
            TorchZip(path)


def test_a_block_that_is_missing_or_short(tmp_path: Path) -> None:
    pickled = tensor_pickle(("storage", torch.FloatStorage, "0", "cpu", 4), 0, (4,), (1,))
    path = zip_with_pickle(tmp_path / "t.pt", pickled)
    with pytest.raises(CheckpointError, match="expected 16 bytes in its block data/0, found no such block"):
        TorchZip(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("archive/data/0", bytes(12))
    with pytest.raises(CheckpointError, match="expected 16 bytes in its block data/0, found 12"):
        TorchZip(path)


def test_big_endian_storages(tmp_path: Path) -> None:
    path = tmp_path / "t.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", tensor_pickle(("storage", torch.FloatStorage, "0", "cpu", 3), 0, (3,), (1,)))
        archive.writestr("x/byteorder", "big")
        archive.writestr("x/data/0", np.array([1, 2, 3], dtype=">f4").tobytes())
    file = TorchZip(path)
    values = file.read(file.root["t"])
    np.testing.assert_array_equal(values, [1, 2, 3])
    assert values.dtype.isnative


def test_integers_are_no_weights(tmp_path: Path) -> None:
    torch.save({"a": torch.arange(3)}, tmp_path / "ints.pt")
    file = TorchZip(tmp_path / "ints.pt")
    with pytest.raises(CheckpointError, match="floating-point numbers; got a LongStorage"):
        file.read(file.root["a"])


def test_the_format_before_torch_1_6(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match=r"before 1\.6.*torch\.save\(torch\.load\('OLD.pt', weights_only=True\)"):
        TorchZip(tmp_path / "old.pt")


def test_damage(tmp_path: Path, whisper_model: Any) -> None:
    path = save(tmp_path / "model.pt", whisper_model)
    content = path.read_bytes()
    for length in (len(content) - 1, len(content) // 2, 100):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="damaged or truncated"):
            TorchZip(path)
    path.write_bytes(b"")
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        TorchZip(path)
    path.write_bytes(b"GGML" + content)
    with pytest.raises(CheckpointError, match=r"is not a checkpoint.*b'GGML'"):
        TorchZip(path)
    with pytest.raises(CheckpointNotFoundError, match="no such file"):
        TorchZip(tmp_path / "nothing.pt")


def test_a_flipped_bit_in_the_weights_is_noticed(tmp_path: Path, whisper_model: Any) -> None:
    path = save(tmp_path / "model.pt", whisper_model)
    content = bytearray(path.read_bytes())
    embedding = whisper_model.state_dict()["decoder.token_embedding.weight"].numpy().tobytes()
    content[content.index(embedding) + 17] ^= 4
    path.write_bytes(content)
    store, dims = TensorStore.from_openai(path)
    store.check(dims)
    with pytest.raises(CheckpointError, match=r"damaged.*CRC"):
        store.get("decoder.embed_tokens.weight")


def test_a_damaged_pickle(tmp_path: Path) -> None:
    for pickled in (b"", b"\x80\x02}", b"\x80\x02X\xff\xff\xff\x7f", b"garbage", b"\x80\x02K\x01Q."):
        with pytest.raises(CheckpointError, match="damaged"):
            TorchZip(zip_with_pickle(tmp_path / "t.pt", pickled))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"state_dict": {}}, r"found \['state_dict'\].*name their folder"),
        ([1], "found list"),
        ({"dims": 3, "model_state_dict": {}}, "to be dictionaries"),
        ({"dims": {}, "model_state_dict": {}}, "missing"),
    ],
)
def test_something_else_in_a_pt(tmp_path: Path, content: Any, message: str) -> None:
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match=message):
        TensorStore.from_openai(tmp_path / "other.pt")


def test_a_zip_that_is_no_checkpoint(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(CheckpointError, match=r"not written by torch\.save"):
        TorchZip(tmp_path / "x.pt")
