"""What is held back of speech: people who are not trained on, where there are enough of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from small_training import spoken
from whispertide_lab.training.lessons import HELD_BACK, divided
from whispertide_lab.training.shards import Shards, open_shards, write_shard

pytestmark = pytest.mark.slow


def speech(folder: Path, speakers: int) -> Shards:
    """Each says two sentences."""
    said = [replace(spoken(number), source=f"person {number % speakers}") for number in range(2 * speakers)]
    write_shard(folder, 0, said)
    return open_shards([folder])


def test_no_speaker_who_is_held_back_is_trained_on(tmp_path: Path) -> None:
    trained, held_back = divided(speech(tmp_path, 2 * HELD_BACK))
    assert not set(trained.by_speaker()) & set(held_back.by_speaker())
    assert len(held_back.by_speaker()) == 2
    assert len(trained) + len(held_back) == 4 * HELD_BACK


def test_of_few_speakers_some_of_what_they_say_is_held_back(tmp_path: Path) -> None:
    trained, held_back = divided(speech(tmp_path, HELD_BACK - 1))
    assert (len(trained), len(held_back)) == (2 * HELD_BACK - 4, 2)
