"""Speech for training small layers: exact times, no test sentence, no held-out voice."""

import subprocess
import sys
from pathlib import Path

import pytest

from whispertide_lab.speech.installed import installed
from whispertide_lab.speech.text import is_test_sentence
from whispertide_lab.speech.voices import HELD_OUT, TRAINED
from whispertide_lab.training.shards import open_shards
from whispertide_lab.training.timed_speech import PACES


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_a_shard(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "whispertide_lab.training.timed_speech", str(tmp_path), str(number), "7", "20"]
    subprocess.run(command, check=True, timeout=120)
    said = list(open_shards([tmp_path]))
    assert 20 <= sum(len(utterance.samples) for utterance in said) / 16_000 < 40
    for utterance in said:
        assert not is_test_sentence(utterance.text)
        assert utterance.source == str(installed().trained[number])
        assert utterance.words is not None
        assert len(utterance.words) == len(utterance.text.split())
        assert all(0 <= start < end <= len(utterance.samples) for start, end in utterance.words)


def test_no_held_out_voice_and_more_than_one_pace() -> None:
    assert not set(TRAINED) & set(HELD_OUT)
    assert len(set(PACES)) > 1
