"""Masks by name, and adapters for them: on disk, merged, refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from each_row import each_row
from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.low_rank import adapted_names, merge_adapter
from whispertide.checkpoint.mask import Mask
from whispertide.checkpoint.masked import GROUPS, MaskedAdapter, has_masked_adapter
from whispertide.errors import CheckpointError, CheckpointNotFoundError, OptionError

D750 = Mask.parse("d750")


@pytest.fixture
def checkpoint(write_model: Any) -> Checkpoint:
    """One encoder layer and two decoder layers of width 8, random."""
    return load_checkpoint(write_model())


def random_adapter(checkpoint: Checkpoint, mask: Mask = D750) -> MaskedAdapter:
    rng = np.random.default_rng(1)
    width = checkpoint.dims.n_text_state
    matrices = {
        name: (rng.standard_normal((2, width)).astype(np.float32), rng.standard_normal((width, 2)).astype(np.float32))
        for name in adapted_names(checkpoint.dims, GROUPS)
    }
    return MaskedAdapter(2, matrices, checkpoint.content_hash, {"held_out": 0.1}, mask=mask)


@pytest.mark.parametrize(("name", "mask"), [("d750", Mask(750, False)), ("c250", Mask(250, True))])
def test_masks_have_names(name: str, mask: Mask) -> None:
    assert Mask.parse(name) == mask
    assert str(mask) == name


@each_row(
    ("name", "message"),
    [
        ("d700", "expected a mask, one of d750, .* got 'd700', whose blocks leave 100 of 1500 frames"),
        ("c1600", "got 'c1600', whose blocks leave 1500 of 1500 frames"),
        ("x750", "expected a mask, one of d750, d500, .*got 'x750'"),
        ("d50", "got 'd50'$"),
        ("d0", "got 'd0'"),
        ("750", "got '750'"),
        ("", "got ''"),
    ],
)
def test_what_is_no_mask(name: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Mask.parse(name)


def test_what_was_saved_comes_back(checkpoint: Checkpoint) -> None:
    adapter = random_adapter(checkpoint)
    adapter.save(checkpoint.folder / "masked-d750.npz")
    assert has_masked_adapter(checkpoint, D750)
    found = MaskedAdapter.of_checkpoint(checkpoint, D750)
    assert (found.rank, found.mask, found.content_hash) == (2, D750, checkpoint.content_hash)
    assert found.report == {"held_out": 0.1, "mask": "d750"}
    whole = merge_adapter(checkpoint, found)
    for name in checkpoint.tensors.names():
        changed = not np.array_equal(whole.tensors.get(name), checkpoint.tensors.get(name))
        assert changed == (name in adapter.matrices)
    assert all(name.startswith("encoder.") for name in adapter.matrices)


def test_there_is_none(checkpoint: Checkpoint) -> None:
    assert not has_masked_adapter(checkpoint, D750)
    with pytest.raises(
        CheckpointNotFoundError,
        match=r"masked-d750\.npz: make it with `whispertide train blocks .*model0 --mask d750`, or choose trained=f",
    ):
        MaskedAdapter.of_checkpoint(checkpoint, D750)


def test_half_a_file_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "masked-d750.npz"
    random_adapter(checkpoint).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CheckpointError, match=r"damaged or something else .*train blocks .*model0 --mask d750"):
        MaskedAdapter.load(path, checkpoint, D750)


def test_another_checkpoints_or_masks_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "masked-d750.npz"
    replace(random_adapter(checkpoint), content_hash="1" * 64).save(path)
    with pytest.raises(CheckpointError, match=r"another checkpoint .111111111111.: make one .*--mask d750"):
        MaskedAdapter.load(path, checkpoint, D750)
    random_adapter(checkpoint, Mask.parse("d500")).save(path)
    with pytest.raises(CheckpointError, match=r"for the mask d750 .* trained for d500: make one .*--mask d750"):
        MaskedAdapter.load(path, checkpoint, D750)


@pytest.mark.parametrize("name", ["d750", "d500", "d250"])
def test_the_bundled_model_has_some(name: str) -> None:
    bundled = load_checkpoint("nano.en")
    adapter = MaskedAdapter.of_checkpoint(bundled, Mask.parse(name))
    assert set(adapter.matrices) == set(adapted_names(bundled.dims, GROUPS))
    assert adapter.report["held_out"] < adapter.report["held_out_without"]
    assert (bundled.folder / f"masked-{name}.npz").stat().st_size < 800_000
