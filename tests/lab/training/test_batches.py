"""Batches are a function of the seed and their number, whoever makes them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from small_training import nano, small_batches, spoken
from whispertide.features import log_mel
from whispertide_lab.training.augment import Augmentation
from whispertide_lab.training.batches import Batches, BatchOptions, Phase, Source, collate, hide, padded
from whispertide_lab.training.shards import open_shards, write_shard
from whispertide_lab.training.windows import WindowOptions, compose

pytestmark = pytest.mark.slow

TENSORS = ("mel", "tokens", "targets", "places")


def same(one: Any, other: Any) -> bool:
    return one.texts == other.texts and all(torch.equal(getattr(one, name), getattr(other, name)) for name in TENSORS)


@pytest.mark.filterwarnings("ignore:This DataLoader")  # more workers than cores
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_equal_for_any_number_of_workers(speech: Path, workers: int) -> None:
    batches = small_batches(speech, count=12)
    made = list(batches.after(4, len(batches), workers))
    assert len(made) == 8
    assert all(map(same, made, (batches[number] for number in range(4, 12))))


def test_seed_and_number_decide(speech: Path) -> None:
    assert same(small_batches(speech)[3], small_batches(speech)[3])
    assert not same(small_batches(speech)[3], small_batches(speech)[4])
    assert not same(small_batches(speech)[3], small_batches(speech, seed=1)[3])


def test_windows_of_a_batch_are_of_one_length(speech: Path) -> None:
    """About as many seconds in each batch, whatever the length; lengths come by their shares."""
    made = [small_batches(speech)[number] for number in range(40)]
    assert {batch.mel.shape[2] for batch in made} == {100, 200}
    assert all(batch.seconds == pytest.approx(4.0) for batch in made)
    assert 8 < sum(batch.mel.shape[2] == 100 for batch in made) < 32
    assert all(batch.mel.shape[0] == len(batch.texts) == len(batch.tokens) for batch in made)


def test_phases_follow_each_other(speech: Path) -> None:
    short = BatchOptions(seconds=30, lengths_s=(2.0,), shares=(1.0,))
    batches = Batches(
        [Source(open_shards([speech]), 1.0)], nano().tokenizer, [Phase(2, short), Phase(4, padded(short))], 0
    )
    assert len(batches) == 4
    assert [batches[number].mel.shape[2] for number in range(4)] == [200, 200, 3000, 3000]
    assert padded(short).seconds == short.seconds


def test_sources_are_drawn_by_their_shares(tmp_path: Path) -> None:
    sources = []
    for number, share in ((0, 1.0), (5, 3.0)):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_shard(folder, 0, [spoken(number)])
        sources.append(Source(open_shards([folder]), share))
    batches = Batches(sources, nano().tokenizer, [Phase(9, BatchOptions())], 0)
    dice = np.random.RandomState(0)
    drawn = [batches._draw(dice).text for _ in range(400)]
    assert 0.68 < drawn.count("Don't forget the letter.") / 400 < 0.82


def test_features_are_those_of_the_engine(speech: Path) -> None:
    options = BatchOptions(seconds=2.0, lengths_s=(2.0,), shares=(1.0,), mask_time=0, mask_mels=0)
    shards = open_shards([speech])
    made = Batches([Source(shards, 1.0)], nano().tokenizer, [Phase(1, options)], 5)[0]
    dice = np.random.RandomState([5, 0])
    dice.random_sample()  # which length
    batches = Batches([Source(shards, 1.0)], nano().tokenizer, [Phase(1, options)], 5)
    window = compose(batches._draw, nano().tokenizer, 2.0, dice, options.windows)
    assert np.array_equal(made.mel[0].numpy(), log_mel(window.samples))
    assert made.tokens[0].tolist() == window.tokens.tolist()


def test_windows_are_made_with_stretches_hidden(speech: Path) -> None:
    """What is not hidden is what it would be otherwise, and each window has stretches of its own."""
    clear = BatchOptions(seconds=12.0, lengths_s=(2.0,), shares=(1.0,), mask_time=0, mask_mels=0)
    masked = replace(clear, mask_time=30, mask_mels=12)
    made, before = (
        Batches([Source(open_shards([speech]), 1.0)], nano().tokenizer, [Phase(1, options)], 5)[0].mel.numpy()
        for options in (masked, clear)
    )
    changed = made != before
    assert 0.1 < changed.mean() < 0.5
    for hidden, mel, whole in zip(changed, made, before, strict=True):
        assert hidden.any()
        assert np.allclose(mel[hidden], whole.mean(), atol=1e-5)
    assert len({hidden.tobytes() for hidden in changed}) == len(changed)


def test_short_rows_are_filled_with_what_does_not_count(speech: Path) -> None:
    shards = open_shards([speech])
    dice = np.random.RandomState(3)
    options = replace(WindowOptions(), silent=0.5)
    windows = [compose(lambda d: shards[int(d.randint(12))], nano().tokenizer, 2.0, dice, options) for _ in range(8)]
    batch = collate(windows, [log_mel(window.samples) for window in windows], nano().tokenizer.eot)
    for row, window in enumerate(windows):
        count = len(window.tokens)
        assert batch.targets[row, :count].tolist() == window.targets.tolist()
        assert (batch.targets[row, count:] == -1).all()
        assert (batch.tokens[row, count:] == nano().tokenizer.eot).all()
        assert (batch.places[row, count:] == -1).all()


def stretches(hidden: Any) -> list[int]:
    """Lengths of the runs of True."""
    edges = np.flatnonzero(np.diff([0, *hidden.astype(int), 0]))
    return list(edges[1::2] - edges[::2])


def test_hidden_stretches() -> None:
    """At most two stretches of each kind, none longer than asked for, of every length up to that, at the mean."""
    bands, frames = [], []
    for seed in range(100):
        mel = np.random.RandomState(99).standard_normal((80, 300)).astype(np.float32)
        before, mean = mel.copy(), mel.mean()
        hide(mel, 12, 30, np.random.RandomState(seed))
        changed = mel != before
        assert (mel[changed] == mean).all()
        rows, columns = changed.all(axis=1), changed.all(axis=0)
        assert (changed == (rows[:, None] | columns[None])).all()
        bands.append(stretches(rows))
        frames.append(stretches(columns))
    for found, longest in ((bands, 12), (frames, 30)):
        assert max(map(len, found)) == 2
        assert max(map(sum, found)) <= 2 * longest
        apart = [length for lengths in found if len(lengths) == 2 for length in lengths]
        assert max(apart) == longest
        assert min(apart) <= 2
        assert longest * 0.7 < np.mean([sum(lengths) for lengths in found]) < longest * 1.1  # half of each, twice
    untouched = before.copy()
    hide(untouched, 0, 0, np.random.RandomState(0))
    assert np.array_equal(untouched, before)
    tiny = np.ones((4, 3), np.float32)
    hide(tiny, 12, 30, np.random.RandomState(0))


def speakers(tmp_path: Path, *counts: int) -> Batches:
    """Batches of windows that each have one speaker; speaker n says counts[n] sentences, as "speaker n"."""
    said = [
        replace(spoken(number), source=f"speaker {speaker}", text=f"{speaker}", words=None)
        for speaker, count in enumerate(counts)
        for number in range(count)
    ]
    write_shard(tmp_path, 0, said)
    windows = WindowOptions(silent=0.0, single=0.0, prompt=0.5, cut_start=0.0, augmentation=Augmentation.none())
    options = BatchOptions(seconds=30.0, lengths_s=(15.0,), shares=(1.0,), one_speaker=1.0, windows=windows)
    return Batches([Source(open_shards([tmp_path]), 1.0)], nano().tokenizer, [Phase(40, options)], 0)


def test_windows_of_one_speaker(tmp_path: Path) -> None:
    batches = speakers(tmp_path, 30, 30)
    texts = [text for number in range(10) for text in batches[number].texts]
    assert {frozenset(text.split()) for text in texts} == {frozenset("0"), frozenset("1")}
    assert max(len(text.split()) for text in texts) > 3


def test_who_says_little_does_not_repeat_it(tmp_path: Path) -> None:
    texts = [text for number in range(10) for text in speakers(tmp_path, 3, 3)[number].texts]
    assert frozenset("01") in {frozenset(text.split()) for text in texts}
