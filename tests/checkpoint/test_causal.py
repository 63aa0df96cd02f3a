"""Causal adapters: on disk, merged, refused; and the checkpoints of the paper's authors."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whispertide.checkpoint import Checkpoint, TensorStore, load_checkpoint
from whispertide.checkpoint.attachments import Attachment, load, save
from whispertide.checkpoint.causal import KIND, CausalAdapter
from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.layout import expected_shapes
from whispertide.checkpoint.low_rank import PROJECTIONS, AdaptedCheckpoint, adapted_names, merge_adapter
from whispertide.errors import CheckpointError, CheckpointNotFoundError

RANK = 2


@pytest.fixture
def checkpoint(write_model: Any) -> Checkpoint:
    """One encoder layer and two decoder layers of width 8, random."""
    return load_checkpoint(write_model())


def random_adapter(checkpoint: Checkpoint, rank: int = RANK) -> CausalAdapter:
    rng = np.random.default_rng(1)
    width = checkpoint.dims.n_text_state
    matrices = {
        name: (
            rng.standard_normal((rank, width)).astype(np.float16).astype(np.float32),
            rng.standard_normal((width, rank)).astype(np.float16).astype(np.float32),
        )
        for name in adapted_names(checkpoint.dims)
    }
    return CausalAdapter(rank, matrices, checkpoint.content_hash, {"arwer": 0.1}, block=5, first=30)


def test_every_projection_of_every_attention_is_adapted(checkpoint: Checkpoint) -> None:
    shapes = expected_shapes(checkpoint.dims)
    expected = {name for name in shapes if "attn." in name and name.endswith("weight")}
    assert set(adapted_names(checkpoint.dims)) == expected
    assert len(expected) == (1 + 2 * 2) * len(PROJECTIONS)


def test_what_was_saved_comes_back(checkpoint: Checkpoint) -> None:
    adapter = random_adapter(checkpoint)
    adapter.save(checkpoint.folder / KIND.file)
    found = CausalAdapter.of_checkpoint(checkpoint)
    assert (found.rank, found.block, found.first) == (RANK, 5, 30)
    assert (found.content_hash, found.report) == (checkpoint.content_hash, {"arwer": 0.1})
    assert found.matrices.keys() == adapter.matrices.keys()
    for name, pair in adapter.matrices.items():
        for ours, theirs in zip(found.matrices[name], pair, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_merged_weights_and_their_own_hash(checkpoint: Checkpoint) -> None:
    adapter = random_adapter(checkpoint)
    whole = merge_adapter(checkpoint, adapter)
    assert isinstance(whole, AdaptedCheckpoint)
    for name in checkpoint.tensors.names():
        before, after = checkpoint.tensors.get(name), whole.tensors.get(name)
        assert whole.tensors.shape(name) == after.shape
        if name in adapter.matrices:
            a, b = adapter.matrices[name]
            np.testing.assert_allclose(after, before + b @ a, rtol=1e-6)
        else:
            np.testing.assert_array_equal(after, before)
    whole.tensors.check(checkpoint.dims)
    hashes = {checkpoint.content_hash, whole.content_hash}
    halved = replace(adapter, matrices={name: (a * np.float32(0.5), b) for name, (a, b) in adapter.matrices.items()})
    hashes.add(merge_adapter(checkpoint, halved).content_hash)
    assert len(hashes) == 3
    assert merge_adapter(checkpoint, random_adapter(checkpoint)).content_hash == whole.content_hash
    assert (whole.name, whole.folder, whole.adapter) == (checkpoint.name, checkpoint.folder, adapter)


def test_there_is_none(checkpoint: Checkpoint) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"causal\.npz: make it with `whispertide train causal .*model0`"):
        CausalAdapter.of_checkpoint(checkpoint)


def test_half_a_file_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "causal.npz"
    random_adapter(checkpoint).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(
        CheckpointError, match=r"damaged or something else .*: make it again with `whispertide train causal"
    ):
        CausalAdapter.load(path, checkpoint)


def test_another_checkpoints_is_refused(checkpoint: Checkpoint, write_model: Any, tmp_path: Path) -> None:
    path = tmp_path / "causal.npz"
    replace(random_adapter(checkpoint), content_hash="1" * 64).save(path)
    with pytest.raises(
        CheckpointError, match=r"was trained on another checkpoint .111111111111.: make one .*train causal"
    ):
        CausalAdapter.load(path, checkpoint)
    random_adapter(load_checkpoint(write_model(n_text_layer=3))).save(path)
    with pytest.raises(
        CheckpointError, match=r"decoder_self_A \[3, 4, 2, 8\].*another model; make one with `whispertide"
    ):
        CausalAdapter.load(path, checkpoint)


def rewritten(checkpoint: Checkpoint, path: Path, **changes: Any) -> None:
    """An adapter whose file has other arrays."""
    random_adapter(checkpoint).save(path)
    with np.load(path) as content:
        arrays = {name: content[name] for name in content.files if name not in ("format", "content_hash", "report")}
    save(path, Attachment({**arrays, **changes}, checkpoint.content_hash))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_self_A": np.zeros((1, 4, 3, 8), np.float16)}, "matrices of one rank, .*got 2, 3: make it again"),
        ({"block": np.int64(-1)}, "blocks of 2 to 50 frames in .*, or of 0 .any., .* got -1 and 30: make it again"),
        ({"block": np.int64(1)}, "got 1 and 30"),
        ({"block": np.int64(51), "first": np.int64(60)}, "got 51 and 60"),
        ({"block": np.int64(40)}, "got 40 and 30: make it again with `whispertide train causal"),
        ({"first": np.int64(101)}, "100 at most; got 5 and 101"),
        ({"first": np.int64(0), "block": np.int64(0)}, "got 0 and 0"),
        ({"decoder_self_B": np.full((2, 4, 8, 2), np.inf, np.float16)}, "finite numbers"),
    ],
)
def test_numbers_that_make_no_sense(changes: Any, message: str, checkpoint: Checkpoint, tmp_path: Path) -> None:
    rewritten(checkpoint, tmp_path / "causal.npz", **changes)
    with pytest.raises(CheckpointError, match=message):
        CausalAdapter.load(tmp_path / "causal.npz", checkpoint)


def test_the_arrays_are_few_and_small(checkpoint: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "causal.npz"
    random_adapter(checkpoint).save(path)
    stack = (4, RANK, 8)
    shapes = {"block": (), "first": (), "encoder_self_A": (1, *stack), "decoder_self_A": (2, *stack)}
    shapes |= {"decoder_cross_A": (2, *stack), "encoder_self_B": (1, 4, 8, RANK)}
    shapes |= {"decoder_self_B": (2, 4, 8, RANK), "decoder_cross_B": (2, 4, 8, RANK)}
    found = load(KIND, path, shapes)
    assert {values.dtype.name for name, values in found.arrays.items() if name[-2:] in ("_A", "_B")} == {"float16"}


def test_the_bundled_model_has_one() -> None:
    bundled = load_checkpoint("nano.en")
    adapter = CausalAdapter.of_checkpoint(bundled)
    assert (adapter.rank, adapter.block, adapter.first) == (32, 0, 30)
    assert set(adapter.matrices) == set(adapted_names(bundled.dims))
    assert adapter.report["arwer"] < adapter.report["arwer_without"]
    assert (bundled.folder / KIND.file).stat().st_size < 2_000_000


# --- as the authors publish them --------------------------------------------------------------------------------------


def published(path: Path, dims: ModelDims, *, outer: str = "", **changes: Any) -> dict[str, Any]:
    """A file with random weights in the layout of the published checkpoints; returns its state.

    `changes` are other tensors and settings.
    """
    import torch
    from whisper import model as whisper

    torch.manual_seed(0)
    plain = whisper.Whisper(whisper.ModelDimensions(**asdict(dims))).state_dict()
    state: dict[str, Any] = {}
    for name, tensor in plain.items():
        stem, _, kind = name.rpartition(".")
        if "attn." not in name:
            state[outer + name] = torch.randn_like(tensor)
            continue
        state[f"{outer}{stem}.base_layer.{kind}"] = torch.randn_like(tensor)
        if kind == "weight":
            state[f"{outer}{stem}.lora_layer.lora_A"] = torch.nn.Parameter(torch.randn(tensor.shape[1], RANK))
            state[f"{outer}{stem}.lora_layer.lora_B"] = torch.randn(RANK, tensor.shape[0])
    state |= {name: changes.pop(name) for name in [*changes] if name in state}
    settings = {"gran": 15, "extra_gran_blocks": 1, "rank": RANK, "learning_rate": 1e-5, "name": "x"} | changes
    torch.save({"epoch": 3, "dims": asdict(dims), "cfg": settings, "state_dict": state}, path)
    return state


@pytest.mark.slow
@pytest.mark.parametrize("outer", ["", "model."])
def test_a_published_checkpoint_is_a_whisper_and_an_adapter(outer: str, dims: ModelDims, tmp_path: Path) -> None:
    """Merged it computes x @ W.T + x @ A @ B, as their layers do."""
    state = published(tmp_path / "base_300.pt", dims, outer=outer)
    checkpoint = load_checkpoint(tmp_path / "base_300.pt")
    assert checkpoint.dims == dims
    adapter = CausalAdapter.of_checkpoint(checkpoint)
    assert (adapter.rank, adapter.block, adapter.first) == (RANK, 15, 30)
    assert set(adapter.matrices) == set(adapted_names(dims))
    whole = merge_adapter(checkpoint, adapter)
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    places = {
        "encoder.layers.0.self_attn.q_proj": "encoder.blocks.0.attn.query",
        "encoder.layers.0.self_attn.out_proj": "encoder.blocks.0.attn.out",
        "decoder.layers.1.self_attn.k_proj": "decoder.blocks.1.attn.key",
        "decoder.layers.1.encoder_attn.v_proj": "decoder.blocks.1.cross_attn.value",
    }
    for ours, theirs in places.items():
        weight, a, b = (
            state[f"{outer}{theirs}.{part}"].detach().numpy()
            for part in ("base_layer.weight", "lora_layer.lora_A", "lora_layer.lora_B")
        )
        np.testing.assert_allclose(x @ whole.tensors.get(f"{ours}.weight").T, x @ weight.T + x @ a @ b, atol=1e-5)
        np.testing.assert_array_equal(checkpoint.tensors.get(f"{ours}.weight"), weight)
    embedding = state[f"{outer}decoder.token_embedding.weight"].numpy()
    np.testing.assert_array_equal(whole.tensors.get("decoder.embed_tokens.weight"), embedding)
    assert whole.content_hash != checkpoint.content_hash


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"rank": 3}, "adapters of rank 3"),
        ({"gran": 0}, "blocks of 0"),
        ({"gran": "x"}, "lacks a part"),
        ({"gran": 1, "extra_gran_blocks": 29}, "got 1 and 30: choose another checkpoint"),
        ({"gran": 51}, "got 51 and 102: choose another checkpoint"),
        ({"extra_gran_blocks": 6}, "got 15 and 105: choose another checkpoint"),
    ],
)
def test_published_settings_that_make_no_sense(config: Any, message: str, dims: ModelDims, tmp_path: Path) -> None:
    published(tmp_path / "base.pt", dims, **config)
    with pytest.raises(CheckpointError, match=message):
        CausalAdapter.of_checkpoint(load_checkpoint(tmp_path / "base.pt"))


QUERY = "encoder.blocks.0.attn.query.lora_layer.lora_"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("B", r"lacks a part .*query.*: download it again"),
        ("AB", r"1 are missing or others .*layers\.0\.self_attn\.q_pr"),
    ],
)
def test_a_published_one_that_lacks_an_adapter(lost: str, message: str, dims: ModelDims, tmp_path: Path) -> None:
    """Half of it, or all; merged without it the checkpoint would be another."""
    import torch

    published(tmp_path / "base.pt", dims)
    content = torch.load(tmp_path / "base.pt", weights_only=True)
    for half in lost:
        del content["state_dict"][QUERY + half]
    torch.save(content, tmp_path / "base.pt")
    with pytest.raises(CheckpointError, match=message):
        CausalAdapter.of_checkpoint(load_checkpoint(tmp_path / "base.pt"))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(7, RANK), (8, RANK + 1), (8,), ()])
def test_a_published_adapter_of_another_shape(shape: tuple[int, ...], dims: ModelDims, tmp_path: Path) -> None:
    import torch

    published(tmp_path / "base.pt", dims, **{QUERY + "A": torch.zeros(shape)})
    with pytest.raises(CheckpointError, match=r"1 are missing or others .*self_attn\.q_proj.*: download it again"):
        CausalAdapter.of_checkpoint(load_checkpoint(tmp_path / "base.pt"))


@pytest.mark.slow
def test_a_published_adapter_that_is_no_number(dims: ModelDims, tmp_path: Path) -> None:
    import torch

    published(tmp_path / "base.pt", dims, **{QUERY + "B": torch.full((RANK, 8), torch.nan)})
    with pytest.raises(CheckpointError, match=r"finite numbers for 20 weights.*1 are missing or others"):
        CausalAdapter.of_checkpoint(load_checkpoint(tmp_path / "base.pt"))


@pytest.mark.slow
def test_a_plain_pt_has_no_adapter_inside(dims: ModelDims, tmp_path: Path) -> None:
    import torch
    from whisper import model as whisper

    plain = whisper.Whisper(whisper.ModelDimensions(**asdict(dims)))
    torch.save({"dims": asdict(dims), "model_state_dict": plain.state_dict()}, tmp_path / "tiny.pt")
    store, _ = TensorStore.from_openai(tmp_path / "tiny.pt")
    assert store.names()
    with pytest.raises(CheckpointNotFoundError, match=r"train causal .*tiny\.pt"):
        CausalAdapter.of_checkpoint(load_checkpoint(tmp_path / "tiny.pt"))
