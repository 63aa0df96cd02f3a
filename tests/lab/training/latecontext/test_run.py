"""Training late networks: nothing depends on where a run was stopped, a loss that falls, bad input that is named."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from whispertide.errors import CheckpointError, CorpusError, OptionError
from whispertide.understand.checkpoint import Kind, LateCheckpoint, LateDims
from whispertide_lab.training.augment import Augmentation, SpokenWord
from whispertide_lab.training.latecontext.batches import LateBatches, LateBatchOptions, labels, spoken_in
from whispertide_lab.training.latecontext.network import LateNetwork, tensors_of
from whispertide_lab.training.latecontext.run import LateOptions, LateTrainer, open_trainer
from whispertide_lab.training.latecontext.work import encoder_work
from whispertide_lab.training.shards import Shards, Utterance, open_shards, write_shard

pytestmark = pytest.mark.slow

WORDS = {"stop": 300, "go": 700, "left": 1500, "right": 2500}
DIMS = LateDims(width=16, heads=2, inner=32, kernel=3, convolving=2, attending=1, n_vocab=40)
BATCH = LateBatchOptions(count=8, mask_time=0, mask_mels=0, augmentation=Augmentation.none())
WITHOUT_SILENCE = replace(BATCH, before_s=0.0, after_s=0.0)
OPTIONS = LateOptions(dims=DIMS, steps=4, epoch=2, rate=0.01, best=2, held_out=1, batch=BATCH)


def command(number: int) -> Utterance:
    """One to three words, each a tone of its own; the first is what is wanted."""
    dice = np.random.RandomState(number)
    words = [str(word) for word in dice.choice(list(WORDS), 1 + int(dice.randint(3)))]
    place = np.arange(3200) / 16_000
    sound = np.concatenate([8000 * np.sin(2 * np.pi * WORDS[word] * place) for word in words]).astype(np.int16)
    spans = tuple((3200 * at, 3200 * (at + 1)) for at in range(len(words)))
    return Utterance(sound, " ".join(words), "tones", spans, intent=f"{words[0]}_first")


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    folder = tmp_path_factory.mktemp("commands")
    write_shard(folder, 0, [command(number) for number in range(80)])
    return open_shards([folder])


def weights(trainer: LateTrainer) -> list[float]:
    return [float(parameter.detach().double().sum()) for parameter in trainer.parameters]


def test_intents_are_kept_with_the_sound(shards: Shards) -> None:
    assert shards[3].intent == command(3).intent


def test_a_run_that_was_stopped_is_the_run_that_was_not(shards: Shards, tmp_path: Path) -> None:
    whole = open_trainer(shards, OPTIONS, tmp_path / "whole")
    assert whole.run(lambda step, figures: None)
    stopped = open_trainer(shards, OPTIONS, tmp_path / "stopped")
    assert not stopped.run(lambda step, figures: None, stop=lambda: True)
    resumed = open_trainer(shards, OPTIONS, tmp_path / "stopped")
    assert resumed.step == 1
    assert resumed.run(lambda step, figures: None)
    assert weights(resumed) == weights(whole)


def test_an_early_epoch_does_not_harm_the_mean(shards: Shards, tmp_path: Path) -> None:
    trainer = open_trainer(shards, replace(OPTIONS, best=3), tmp_path / "run")
    near, nearer = ([0.99 * matrix + shift for matrix in trainer.parameters] for shift in (0.002, -0.002))
    far = [torch.zeros_like(matrix) for matrix in trainer.parameters]
    for parameters in (near, nearer, far):
        trainer.take(parameters)
        trainer.end_epoch()
    report = trainer.result().report
    assert report["averaged"] < 3
    assert report["held_out"] <= min(report["held_out_epochs"]) + 1e-4
    kept = [epoch.parameters for epoch in trainer.best[: report["averaged"]]]
    expected = [torch.stack(list(same)).mean(0) for same in zip(*kept, strict=True)]
    assert all(torch.equal(one, other) for one, other in zip(trainer.parameters, expected, strict=True))


@pytest.mark.parametrize("kind", ["late", "branchformer", "conformer", "rnnt"])
def test_every_kind_learns(kind: Kind, shards: Shards, tmp_path: Path) -> None:
    options = replace(OPTIONS, dims=replace(DIMS, kind=kind), steps=30, epoch=15, rate=0.02, batch=WITHOUT_SILENCE)
    trainer = open_trainer(shards, options, tmp_path / kind)
    before = trainer.held_out_loss()
    trainer.run(lambda step, figures: None)
    checkpoint = trainer.result()
    assert checkpoint.report["held_out"] < 0.7 * before
    assert checkpoint.understood(checkpoint.vocabulary.encode("go")).intent == "go_first"
    assert len(checkpoint.report["attention"]) == (DIMS.layers if kind == "branchformer" else 0)
    assert all(0 < share < 1 for share in checkpoint.report["attention"])


def test_a_late_frame_needs_no_later_sound_until_there_is_attention() -> None:
    torch.manual_seed(0)
    network = LateNetwork(DIMS).eval()
    mel = torch.randn(1, DIMS.n_mels, 40)
    later = mel.clone()
    later[..., 24:] += 1
    with torch.no_grad():
        np.testing.assert_array_equal(network.encoder.ingested(mel)[:, :6], network.encoder.ingested(later)[:, :6])
        assert not torch.allclose(network.encoder(mel, None)[0][:, :6], network.encoder(later, None)[0][:, :6])


def test_padding_changes_nothing(shards: Shards) -> None:
    torch.manual_seed(0)
    network = LateNetwork(DIMS).eval()
    mel = torch.randn(1, DIMS.n_mels, 24)
    padded = torch.nn.functional.pad(mel, (0, 40))
    lengths, tokens = torch.tensor([6]), torch.tensor([[0, 3, 5]])
    with torch.no_grad():
        scores, logits = network(mel, lengths, tokens)
        others, other_logits = network(padded, lengths, tokens)
    torch.testing.assert_close(others[:, :6], scores, atol=1e-5, rtol=0)
    torch.testing.assert_close(other_logits, logits, atol=1e-5, rtol=0)


def test_a_frame_learns_what_is_said_in_it(shards: Shards, tmp_path: Path) -> None:
    vocabulary = open_trainer(shards, OPTIONS, tmp_path / "run").vocabulary
    words = [SpokenWord("go", 1280, 3840), SpokenWord("left", 4480, 7040)]  # frames 2 to 5, 7 to 10
    intent = vocabulary.intent("go_first")
    assert intent is not None
    spoken = spoken_in(13, [intent, *vocabulary.encode("go left")], words, vocabulary)
    blank = vocabulary.size
    assert vocabulary.decode([token for token in dict.fromkeys(spoken.tolist()) if token != blank])[1] == "go left"
    assert [at for at, token in enumerate(spoken) if token == blank] == [1, 6, 11, 12]
    assert spoken[0] == intent
    assert set(vocabulary.encode("go")) == set(spoken[2:6].tolist())
    silent = spoken_in(3, vocabulary.encode("go"), [], vocabulary)
    assert silent.tolist() == [blank] * 3, "without an intent nothing is said before the words"


def test_speech_without_intents_is_learned_from_if_it_is_short(shards: Shards, tmp_path: Path) -> None:
    def recording(text: str, length: int) -> Utterance:
        return Utterance(command(1).samples.repeat(60)[:length], text, "reader", None)

    write_shard(tmp_path, 0, [recording("She said: \u201cZero!\u201d", 16_000), recording("Forty.", 11 * 16_000)])
    both = Shards((*shards.places, *open_shards([tmp_path]).places))
    trainer = open_trainer(both, OPTIONS, tmp_path / "run")
    commands = open_trainer(shards, OPTIONS, tmp_path / "commands").data["utterances"]
    assert trainer.data["utterances"] == commands + 1
    assert len(trainer.vocabulary.intents) == len(WORDS)
    said = open_shards([tmp_path])[0]
    assert trainer.vocabulary.decode(labels(said, trainer.vocabulary)) == (None, "she said zero")
    with pytest.raises(CorpusError, match="intents"):
        open_trainer(open_shards([tmp_path]), OPTIONS, tmp_path / "other")


def test_a_run_goes_on_from_a_network(shards: Shards, tmp_path: Path) -> None:
    first = open_trainer(shards, OPTIONS, tmp_path / "first")
    first.run(lambda step, figures: None)
    checkpoint = first.result()
    second = open_trainer(shards, OPTIONS, tmp_path / "second", start=checkpoint)
    assert second.held_out_loss() == pytest.approx(checkpoint.report["held_out"], rel=1e-3)
    second.run(lambda step, figures: None, stop=lambda: True)
    resumed = open_trainer(shards, OPTIONS, tmp_path / "second", start=checkpoint)
    assert weights(resumed) == weights(second), "a run that was stopped does not begin again"
    other = replace(command(1), intent="unheard_of")
    write_shard(tmp_path, 0, [other] * 80)
    with pytest.raises(CorpusError, match="unheard_of is not among its 4"):
        open_trainer(open_shards([tmp_path]), OPTIONS, tmp_path / "third", start=checkpoint)
    wide = replace(OPTIONS, dims=replace(DIMS, width=32))
    with pytest.raises(CheckpointError, match="shape"):
        open_trainer(shards, wide, tmp_path / "fourth", start=checkpoint)


def test_words_move_with_the_silence_before_them(shards: Shards, tmp_path: Path) -> None:
    vocabulary = open_trainer(shards, OPTIONS, tmp_path / "run").vocabulary
    batch = LateBatches(shards, vocabulary, BATCH, 80, 5)[7]
    blank = vocabulary.size
    for mel, spoken, length in zip(batch.mel, batch.spoken, batch.lengths, strict=True):
        loud = mel[:, : 4 * int(length)].amax(0).reshape(-1, 4).mean(1) > mel.max() - 1
        said = (spoken[: int(length)] != blank) & (spoken[: int(length)] > len(vocabulary.intents))
        assert float((loud == said).float().mean()) > 0.8
        assert (spoken[int(length) :] == -1).all()


@pytest.mark.soak
def test_frames_begin_to_listen_sooner_with_the_times_of_words(shards: Shards, tmp_path: Path) -> None:
    def ctc_after(aligned: float) -> float:
        options = replace(OPTIONS, steps=60, epoch=60, ctc=1.0, aligned=aligned)
        trainer = open_trainer(shards, options, tmp_path / str(aligned))
        trainer.run(lambda step, figures: None)
        return trainer.held_out_loss()

    assert ctc_after(0.5) < 0.8 * ctc_after(0.0)


def test_what_is_done_while_somebody_speaks_is_counted() -> None:
    late = encoder_work(LateDims(width=4, heads=1, inner=8, kernel=3, convolving=2, attending=1, n_mels=10), 2.0)
    assert late.ingested == 25 * (2 * 3 * 10 * 4 + 3 * 4 * 4 + 2 * (4 * 8 + 4 * 3 + 4 * 4))
    assert late.waiting == 25 * (4 * 16 + 2 * 50 * 4 + 2 * 4 * 8)
    branches = LateDims(kind="branchformer")
    assert encoder_work(branches, 2.6).share < encoder_work(LateDims(), 2.6).share < 1


def test_without_a_feed_forward_part_after_attention_nearly_all_work_is_done_during_speech() -> None:
    """In the shape of `commands` with one layer of attention: the 92 % of the paper."""
    one = LateDims(width=128, inner=512, convolving=9, attending=1)
    none = replace(one, attending_inner=0)
    assert encoder_work(one, 2.6).share < 0.84
    assert encoder_work(none, 2.6).share >= 0.92
    apart = encoder_work(one, 1.0).waiting - encoder_work(none, 1.0).waiting
    assert apart == pytest.approx(25 * 2 * 128 * 512)  # 25 frames


def test_a_run_goes_on_with_the_network_that_it_began_with(shards: Shards, tmp_path: Path) -> None:
    def network(seed: int) -> LateCheckpoint:
        trainer = open_trainer(shards, replace(OPTIONS, seed=seed), tmp_path / str(seed))
        return LateCheckpoint(trainer.dims, tensors_of(trainer.network), trainer.vocabulary)

    first, other = network(0), network(1)
    open_trainer(shards, OPTIONS, tmp_path / "run", start=first)
    assert open_trainer(shards, OPTIONS, tmp_path / "run", start=first).step == 0
    for start in (other, None):
        with pytest.raises(OptionError, match="content_hash: choose another --run"):
            open_trainer(shards, OPTIONS, tmp_path / "run", start=start)


def test_speech_without_intents_is_refused(shards: Shards, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="train commands` a list of at least 40 sentences"):
        open_trainer(shards.having(lambda place: False), OPTIONS, tmp_path / "run")
    with pytest.raises(OptionError, match="smoothing"):
        replace(OPTIONS, smoothing=1.0)
    with pytest.raises(CheckpointError, match="width"):
        replace(DIMS, heads=3)


def test_a_batch_is_a_function_of_its_number(shards: Shards, tmp_path: Path) -> None:
    vocabulary = open_trainer(shards, OPTIONS, tmp_path / "run").vocabulary
    one, same = (LateBatches(shards, vocabulary, BATCH, 80, 5)[7] for _ in range(2))
    torch.testing.assert_close(one.mel, same.mel)
    assert one.tokens.tolist() == same.tokens.tolist()
    first, second = one.targets[0].tolist(), one.tokens[0].tolist()
    assert second[0] == 0
    assert first[: first.index(0)] == second[1 : 1 + first.index(0)]
