"""Adapters for short windows: on disk, merged, refused, and found by the tensors that they belong to."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converted_files import TINY, fused, random_tensors, write_ct2, write_ggml
from whispertide.checkpoint import Checkpoint, attachments, load_checkpoint
from whispertide.checkpoint.attachments import path_in_cache
from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.ggml_file import GgmlFile
from whispertide.checkpoint.low_rank import adapted_names, merge_adapter
from whispertide.checkpoint.short import GROUPS, KIND, ShortAdapter, adapted_hash, shipped_merged, short_adapter
from whispertide.checkpoint.weights import TensorStore
from whispertide.errors import CheckpointError, CheckpointNotFoundError
from whispertide.types import FloatArray


@pytest.fixture
def checkpoint(write_model: Any) -> Checkpoint:
    """One encoder layer and two decoder layers of width 8, random."""
    return load_checkpoint(write_model())


def random_adapter(checkpoint: Checkpoint, rank: int = 2) -> ShortAdapter:
    rng = np.random.default_rng(1)

    def pair(name: str) -> tuple[FloatArray, FloatArray]:
        rows, columns = checkpoint.tensors.shape(name)
        return rng.standard_normal((rank, columns), np.float32), rng.standard_normal((rows, rank), np.float32)

    matrices = {name: pair(name) for name in adapted_names(checkpoint.dims, GROUPS)}
    return ShortAdapter(rank, matrices, checkpoint.tensors_hash, {"held_out": 0.1})


def test_what_was_saved_comes_back(checkpoint: Checkpoint) -> None:
    adapter = random_adapter(checkpoint)
    adapter.save(checkpoint.folder / "short.npz")
    found = ShortAdapter.of_checkpoint(checkpoint)
    assert (found.rank, found.content_hash, found.report) == (2, checkpoint.tensors_hash, {"held_out": 0.1})
    whole = merge_adapter(checkpoint, found)
    for name in checkpoint.tensors.names():
        before, after = checkpoint.tensors.get(name), whole.tensors.get(name)
        assert np.array_equal(before, after) != (name in adapter.matrices)
        if name in adapter.matrices:
            a, b = (matrix.astype(np.float16).astype(np.float32) for matrix in adapter.matrices[name])
            np.testing.assert_allclose(after, before + b @ a, rtol=1e-5, atol=1e-5)


def test_encoder_and_what_the_decoder_hears_change(checkpoint: Checkpoint) -> None:
    names = set(adapted_names(checkpoint.dims, GROUPS))
    encoder = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "fc1", "fc2"}
    decoder = {
        f"decoder.layers.{layer}.encoder_attn.{name}.weight" for layer in (0, 1) for name in ("k_proj", "v_proj")
    }
    assert names == {f"encoder.layers.0.{name}.weight" for name in encoder} | decoder


# --- which one --------------------------------------------------------------------------------------------------------


def with_tensors(tensors: TensorStore, dims: ModelDims) -> Checkpoint:
    return replace(load_checkpoint("nano.en"), dims=dims, tensors=tensors)


def test_tensors_have_one_hash_in_any_file(tmp_path: Path) -> None:
    values = random_tensors(dtype="f2")
    write_ct2(tmp_path / "ct2" / "model.bin", fused(values))
    single = {name: numbers.astype("f4") for name, numbers in values.items()}
    stores = [
        TensorStore.from_ctranslate2(tmp_path / "ct2")[0],
        *(
            TensorStore.from_ggml(GgmlFile(write_ggml(tmp_path / f"{number}.bin", tensors)))
            for number, tensors in enumerate((values, single))
        ),
    ]
    hashes = {with_tensors(store, TINY).tensors_hash for store in stores}
    assert len(hashes) == 1
    # The positions of the encoder are computed, and some programs store them otherwise.
    moved = {**single, "encoder.embed_positions.weight": single["encoder.embed_positions.weight"] + 1}
    other = {**single, "encoder.layers.0.fc2.weight": single["encoder.layers.0.fc2.weight"] + 1}
    found = [
        with_tensors(TensorStore.from_ggml(GgmlFile(write_ggml(tmp_path / f"{name}.bin", tensors))), TINY).tensors_hash
        for name, tensors in (("moved", moved), ("other", other))
    ]
    assert [each in hashes for each in found] == [True, False]


def test_it_is_found_beside_in_the_cache_and_in_the_package(
    checkpoint: Checkpoint, write_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert short_adapter(checkpoint) is None
    bundled = tmp_path / "bundled" / "small" / "short.npz"
    bundled.parent.mkdir(parents=True)
    monkeypatch.setattr(attachments, "BUNDLED", tmp_path / "bundled")
    (tmp_path / "bundled" / "another").mkdir()
    replace(random_adapter(checkpoint), content_hash="1" * 64).save(tmp_path / "bundled" / "another" / "short.npz")
    assert short_adapter(checkpoint) is None
    random_adapter(checkpoint).save(bundled)
    assert short_adapter(checkpoint) == bundled
    same_elsewhere = load_checkpoint(write_model())
    assert short_adapter(same_elsewhere) == bundled
    place = path_in_cache(checkpoint, KIND)
    place.parent.mkdir(parents=True)
    random_adapter(checkpoint).save(place)
    assert short_adapter(checkpoint) == place, "the user's own"
    beside = checkpoint.folder / "short.npz"
    random_adapter(checkpoint).save(beside)
    assert short_adapter(checkpoint) == beside
    assert short_adapter(same_elsewhere) == place


def test_what_was_found_out_holds_for_checkpoint_and_adapter_together(checkpoint: Checkpoint) -> None:
    hashes = [adapted_hash(checkpoint)]
    assert hashes == [checkpoint.content_hash]
    for rank in (2, 3):
        random_adapter(checkpoint, rank).save(checkpoint.folder / "short.npz")
        hashes.append(adapted_hash(checkpoint))
    assert len(set(hashes)) == 3


def test_a_damaged_one_that_lies_elsewhere_is_nobodys(checkpoint: Checkpoint) -> None:
    place = path_in_cache(checkpoint, KIND)
    place.parent.mkdir(parents=True)
    place.write_bytes(b"half")
    assert short_adapter(checkpoint) is None


# --- refused ----------------------------------------------------------------------------------------------------------


def test_what_it_was_taught_with_is_in_its_report() -> None:
    adapter = ShortAdapter(2, {})
    merged = [replace(adapter, report=report).merged for report in ({}, {"options": {"merged": 16}})]
    assert merged == [0, 16]
    for odd in (-1, 1500, 1.5, "16", None, [16]):
        assert replace(adapter, report={"options": {"merged": odd}}).merged == 0
    assert replace(adapter, report={"options": 3}).merged == 0


def test_what_those_of_the_package_were_taught_with() -> None:
    assert [shipped_merged(name) for name in ("tiny.en", "base", "large")] == [16, 0, 0]


def test_there_is_none(checkpoint: Checkpoint) -> None:
    with pytest.raises(
        CheckpointNotFoundError, match=r"expected an adapter for short windows of .*`whispertide train short .*model0`"
    ):
        ShortAdapter.of_checkpoint(checkpoint)


def test_half_a_file_is_refused(checkpoint: Checkpoint) -> None:
    path = checkpoint.folder / "short.npz"
    random_adapter(checkpoint).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CheckpointError, match=r"damaged or something else .*train short .*model0"):
        ShortAdapter.of_checkpoint(checkpoint)


def test_another_checkpoints_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    replace(random_adapter(checkpoint), content_hash="1" * 64).save(tmp_path / "short.npz")
    with pytest.raises(CheckpointError, match=r"another checkpoint .111111111111.: make one .*train short"):
        ShortAdapter.load(tmp_path / "short.npz", checkpoint)


def test_ranks_that_differ_are_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    two, three = random_adapter(checkpoint), random_adapter(checkpoint, rank=3)
    mixed = {name: (three if "fc1" in name else two).matrices[name] for name in two.matrices}
    replace(two, matrices=mixed).save(tmp_path / "short.npz")
    with pytest.raises(CheckpointError, match=r"expected matrices of one rank, .*got 2, 3"):
        ShortAdapter.load(tmp_path / "short.npz", checkpoint)


def test_one_for_another_shape_or_of_another_form_is_refused(
    checkpoint: Checkpoint, write_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "short.npz"
    random_adapter(load_checkpoint(write_model(n_audio_layer=2))).save(path)
    with pytest.raises(
        CheckpointError, match=r"expected an adapter for short windows, arrays .*made for another model"
    ):
        ShortAdapter.load(path, checkpoint)
    monkeypatch.setattr(attachments, "FORMAT", 0)
    random_adapter(checkpoint).save(path)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"of format 1; .* has format 0: make it again"):
        ShortAdapter.load(path, checkpoint)
