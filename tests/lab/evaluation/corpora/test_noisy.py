from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from whispertide.lab.evaluation.corpora.noisy import NOISES, Condition, condition, degrade, open_noisy
from whispertide.lab.speech.noise import Sound, rms
from whispertide.lab.speech.talks import TALKS, open_talks
from whispertide.lab.speech.utterance import Beginnings
from whispertide.types import SAMPLE_RATE, Span

WORDS = [Span(8000, 16000), Span(24000, 40000)]


def speech() -> Sound:
    sound = np.zeros(48000)
    for span in WORDS:
        sound[span.start : span.end] = 0.3 * np.sin(0.3 * np.arange(len(span)))
    return sound


def dice() -> np.random.RandomState:
    return np.random.RandomState(0)


@pytest.mark.parametrize("ratio", [20.0, 5.0])
@pytest.mark.parametrize("decay", [0.0, 0.4])
def test_ratio_of_speech_to_noise_and_loudness_are_as_asked(ratio: float, decay: float) -> None:
    done = Condition("white", ratio, decay, 6.0, 3.0, -26.0)
    noise = np.random.RandomState(1).standard_normal(48000)
    clean = degrade(speech(), np.zeros(48000), WORDS, done, dice())
    heard = degrade(speech(), noise, WORDS, done, dice())
    inside = np.concatenate([clean[span.start : span.end] for span in WORDS])
    assert 20 * np.log10(rms(inside)) == pytest.approx(-26, abs=0.01)
    assert 20 * np.log10(rms(inside) / rms(heard - clean)) == pytest.approx(ratio, abs=0.01)


def test_words_stay_where_they_are_in_a_room() -> None:
    heard = degrade(speech(), np.zeros(48000), WORDS, Condition("white", 20, 0.5, 3.0, 0.0, -26.0), dice())
    assert not np.any(np.abs(heard[:7999]) > 1e-9)
    assert rms(heard[8000:8200]) > 0.3 * rms(heard[8000:16000])
    assert rms(heard[16000:18000]) > 1e-4  # it rings on


def test_nothing_is_louder_than_full_scale() -> None:
    heard = degrade(
        speech(), np.random.RandomState(1).standard_normal(48000), WORDS, Condition("white", 0, 0, 0, 6, 0), dice()
    )
    assert np.abs(heard).max() == pytest.approx(0.99)


def test_conditions_are_spread_alike_over_known_and_held_out_voices() -> None:
    done = [condition(0, number) for number in range(TALKS)]
    known, held_out = (Counter((each.noise, each.ratio_db) for each in done[side::2]) for side in (0, 1))
    assert known == held_out
    assert {each.noise for each in done} == set(NOISES)
    assert {each.ratio_db for each in done} == {5.0, 10.0, 15.0, 20.0}
    assert 0.2 < sum(each.decay_s == 0 for each in done) / TALKS < 0.5
    assert condition(1, 0) != condition(0, 0)


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
