from pathlib import Path

import numpy as np
import pytest

from other_machine import hash_elsewhere
from whispertide_lab.evaluation.corpora.nonspeech import RECORDINGS, SECONDS, open_nonspeech
from whispertide_lab.speech.noise import KINDS


@pytest.mark.slow
def test_two_quick_minutes_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    corpus = open_nonspeech(quick=True)
    utterances = list(corpus.utterances())
    assert sum(utterance.seconds for utterance in utterances) == 120
    assert len({utterance.group for utterance in utterances}) == len(utterances)
    assert not any(utterance.words or utterance.exact_times for utterance in utterances)
    assert utterances[0].group == "silence"
    assert not utterances[0].audio().any()
    assert all(np.any(utterance.audio()) for utterance in utterances[1:])


@pytest.mark.slow
def test_the_seed_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(where: str, seed: int) -> str:
        monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / where))
        return open_nonspeech(quick=True, seed=seed).hash

    assert made("here", 0) == made("there", 0)
    assert made("here", 1) != made("here", 0)


@pytest.mark.slow
def test_the_hash_is_the_same_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written down on one machine, made here, and made here without vector instructions."""
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "here"))
    assert open_nonspeech(quick=True).hash == "05ecb1dfb7fa"
    assert hash_elsewhere("nonspeech.open_nonspeech(quick=True).hash", tmp_path / "there") == "05ecb1dfb7fa"


def test_an_hour_in_all_of_every_kind() -> None:
    assert RECORDINGS * SECONDS == 3600
    assert len(KINDS) <= RECORDINGS
