import numpy as np
import pytest

from whispertide_lab.speech.noise import (
    KINDS,
    colored,
    convolve,
    decibels,
    microphone,
    rms,
    room,
    to_int16,
    wandering_level,
)


def dice(seed: int = 0) -> np.random.RandomState:
    return np.random.RandomState(seed)


@pytest.mark.parametrize(("exponent", "slope_db"), [(0, 0.0), (1, -3.01), (2, -6.02)])
def test_colored_noise_falls_as_its_name_says(exponent: float, slope_db: float) -> None:
    power = np.abs(np.fft.rfft(colored(30 * 16000, dice(), exponent))) ** 2
    hertz = np.fft.rfftfreq(30 * 16000, 1 / 16000)
    levels = [
        10 * np.log10(power[(hertz > low) & (hertz < 2 * low)].mean()) for low in (125.0, 250.0, 500.0, 1000.0, 2000.0)
    ]
    assert np.diff(levels) == pytest.approx([slope_db] * 4, abs=0.5)


def test_long_noise_has_no_seam() -> None:
    sound = colored(31 * 16000, dice(), 2)
    seam = np.abs(np.diff(sound))[30 * 16000 - 1]
    assert seam < 5 * np.abs(np.diff(sound)).mean()


def test_a_room_decays_by_60_db_and_begins_with_the_direct_sound() -> None:
    response = room(dice(), 0.5, 6.0)
    assert response[0] == 1.0
    assert not response[1:80].any()
    assert np.sum(response[1:] ** 2) == pytest.approx(decibels(-6.0) ** 2, rel=0.05)
    quarter = len(response) // 4
    early, late = (rms(response[k * quarter : (k + 1) * quarter]) for k in (1, 3))
    assert 20 * np.log10(early / late) == pytest.approx(30, abs=2)


@pytest.mark.slow
def test_convolving_in_blocks_is_convolving() -> None:
    sound, response = dice(1).standard_normal(700_000), dice(2).standard_normal(5000)
    whole = np.fft.irfft(np.fft.rfft(sound, 1 << 20) * np.fft.rfft(response, 1 << 20), 1 << 20)[: len(sound)]
    np.testing.assert_allclose(convolve(sound, response), whole, rtol=0, atol=1e-6)


def test_the_level_wanders_within_its_range() -> None:
    gains = 20 * np.log10(wandering_level(60 * 16000, dice(), 6.0))
    assert np.abs(gains).max() <= 6.0
    assert gains.std() > 0.5
    assert np.abs(np.diff(gains)).max() < 0.001


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_is_seeded_and_within_full_scale(kind: str) -> None:
    sound = KINDS[kind](5 * 16000, dice(3))
    assert sound.shape == (5 * 16000,)
    assert np.abs(sound).max() <= 1.0
    assert np.array_equal(sound, KINDS[kind](5 * 16000, dice(3)))
    if kind != "silence":
        assert to_int16(sound).any()
        assert not np.array_equal(sound, KINDS[kind](5 * 16000, dice(4)))


def test_rounding_cuts_what_is_too_loud() -> None:
    assert to_int16(np.array([2.0, -2.0, 0.5])).tolist() == [32767, -32768, 16384]


@pytest.mark.parametrize("seed", range(4))
def test_a_microphone_takes_the_depths_away_and_delays_nothing(seed: int) -> None:
    response = microphone(np.random.RandomState(seed))
    energy = np.cumsum(response**2) / np.sum(response**2)
    assert energy[16] > 0.8  # within a millisecond
    gain = np.abs(np.fft.rfft(response, 2 * 16000))
    assert gain[2 * 30] < 0.3 * gain[2 * 1000]
    assert gain[2 * 7900] < gain[2 * 3000]
