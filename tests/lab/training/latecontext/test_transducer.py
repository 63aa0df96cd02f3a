"""RNN-T: its loss against the sum over all ways, streaming, and that it learns what is said."""

from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lab.training.latecontext.test_run import DIMS, OPTIONS, command
from whispertide.audio.buffer import to_float
from whispertide.understand.model import features
from whispertide_lab.training.latecontext.batches import LateBatch
from whispertide_lab.training.latecontext.run import open_trainer
from whispertide_lab.training.latecontext.transducer import Transducer, transducer_loss
from whispertide_lab.training.shards import open_shards, write_shard

pytestmark = pytest.mark.slow

BLANK = 4


def by_hand(scores: np.ndarray, text: list[int], frames: int) -> float:
    """Minus the log of the sum over all frames that each token can be said in, never backward."""
    total = -np.inf
    for places in combinations_with_replacement(range(frames), len(text)):
        way, said = 0.0, 0
        for at in range(frames):
            while said < len(text) and places[said] == at:
                way += scores[at, said, text[said]]
                said += 1
            way += scores[at, said, BLANK]
        total = np.logaddexp(total, way)
    return -float(total)


def loss_of(scores: Any, targets: Any, frames: Any, counts: Any) -> Any:
    """From log probabilities [b, t, n, v] of all tokens."""
    wanted = targets[:, None, :-1, None].clamp(min=0).expand(-1, scores.shape[1], -1, 1)
    return transducer_loss(scores[:, :, :-1].gather(-1, wanted)[..., 0], scores[..., BLANK], frames, counts)


def test_the_loss_is_the_sum_over_all_ways() -> None:
    torch.manual_seed(0)
    scores = torch.randn(3, 5, 4, BLANK + 1, dtype=torch.float64).log_softmax(-1)
    texts, frames = [[1, 2, 2], [3], []], [5, 3, 2]
    targets = torch.tensor([[1, 2, 2, 0], [3, 0, -1, -1], [0, -1, -1, -1]])
    found = loss_of(scores, targets, torch.tensor(frames), torch.tensor([3, 1, 0]))
    expected = [by_hand(scores[row].numpy(), text, frames[row]) for row, text in enumerate(texts)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)


def test_its_gradient_is_that_of_the_loss() -> None:
    torch.manual_seed(1)
    logits = torch.randn(1, 3, 3, BLANK + 1, dtype=torch.float64, requires_grad=True)
    targets, lengths, counts = torch.tensor([[2, 1, 0]]), torch.tensor([3]), torch.tensor([2])

    def loss(values: Any) -> Any:
        return loss_of(values.log_softmax(-1), targets, lengths, counts)

    assert torch.autograd.gradcheck(loss, (logits,))


def test_what_is_padded_counts_for_nothing() -> None:
    """A batch of two has the losses of both, each by itself."""
    torch.manual_seed(0)
    network = Transducer(replace(DIMS, kind="rnnt")).eval()
    targets = torch.tensor([[4, 7, 5, 0], [9, 0, -1, -1]])
    tokens = torch.cat([torch.zeros(2, 1, dtype=torch.long), targets[:, :-1].clamp(min=0)], 1)
    mel, lengths = torch.randn(2, DIMS.n_mels, 40), torch.tensor([10, 6])

    def batch_of(rows: slice, until: int, count: int) -> LateBatch:
        spoken = torch.full((len(lengths[rows]), until), -1)
        sound = mel[rows, :, : 4 * until]
        return LateBatch(sound, lengths[rows], tokens[rows, :count], targets[rows, :count], spoken, 1.0)

    def loss(batch: LateBatch) -> float:
        _, said = network(batch.mel, batch.lengths, batch.tokens)
        return float(network.text_loss(said, batch, 0.0))

    with torch.no_grad():
        both = loss(batch_of(slice(0, 2), 10, 4))
        apart = [loss(batch_of(slice(0, 1), 10, 4)), loss(batch_of(slice(1, 2), 6, 2))]
    assert both == pytest.approx(sum(apart), rel=1e-5)


def test_all_of_it_streams() -> None:
    torch.manual_seed(0)
    network = Transducer(replace(DIMS, kind="rnnt")).eval()
    mel = torch.randn(1, DIMS.n_mels, 40)
    later = mel.clone()
    later[..., 24:] += 1
    with torch.no_grad():
        one, other = (network.encoder(sound, None)[0][:, :6] for sound in (mel, later))
    torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.soak
def test_it_learns_to_say_the_text_and_then_the_intent(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, [command(number % 10) for number in range(80)])
    shards = open_shards([tmp_path])
    dims = replace(DIMS, kind="rnnt", width=48, inner=96)
    batch = replace(OPTIONS.batch, count=10, before_s=0.1, after_s=0.0)
    options = replace(OPTIONS, dims=dims, batch=batch, steps=110, epoch=55, rate=0.015, dropout=0.0)
    trainer = open_trainer(shards, options, tmp_path / "run")
    trainer.run(lambda step, figures: None)
    said = [shards[number] for number in range(10)]
    network = trainer.network
    assert isinstance(network, Transducer)
    heard = [
        trainer.vocabulary.decode(network.greedy(torch.from_numpy(features(to_float(one.samples), 80))[None]))
        for one in said
    ]
    assert sum(text == one.text for (_, text), one in zip(heard, said, strict=True)) >= 3
    assert sum(intent == one.intent for (intent, _), one in zip(heard, said, strict=True)) >= 3
