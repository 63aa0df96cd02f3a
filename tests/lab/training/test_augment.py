"""What is done to speech does what it says, and the words' times follow."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_training import RATE, spoken
from whispertide.types import FloatArray
from whispertide_lab.training.augment import (
    Augmentation,
    SpokenWord,
    change_speed,
    insert_pause,
    reverberate,
    set_level,
    vary,
)
from whispertide_lab.training.noise import add_noise, disturb, make_noise, narrow, telephone

seeds = st.integers(0, 2**32 - 1)


def clicks(count: int, places: list[int]) -> FloatArray:
    """Silence with a short pulse at each place."""
    sound = np.zeros(count, np.float32)
    for place in places:
        sound[place : place + 40] = 0.5
    return sound


@given(speed=st.floats(0.8, 1.25), first=st.integers(0, 7000))
def test_speed_keeps_word_times_right(speed: float, first: int) -> None:
    """The pulses that mark the words are where the new times say."""
    words = [SpokenWord("a", first, 8000), SpokenWord("b", 8000, 16_000)]
    played, moved = change_speed(clicks(16_000, [first, 8000]), words, speed)
    assert len(played) == int(16_000 / speed)
    for word in moved:
        assert played[word.start + 3 : word.start + 28].min() > 0.4
        assert played[max(0, word.start - 60) : max(0, word.start - 2)].max(initial=0) == 0
    assert moved[1].end <= len(played)


@given(before=st.integers(1, 3), count=st.integers(1, 20_000))
def test_a_pause_moves_what_follows(before: int, count: int) -> None:
    said = spoken(1)
    assert said.words is not None
    words = [SpokenWord(text, *span) for text, span in zip(said.text.split(), said.words, strict=True)]
    samples: FloatArray = said.samples.astype(np.float32) / np.float32(32768)
    paused, moved = insert_pause(samples, words, before, count)
    at = words[before].start
    assert len(paused) == len(samples) + count
    assert not paused[at : at + count].any()
    assert np.array_equal(paused[: at - 80], samples[: at - 80])
    assert np.array_equal(paused[at + count + 80 :], samples[at + 80 :])
    assert [word.text for word in moved] == [word.text for word in words]
    assert [word.start for word in moved] == [w.start + (count if n >= before else 0) for n, w in enumerate(words)]


@given(seed=seeds, number=st.integers(0, 5), timed=st.booleans())
def test_varied_speech_keeps_its_words_in_order(seed: int, number: int, timed: bool) -> None:
    samples, words = vary(spoken(number, timed=timed), Augmentation(), np.random.RandomState(seed))
    assert [word.text for word in words] == spoken(number).text.split()
    assert all(0 <= word.start < word.end <= len(samples) for word in words)
    assert [word.start for word in words] == sorted(word.start for word in words)
    assert -30.1 < 20 * np.log10(np.abs(samples).max()) < 0.1
    assert samples.dtype == np.float32


def test_nothing_is_done_unless_asked() -> None:
    samples, words = vary(spoken(2), Augmentation.none(), np.random.RandomState(0))
    original = spoken(2).samples.astype(np.float32)
    assert np.allclose(samples, original / np.abs(original).max() * 10 ** (-6 / 20), atol=1e-6)
    assert tuple((word.start, word.end) for word in words) == spoken(2).words


@pytest.mark.parametrize("level_db", [-30.0, -6.0, 0.0])
def test_level(level_db: float) -> None:
    sound = clicks(1000, [10])
    set_level(sound, level_db)
    assert 20 * np.log10(np.abs(sound).max()) == pytest.approx(level_db, abs=1e-3)
    silence = np.zeros(100, np.float32)
    set_level(silence, level_db)
    assert not silence.any()


@given(seed=seeds, ratio_db=st.floats(-5, 40))
def test_noise_has_the_ratio_asked_for(seed: int, ratio_db: float) -> None:
    """Measured where there is speech: half of this window is silent."""
    clean = np.zeros(2 * RATE, np.float32)
    clean[RATE:] = 0.1 * np.sin(np.arange(RATE) * 0.3)
    noisy = clean.copy()
    add_noise(noisy, ratio_db, np.random.RandomState(seed))
    speech, noise = np.mean(clean[RATE:] ** 2), np.mean((noisy - clean) ** 2)
    assert 10 * np.log10(speech / noise) == pytest.approx(ratio_db, abs=0.05)


@given(seed=seeds, count=st.integers(1, 50_000))
def test_noise_of_every_kind(seed: int, count: int) -> None:
    noise = make_noise(count, np.random.RandomState(seed))
    assert noise.shape == (count,)
    assert noise.dtype == np.float32
    assert np.isfinite(noise).all()
    if count > 2000:
        assert np.sqrt(np.mean(noise**2)) == pytest.approx(1, abs=0.01)


def test_kinds_of_noise_differ() -> None:
    """By how much of their power lies below 500 Hz, and by how even they are."""
    shapes = set()
    for seed in range(60):
        noise = make_noise(RATE, np.random.RandomState(seed))
        power = np.abs(np.fft.rfft(noise)) ** 2
        loudness = np.sqrt(np.mean(noise.reshape(-1, 160) ** 2, axis=1))
        shapes.add((bool(power[:500].sum() > 0.5 * power.sum()), bool(loudness.std() > 0.5)))
    assert len(shapes) == 4


def band_power(sound: FloatArray, low: int, high: int) -> float:
    """In decibels; of one second."""
    return float(10 * np.log10(np.sum(np.abs(np.fft.rfft(sound)[low:high]) ** 2) + 1e-12))


@pytest.mark.parametrize("change", [lambda sound: narrow(sound, 300, 3400), telephone], ids=["band", "telephone"])
def test_narrow_bands(change: Callable[[FloatArray], None]) -> None:
    sound = 0.1 * np.random.RandomState(0).standard_normal(RATE).astype(np.float32)
    before = sound.copy()
    change(sound)
    assert abs(band_power(sound, 500, 3000) - band_power(before, 500, 3000)) < 0.5
    assert band_power(sound, 4000, 8000) < band_power(before, 4000, 8000) - 20


def test_a_telephone_has_eight_bits() -> None:
    sound = np.sin(np.arange(RATE) * 0.4).astype(np.float32)
    telephone(sound)
    assert 20 < len(np.unique(sound)) <= 255


def test_a_room_neither_delays_nor_lengthens() -> None:
    sound = clicks(RATE, [4000])
    heard = reverberate(sound, np.random.RandomState(1))
    assert heard.shape == sound.shape
    assert np.abs(heard[:4000]).max() < 1e-5
    assert np.allclose(heard[4000:4040], 0.5, atol=1e-4)
    assert np.abs(heard[4200:]).max() > 1e-3


@pytest.mark.parametrize("speech", [True, False])
def test_disturbed_windows_stay_within_full_scale(speech: bool) -> None:
    always = Augmentation(noise=1, band=1, codec=1, ratio_db=(-10, -10))
    for seed in range(20):
        sound = np.full(4000, 0.9, np.float32) if speech else np.zeros(4000, np.float32)
        disturb(sound, always, np.random.RandomState(seed), speech=speech)
        assert np.abs(sound).max() <= 1
        assert np.isfinite(sound).all()


def test_one_speaker_in_one_place() -> None:
    """Settled once, every utterance has that speed and that level."""
    settled = Augmentation(speed=1.0, pause=0.0, room=0.0).settled(np.random.RandomState(3))
    assert settled.speed_range[0] == settled.speed_range[1]
    assert settled.room == 0.0
    dice = np.random.RandomState(4)
    heard = [vary(spoken(number), settled, dice)[0] for number in (1, 2, 3)]
    assert np.ptp([float(np.abs(samples).max()) for samples in heard]) < 1e-4
    shares = [len(samples) / len(spoken(number).samples) for number, samples in zip((1, 2, 3), heard, strict=True)]
    assert np.ptp(shares) < 1e-3


def test_settling_draws_anew_each_time() -> None:
    levels = {Augmentation().settled(np.random.RandomState(seed)).level_db for seed in range(20)}
    rooms = {Augmentation(room=0.5).settled(np.random.RandomState(seed)).room for seed in range(20)}
    assert len(levels) == 20
    assert rooms == {0.0, 1.0}
