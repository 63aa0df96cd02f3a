"""Shards come back as they were written, and damaged ones are told."""

import json
from pathlib import Path

import numpy as np
import pytest

from small_training import spoken, write_speech
from whispertide.errors import CorpusError
from whispertide_lab.speech.text import is_reserved
from whispertide_lab.training.shards import open_shards, write_shard


def test_written_and_read(tmp_path: Path) -> None:
    written = [spoken(0), spoken(1, timed=False), spoken(2)]
    write_shard(tmp_path, 7, written)
    shards = open_shards([tmp_path])
    assert len(shards) == 3
    for read, one in zip(shards, written, strict=True):
        assert np.array_equal(read.samples, one.samples)
        assert (read.text, read.source, read.words) == (one.text, one.source, one.words)
    assert shards.seconds == pytest.approx(sum(len(one.samples) for one in written) / 16_000)
    assert list(shards.texts) == [one.text for one in written]


def test_samples_stay_on_the_disk(tmp_path: Path) -> None:
    shards = open_shards([write_speech(tmp_path / "a")])
    assert isinstance(shards[3].samples.base, np.memmap)


def test_some_of_several_folders(tmp_path: Path) -> None:
    shards = open_shards([write_speech(tmp_path / "a"), write_speech(tmp_path / "b")])
    assert len(shards) == 24
    short = shards.having(lambda place: place.seconds < 1)
    assert 0 < len(short) < 24
    assert all(len(said.samples) < 16_000 for said in short)
    assert shards.spread(3).places == tuple(shards.places[at] for at in (0, 11, 23))
    assert shards.spread(99) == shards


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "00001.npy").unlink(),
        lambda folder: (folder / "00001.npy").write_bytes((folder / "00001.npy").read_bytes()[:-100]),
        lambda folder: (folder / "00001.json").write_text("[{"),
        lambda folder: (folder / "00001.json").write_text('[{"text": "Yes."}]'),
        lambda folder: (folder / "00001.json").write_text(
            json.dumps([{**entry, "words": [[0, 1]]} for entry in json.loads((folder / "00001.json").read_text())])
        ),
    ],
    ids=["no sound", "cut off", "no list", "no length", "words without spans"],
)
def test_damaged(tmp_path: Path, damage: object) -> None:
    folder = write_speech(tmp_path / "a")
    damage(folder)  # type: ignore[operator]
    with pytest.raises(CorpusError, match=r"00001\.json.*damaged"):
        open_shards([folder])


def test_a_folder_without_shards_says_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="train prepare"):
        open_shards([tmp_path])


def test_a_text_is_reserved_for_any_of_its_sentences() -> None:
    sentences = [f"This is sentence number {number}." for number in range(100)]
    kept = [sentence for sentence in sentences if not is_reserved(sentence)]
    reserved = [sentence for sentence in sentences if is_reserved(sentence)]
    assert 3 < len(reserved) < 20
    assert is_reserved(f'He said: "{kept[0]}" {reserved[0]} And then it ended!')
    assert not is_reserved(kept[0].upper())
    assert is_reserved(reserved[0].upper())
