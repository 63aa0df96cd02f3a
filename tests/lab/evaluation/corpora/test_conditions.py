"""What is done to talks, on made-up sounds."""

from collections import Counter

import numpy as np
import pytest

from whispertide.types import Span
from whispertide_lab.evaluation.corpora.conditions import NOISES, TONES, Condition, degrade, noisy, recorded
from whispertide_lab.speech.noise import Sound, rms
from whispertide_lab.speech.talks import TALKS

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
    done = [noisy(0, number) for number in range(TALKS)]
    known, held_out = (Counter((each.noise, each.ratio_db) for each in done[side::2]) for side in (0, 1))
    assert known == held_out
    assert {each.noise for each in done} == set(NOISES)
    assert {each.ratio_db for each in done} == {5.0, 10.0, 15.0, 20.0}
    assert 0.2 < sum(each.decay_s == 0 for each in done) / TALKS < 0.5
    assert noisy(1, 0) != noisy(0, 0)


def test_a_ratio_may_be_the_same_for_all() -> None:
    usual, asked = ([noisy(0, number, ratio_db) for number in range(TALKS)] for ratio_db in (None, 12.0))
    assert {each.ratio_db for each in asked} == {12.0}
    assert [each.noise for each in usual] == [each.noise for each in asked]
    assert [each.decay_s for each in usual] == [each.decay_s for each in asked]


def test_rooms_are_quiet_and_differ() -> None:
    done = [recorded(0, number) for number in range(TALKS)]
    assert {each.noise for each in done} == set(TONES)
    assert all(each.microphone and each.decay_s > 0 and 30 <= each.ratio_db <= 45 for each in done)
    assert len({each.decay_s for each in done}) == TALKS


def test_a_microphone_colours_and_keeps_loudness_and_place() -> None:
    flat, coloured = (Condition("white", 40, 0.0, 6.0, 0.0, -26.0, microphone) for microphone in (False, True))
    heard = [degrade(speech(), np.zeros(48000), WORDS, each, dice()) for each in (flat, coloured)]
    inside = [np.concatenate([sound[span.start : span.end] for span in WORDS]) for sound in heard]
    assert [20 * np.log10(rms(each)) for each in inside] == pytest.approx([-26, -26], abs=0.05)
    assert not np.allclose(heard[0], heard[1], atol=1e-3)
    assert np.abs(heard[1][:7999]).max() < 1e-9  # nothing comes early
    assert rms(heard[1][8000:8200]) > 0.3 * rms(inside[1])
