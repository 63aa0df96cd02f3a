"""Training a causal adapter: nothing later is heard, nothing changes at first, a loss that falls, exact resumption."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from small_training import changed_by, nano, quiet, resumed, small_dims, spoken, write_speech
from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.causal import CausalAdapter
from whispertide.checkpoint.low_rank import adapted_names, merge_adapter
from whispertide.cli.main import app
from whispertide.errors import CorpusError, OptionError
from whispertide.methods.causal.blocks import Blocks, block_ends
from whispertide_lab.speech.utterance import RefWord
from whispertide_lab.training.causal import CausalOptions, CausalTrainer, in_order, open_trainer
from whispertide_lab.training.causal_batches import CausalBatch, CausalBatches, CausalBatchOptions
from whispertide_lab.training.causal_decoding import Shown, arwer, shown_at_ends
from whispertide_lab.training.causal_features import causal_log_mel
from whispertide_lab.training.causal_network import causal_loss, encode, heard_until
from whispertide_lab.training.loop import LOG, STATE
from whispertide_lab.training.lora import adapt, adapters
from whispertide_lab.training.network import load_network, new_network
from whispertide_lab.training.shards import Shards, open_shards, write_shard

pytestmark = pytest.mark.slow

BATCH = CausalBatchOptions(seconds=4.0, lengths_s=(2.0,), shares=(1.0,))


OPTIONS = CausalOptions(rank=2, steps=6, epoch=2, rate=0.01, best=2, held_out=2, sentences=1, batch=BATCH)


def trainer(checkpoint: Checkpoint, shards: Shards, folder: Path, **changes: Any) -> CausalTrainer:
    options = replace(OPTIONS, content_hash=checkpoint.content_hash, **changes)
    return open_trainer(checkpoint, shards, options, folder)


def batch(shards: Shards, number: int = 0, **changes: Any) -> CausalBatch:
    return CausalBatches(shards, nano().tokenizer, replace(BATCH, **changes), n_mels=80, seed=0)[number]


# --- what is heard ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [2, 5, 15, 25, 50])
def test_later_sound_changes_no_earlier_frame(block: int) -> None:
    """From raw spectrum to encoder: what lies after the mel frame that the end of a block needs changes nothing."""
    network = new_network(small_dims(), 0).eval()
    frames = 120
    raw = np.random.default_rng(0).uniform(-8, 1, (80, 2 * frames + 1)).astype(np.float32)
    first = max(30, block)
    ends = block_ends(frames, block, first)
    with torch.no_grad():
        whole = encode(network, torch.from_numpy(causal_log_mel(raw, ends))[None], block, first)
        for end in [end for end in ends if end < frames][::3]:
            later = raw.copy()
            later[:, 2 * end + 1 :] = 3.0
            changed = encode(network, torch.from_numpy(causal_log_mel(later, ends))[None], block, first)
            assert torch.equal(changed[:, :end], whole[:, :end])
            assert not torch.allclose(changed[:, end:], whole[:, end:])


def test_the_decoder_hears_frames_before_the_limit_alone() -> None:
    hidden = -torch.inf
    expected = torch.tensor([[0, 0, hidden, hidden], [0, 0, 0, hidden], [0, 0, 0, 0]])
    assert torch.equal(heard_until(torch.tensor([2, 3, 4]), 4)[:, 0, 0], expected)


def test_one_pass_serves_all_moments(shards: Shards) -> None:
    """The loss of all points together is the sum over the points, each with the sound cut off at its own end."""
    network = new_network(small_dims(), 0).eval()
    asked = batch(shards, block=15)
    with torch.no_grad():
        together = float(causal_loss(network, asked))
        alone = 0.0
        for point in range(len(asked.rows)):
            one = asked.points(torch.tensor([point]))
            row, end = int(one.rows[0]), int(one.limits[0])
            cut = replace(one, mel=one.mel[row : row + 1, :, : 2 * end + 1], tokens=one.tokens[row : row + 1])
            alone += float(causal_loss(network, replace(cut, rows=torch.zeros(1, dtype=torch.int64))))
    assert len(asked.rows) > 2
    assert together == pytest.approx(alone, rel=1e-5)


def test_new_adapters_change_nothing(checkpoint: Checkpoint) -> None:
    mel, tokens = torch.randn(1, 80, 100), torch.tensor([[50257, 50362, 11, 12]])
    network = load_network(checkpoint).eval()
    with torch.no_grad():
        before = network(mel, tokens)
        adapt(network, 2, seed=0)
        assert torch.equal(network(mel, tokens), before)
    there = adapters(network)
    assert there.keys() == set(adapted_names(checkpoint.dims))
    assert all(a.any() and not b.any() for a, b in there.values())
    trained = {id(p) for p in network.parameters() if p.requires_grad}
    assert trained == {id(matrix) for pair in there.values() for matrix in pair}


# --- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_is_a_function_of_its_number(shards: Shards) -> None:
    first, again, other = batch(shards, 3), batch(shards, 3), batch(shards, 4)
    for name in ("mel", "tokens", "rows", "limits", "targets", "turns"):
        assert torch.equal(getattr(first, name), getattr(again, name))
    assert first.mel.shape == (2, 80, 201)
    assert not torch.equal(first.mel, other.mel)
    assert {batch(shards, number).block for number in range(40)} >= {5, 10, 15, 20, 25}
    assert {batch(shards, number, block=10).block for number in range(5)} == {10}


def test_moments_one_after_the_other(shards: Shards) -> None:
    asked = batch(shards, 1, block=15, lengths_s=(4.0,), seconds=8.0)
    assert [part.count for part in in_order(asked, "together")] == [asked.count]
    for order in ("ordered", "random"):
        parts = list(in_order(asked, order))
        assert sum(len(part.rows) for part in parts) == len(asked.rows)
        assert all(part.rows.tolist() == sorted(set(part.rows.tolist())) for part in parts)
        mine = [int(part.limits[part.rows == 0][0]) for part in parts if (part.rows == 0).any()]
        drawn = asked.limits[asked.rows == 0].tolist()
        assert mine == (sorted(drawn) if order == "ordered" else drawn)


def test_the_first_block_is_as_long_as_a_stream_makes_it(shards: Shards) -> None:
    """600 ms, and less than a block more; sample points are the ends of such blocks."""
    drawn = [batch(shards, number, block=10) for number in range(40)]
    assert {each.first for each in drawn} == {*range(30, 40)}
    assert {each.first for each in drawn} == {Blocks(block_s=0.2).ends(40_000, 10_000 + 320 * n)[0] for n in range(10)}
    for each in drawn:
        assert {*each.limits.tolist()} <= {*block_ends(100, 10, each.first), 100}
    long = [batch(shards, number, block=50).first for number in range(40)]
    assert 50 == min(long) < max(long) < 100


@pytest.mark.parametrize("block", [-1, 1, 51])
def test_blocks_that_no_stream_has(block: int) -> None:
    with pytest.raises(OptionError, match="blocks of 2 to 50 frames"):
        CausalBatchOptions(block=block)


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["together", "ordered", "random"])
def test_the_loss_falls_on_a_fixed_batch(order: Any, tmp_path: Path, shards: Shards, checkpoint: Checkpoint) -> None:
    run = trainer(checkpoint, shards, tmp_path / "run", steps=100, order=order)
    assert all("lora_" in name for name in changed_by(run, 6))


def test_a_resumed_run_is_the_run_that_was_not_interrupted(
    tmp_path: Path, shards: Shards, checkpoint: Checkpoint
) -> None:
    whole = trainer(checkpoint, shards, tmp_path / "whole")
    assert whole.run(quiet)
    expected = whole.result()
    for stop_at in (1, 4):
        result = resumed(trainer, checkpoint, shards, tmp_path / f"stopped{stop_at}", at=stop_at).result()
        assert result.report == expected.report
        for name, (a, b) in expected.matrices.items():
            np.testing.assert_array_equal(result.matrices[name][0], a)
            np.testing.assert_array_equal(result.matrices[name][1], b)
            assert b.any()


def test_a_limit_of_time_ends_a_run(tmp_path: Path, shards: Shards, checkpoint: Checkpoint) -> None:
    run = trainer(checkpoint, shards, tmp_path / "run", steps=10**6, minutes=1e-9)
    assert run.run(quiet)
    assert run.step == 1
    assert len(run.best) == 1


def test_what_was_trained_can_be_merged(tmp_path: Path, shards: Shards, checkpoint: Checkpoint) -> None:
    """The merged checkpoint computes what the adapted network does, after the way through the file."""
    run = trainer(checkpoint, shards, tmp_path / "run", steps=2)
    run.run(quiet)
    adapter = run.result()
    adapter.save(tmp_path / "causal.npz")
    plain = load_network(merge_adapter(checkpoint, CausalAdapter.load(tmp_path / "causal.npz", checkpoint))).eval()
    mel, tokens = torch.randn(1, 80, 100), torch.tensor([[50257, 50362, 11, 12]])
    with torch.no_grad():
        difference = (plain(mel, tokens) - run.network(mel, tokens)).abs().max()
        changed = (plain(mel, tokens) - load_network(checkpoint).eval()(mel, tokens)).abs().max()
    assert difference < 1e-3 < changed * 10
    assert {"arwer", "arwer_without", "held_out", "held_out_without", "hours_heard"} <= adapter.report.keys()
    assert adapter.report["kept"] == 2
    assert adapter.report["data"]["utterances"] == len(shards) - -(-len(shards) // 20)


def test_of_the_best_by_loss_the_lowest_arwer_is_kept(
    tmp_path: Path, shards: Shards, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the last few: here it is the one with the highest loss of them."""
    run = trainer(checkpoint, shards, tmp_path / "run", steps=9, epoch=1, best=CausalOptions().best)
    run.run(quiet)
    rates = iter([0.9, 0.8, 0.7, 0.8, 0.7, 0.9, 0.8, 0.6, 1.0])  # the last is that of the checkpoint itself
    monkeypatch.setattr(CausalTrainer, "arwer", lambda _: next(rates))
    expected = run.best[-1].step
    report = run.result().report
    assert (report["kept"], report["arwer"], report["arwer_without"]) == (expected, 0.6, 1.0)
    assert [report["tried"][str(epoch.step)] for epoch in run.best] == [0.9, 0.8, 0.7, 0.8, 0.7, 0.9, 0.8, 0.6]


def test_bad_runs_are_refused(tmp_path: Path, shards: Shards, checkpoint: Checkpoint) -> None:
    trainer(checkpoint, shards, tmp_path / "run").save()
    with pytest.raises(OptionError, match="others for rank"):
        trainer(checkpoint, shards, tmp_path / "run", rank=3)
    untimed = tmp_path / "untimed"
    untimed.mkdir()
    write_shard(untimed, 0, [spoken(number, timed=False) for number in range(60)])
    with pytest.raises(CorpusError, match=r"40 utterances with word times .* got 0 of 60"):
        trainer(checkpoint, open_shards([untimed]), tmp_path / "other")
    with pytest.raises(OptionError, match="rank"):
        CausalOptions(rank=0)
    for refused in (partial(CausalOptions, rate=math.nan), partial(CausalOptions, minutes=math.nan)):
        with pytest.raises(OptionError, match="rate and minutes above 0"):
            refused()


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_arwer_by_hand() -> None:
    """Two words over, one right: one error of two. Then four over, one too many and one wrong: two of four."""
    shown = [
        Shown("", ()),
        Shown("the red", ("The", "cat")),
        Shown("The cat ran far away", ("The", "cat", "ran", "off")),
    ]
    counts = arwer(shown)
    assert (counts.errors, counts.reference) == (3, 6)
    assert arwer([Shown("hello", ())]).errors == 1


def test_every_chunk_end_is_shown(checkpoint: Checkpoint) -> None:
    """The reference grows word by word; the text at an end is what a window cut off there would give."""
    said = spoken(1)
    network = load_network(checkpoint).eval()
    shown = shown_at_ends(network, nano().tokenizer, said, 15)
    frames = (len(said.samples) + 16_000) // 320
    ends = [320 * min(end, frames) for end in block_ends(frames, 15, 30)]
    texts, spans = said.text.split(), said.words or ()
    over = [tuple(text for text, (_, last) in zip(texts, spans, strict=True) if last <= end) for end in ends]
    assert [moment.reference for moment in shown] == over
    assert shown[-1].reference == tuple(said.text.split())
    assert len(shown[0].reference) < len(shown[2].reference)


# --- the command ------------------------------------------------------------------------------------------------------


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["train", "causal", *map(str, arguments)])


def test_the_command_trains_and_goes_on(tmp_path: Path, small_folder: Path, more_speech: Path) -> None:
    common = [small_folder, "--data", more_speech, "--run", tmp_path / "run"]
    common += ["--batch", 4, "--rank", 2, "-j", 0, "--chunk", 0.3]
    result = command(*common, "--steps", 1)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == str(small_folder / "causal.npz")
    assert "ARWER: " in result.stderr
    adapter = CausalAdapter.of_checkpoint(load_checkpoint(small_folder))
    assert (adapter.rank, adapter.block, adapter.first) == (2, 15, 30)
    assert (tmp_path / "run" / LOG).exists()
    assert (tmp_path / "run" / STATE).exists()
    again = command(*common, "--steps", 1)
    assert again.exit_code == 0
    assert "update 1, 100% of the run" in again.stderr
    other = command(*common, "--steps", 3)
    assert (other.exit_code, "got others for steps" in other.stderr) == (2, True)


def test_recordings_without_word_times_take_the_teachers(
    tmp_path: Path, small_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all recordings of people: a text and nothing else. The best epoch is chosen by such times then."""
    untimed = write_speech(tmp_path / "untimed", each=30, timed=False)

    def aligned(said: Any, teacher: object, name: str) -> Any:
        words = tuple(RefWord(word.text, 900 * n, 900 * n + 800) for n, word in enumerate(said.words))
        return replace(said, words=words, aligned_by=name)

    monkeypatch.setattr("whispertide_lab.training.teacher_times.aligned", aligned)
    common = [small_folder, "--data", untimed, "--run", tmp_path / "run", "--batch", 4, "--rank", 2, "-j", 0]
    result = command(*common, "--steps", 1)
    assert result.exit_code == 0, result.stderr
    assert "60 of 60 utterances have no word times: model places their words" in result.stderr
    adapter = CausalAdapter.of_checkpoint(load_checkpoint(small_folder))
    assert adapter.report["word_times"] == "by the teacher's attention"


@pytest.mark.parametrize("chunk", ["0.05", "2", "0", "some", "0.02", "inf", "nan"])
def test_chunks_are_multiples_of_a_frame(chunk: str, tmp_path: Path) -> None:
    result = command("nano.en", "--chunk", chunk, "--run", tmp_path / "run")
    assert result.exit_code == 2
    assert "expected --chunk any, or a multiple of 0.02 s from 0.04 to 1 s" in result.stderr
