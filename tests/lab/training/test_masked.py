"""Teaching an encoder to hear in blocks: the student is what runs, nothing changes at first, a loss that falls."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from small_training import changed_by, nano, quiet, resumed, small_dims
from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.low_rank import adapted_names, merge_adapter
from whispertide.checkpoint.mask import Mask
from whispertide.checkpoint.masked import GROUPS, MaskedAdapter
from whispertide.cli.main import app
from whispertide.errors import CorpusError, OptionError
from whispertide_lab.training.masked import MaskedOptions, MaskedTrainer, open_trainer
from whispertide_lab.training.masked_batches import MaskedBatches, MaskedBatchOptions
from whispertide_lab.training.masked_network import distances, encode_masked
from whispertide_lab.training.masks import mask_bias
from whispertide_lab.training.network import load_network, new_network
from whispertide_lab.training.shards import Shards

pytestmark = pytest.mark.slow

BATCH = MaskedBatchOptions(count=2, lengths_s=(2.0, 6.0), shares=(0.5, 0.5))
OPTIONS = MaskedOptions(mask="d250", rank=2, steps=4, epoch=2, rate=0.01, best=2, held_out=1, batch=BATCH)


def trainer(checkpoint: Checkpoint, shards: Shards, folder: Path, **changes: Any) -> MaskedTrainer:
    return open_trainer(checkpoint, shards, replace(OPTIONS, content_hash=checkpoint.content_hash, **changes), folder)


# --- the student ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["d750", "d250", "c500"])
def test_the_student_is_the_encoder_under_the_matrix(name: str) -> None:
    encoder, mask = new_network(small_dims(), 0).encoder.eval(), Mask.parse(name)
    mel = torch.randn(3, 80, 3000)
    with torch.no_grad():
        stems = [encoder.stem(part) for part in mel.split(mask.columns, dim=2)]
        *_, last = encoder.layers_over(torch.cat(stems, 1) + encoder.embed_positions.weight, mask_bias(mask, 1500))
        assert torch.allclose(encode_masked(encoder, mel, mask), encoder.layer_norm(last), atol=1e-5)


def test_one_block_is_the_teacher(checkpoint: Checkpoint, shards: Shards) -> None:
    network = load_network(checkpoint).eval()
    batch = MaskedBatches(shards, nano().tokenizer, BATCH, 80, seed=0)[0]
    with torch.no_grad():
        error, divergence = distances(network, network, batch, Mask.parse("d1500"))
        other, _ = distances(network, network, batch, Mask.parse("d100"))
    assert float(error) < 1e-8 < float(other)
    assert abs(float(divergence)) < 1e-3


def test_a_batch_is_a_function_of_its_number(shards: Shards) -> None:
    batches = MaskedBatches(shards, nano().tokenizer, BATCH, 80, seed=0)
    one, same, other = batches[3], batches[3], batches[4]
    assert torch.equal(one.mel, same.mel)
    assert not torch.equal(one.mel, other.mel)
    assert one.mel.shape == (2, 80, 3000)
    for row, frames in enumerate(one.frames.tolist()):
        assert frames in (100, 300)
        silence = one.mel[row].max() - 2  # as far below the loudest cell as Whisper's floor
        assert torch.all(one.mel[row, :, 2 * frames :] == silence)
    assert one.count == int(one.counted.sum()) > 0


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_mixed_precision_comes_close(
    tmp_path: Path, shards: Shards, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = []
    for units in (False, True):
        monkeypatch.setattr("whispertide_lab.training.device.has_bfloat16_units", lambda _, units=units: units)
        run = trainer(checkpoint, shards, tmp_path / str(units))
        losses.append((run.update(run.batches[0]), run.held_out_loss()))
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


def test_the_loss_falls_and_only_adapters_change(tmp_path: Path, shards: Shards, checkpoint: Checkpoint) -> None:
    run = trainer(checkpoint, shards, tmp_path / "run", steps=100)
    changed = changed_by(run, 4)
    assert changed
    assert all("lora_" in name and name.startswith("encoder.") for name in changed)


def test_a_resumed_run_is_the_run_that_was_not_interrupted(
    tmp_path: Path, shards: Shards, checkpoint: Checkpoint
) -> None:
    whole = trainer(checkpoint, shards, tmp_path / "whole")
    assert whole.run(quiet)
    expected = whole.result()
    second = resumed(trainer, checkpoint, shards, tmp_path / "stopped", at=3)
    result = second.result()
    assert result.report == expected.report
    assert {"held_out", "held_out_without", "distances", "distances_without", "kept"} <= result.report.keys()
    for name, (a, b) in expected.matrices.items():
        np.testing.assert_array_equal(result.matrices[name][0], a)
        np.testing.assert_array_equal(result.matrices[name][1], b)
    assert set(result.matrices) == set(adapted_names(checkpoint.dims, GROUPS))
    best = min(expected.report["held_out"], whole.best[-1].loss)
    assert best == expected.report["held_out"]
    result.save(tmp_path / "masked-d250.npz")
    plain = load_network(
        merge_adapter(checkpoint, MaskedAdapter.load(tmp_path / "masked-d250.npz", checkpoint, whole.mask))
    )
    mel = torch.randn(1, 80, 3000)
    with torch.no_grad():
        ours, theirs = (encode_masked(each.encoder.eval(), mel, whole.mask) for each in (plain, second.network))
    assert (ours - theirs).abs().max() < 1e-3


def test_bad_runs_are_refused(tmp_path: Path, shards: Shards, checkpoint: Checkpoint) -> None:
    trainer(checkpoint, shards, tmp_path / "run").save()
    with pytest.raises(OptionError, match="others for mask"):
        trainer(checkpoint, shards, tmp_path / "run", mask="d500")
    with pytest.raises(CorpusError, match=r"at least 40 utterances .* got 10 of 10"):
        trainer(checkpoint, Shards(shards.places[:10]), tmp_path / "other")
    with pytest.raises(OptionError, match="steps"):
        replace(OPTIONS, steps=0)


# --- the command ------------------------------------------------------------------------------------------------------


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["train", "blocks", *map(str, arguments)])


def test_the_command_trains_and_goes_on(tmp_path: Path, more_speech: Path, small_folder: Path) -> None:
    common = [small_folder, "--mask", "d250", "--data", more_speech, "--run", tmp_path / "run", "--batch", 1]
    common += ["--steps", 1, "--rank", 2, "-j", 0, "--device", "cpu"]
    result = command(*common)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == str(small_folder / "masked-d250.npz")
    assert "distance to the whole encoder" in result.stderr
    assert MaskedAdapter.of_checkpoint(load_checkpoint(small_folder), Mask.parse("d250")).rank == 2
    again = command(*common)
    assert (again.exit_code, "update 1, 100% of the run" in again.stderr) == (0, True)


@pytest.mark.parametrize(("mask", "message"), [("d700", "leave 100 of 1500 frames"), ("z1", "got 'z1'")])
def test_a_mask_that_is_none(mask: str, message: str, tmp_path: Path) -> None:
    result = command("nano.en", "--mask", mask, "--run", tmp_path / "run")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "run").exists()
