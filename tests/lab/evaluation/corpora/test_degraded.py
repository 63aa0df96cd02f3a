from pathlib import Path

import numpy as np
import pytest

from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation.corpora.degraded import open_noisy, open_rooms
from whispertide_lab.speech.noise import rms
from whispertide_lab.speech.talks import open_talks
from whispertide_lab.speech.utterance import Beginnings


@pytest.mark.slow
def test_noisy_talks_keep_words_and_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")  # without flite, which takes longer
    some = Beginnings(3, 5 * SAMPLE_RATE)
    clean, noisy = open_talks(beginnings=some), open_noisy(beginnings=some)
    assert len(list(noisy.utterances())) == 3
    assert clean.hash != noisy.hash
    for one, other in zip(clean.utterances(), noisy.utterances(), strict=True):
        assert one.words == other.words
        assert other.exact_times
        assert one.group == other.group
        assert one.seconds == other.seconds
        assert rms(one.audio().astype(float)) != pytest.approx(rms(other.audio().astype(float)), rel=0.01)
    (tmp_path / "corpora" / noisy.folder.name / "noisy-02.flac").unlink()
    assert open_noisy(beginnings=some).hash == noisy.hash


@pytest.mark.slow
def test_rooms_are_never_quite_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    some = Beginnings(2, 5 * SAMPLE_RATE)
    clean, rooms, loud = open_talks(beginnings=some), open_rooms(beginnings=some), open_noisy("0", beginnings=some)
    assert len({clean.name, rooms.name, loud.name}) == len({clean.hash, rooms.hash, loud.hash}) == 3
    for talk, room, noisy in zip(clean.utterances(), rooms.utterances(), loud.utterances(), strict=True):
        assert talk.words == room.words == noisy.words

        def quietest(sound: np.ndarray) -> float:
            return min(
                rms(part) for part in np.split(sound[: len(sound) // 800 * 800].astype(float), len(sound) // 800)
            )

        assert quietest(talk.audio()) == 0
        assert 0 < quietest(room.audio()) < 0.1 * rms(room.audio().astype(float)) < quietest(noisy.audio())
