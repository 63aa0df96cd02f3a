"""Sounds that are not speech, as they lie over it: hiss, hum, music, knocks; narrow bands and telephones.

In numpy, quick enough to be made anew for each window. Knows nothing of words.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.speech.noise import Dice, between
from whispertide_lab.training.augment import Augmentation

Sound = npt.NDArray[np.floating[Any]]

ACTIVE = 1e-4  # samples below this, 80 dB under full scale, are silence and do not count for a signal's level


def make_noise(count: int, dice: Dice) -> FloatArray:
    """Noise of one of several kinds, at times over a quieter one, RMS 1, [count]; `count` is not 0."""
    noise = _one_kind(count, dice)
    if dice.random_sample() >= 0.25:
        return noise
    return _level(noise + _one_kind(count, dice) * np.float32(10 ** (-30 * dice.random_sample() / 20)))


def _one_kind(count: int, dice: Dice) -> FloatArray:
    kinds = (_coloured, _coloured, _puffs, _hum, _tones, _tones, _knocks, _calls, _calls)  # what is like speech: often
    return _level(kinds[dice.randint(len(kinds))](count, dice).astype(np.float32))


def _level(noise: FloatArray) -> FloatArray:
    return noise / np.float32(max(float(np.sqrt(np.mean(noise**2))), 1e-6))


def _coloured(count: int, dice: Dice) -> Sound:
    size = min(count, 1 << 17)
    spectrum = np.fft.rfft(dice.standard_normal(size).astype(np.float32))
    hertz = np.maximum(np.fft.rfftfreq(size, 1 / SAMPLE_RATE), 20.0).astype(np.float32)
    spectrum *= hertz ** np.float32(-(2.5 * dice.random_sample() - 0.4) / 2)
    return np.resize(np.fft.irfft(spectrum, size), count)


def _puffs(count: int, dice: Dice) -> Sound:
    """Wind, traffic: it comes and goes."""
    knots = max(2, count // (SAMPLE_RATE // 2))
    swell = np.interp(np.arange(count), np.linspace(0, count, knots), dice.random_sample(knots) ** 2)
    return _coloured(count, dice) * swell


def _hum(count: int, dice: Dice) -> Sound:
    """A machine: a low note and its overtones."""
    base = 40 * 8 ** dice.random_sample()
    note = np.exp(2j * np.pi * base / SAMPLE_RATE * np.arange(count)).astype(np.complex64)
    sound, turned = np.zeros(count, np.float32), note.copy()
    for overtone in range(1, 9):
        phase = np.exp(6j * dice.random_sample())
        sound += (turned * np.complex64(phase)).imag / np.float32(overtone**1.2)
        turned *= note
    return sound


def _tones(count: int, dice: Dice) -> Sound:
    """Notes one after the other, alone or in chords, some gliding."""
    sound = np.zeros(count)
    at = 0
    decay = 6 * dice.random_sample()
    while at < count:
        length = int(SAMPLE_RATE * (0.08 + 1.5 * dice.random_sample() ** 2))
        time = np.arange(min(length, count - at)) / SAMPLE_RATE
        for _ in range(dice.randint(1, 4)):
            pitch = 80 * 40 ** dice.random_sample()
            glide = 1 + (dice.random_sample() - 0.5) * (dice.random_sample() < 0.3) * time
            phase, loudness = 2 * np.pi * pitch * glide * time, np.exp(-decay * time)
            for overtone in range(1, 1 + dice.randint(1, 6)):
                sound[at : at + len(time)] += np.sin(overtone * phase) * loudness / overtone**1.5
        at += length if dice.random_sample() < 0.8 else 2 * length
    return sound


def _calls(count: int, dice: Dice) -> Sound:
    """What calls: animals, alarms, squeaks, whistles. Groups of short notes that glide or waver, and pauses."""
    sound = np.zeros(count)
    at = int(dice.randint(1 + min(count, SAMPLE_RATE) // 2))
    centre, spread = 300 * 20 ** dice.random_sample(), 2 * dice.random_sample()
    while at < count:
        length = int(SAMPLE_RATE * (0.03 + 0.5 * dice.random_sample() ** 2))
        time = np.arange(length) / SAMPLE_RATE
        pitch = min(centre * 2 ** (spread * (dice.random_sample() - 0.5)), 7000.0)
        glide, waver = pitch * dice.uniform(-0.6, 0.6) / time[-1], pitch * 0.1 * dice.random_sample()
        phase = pitch * time + glide * time**2 / 2 + waver * np.sin(2 * np.pi * dice.uniform(5, 40) * time) / 20
        fall = dice.uniform(1, 3)
        wave = sum(np.sin(2 * np.pi * tone * phase) / tone**fall for tone in range(1, max(2, dice.randint(6))))
        swell = np.sin(np.pi * np.linspace(0, 1, length) ** dice.uniform(0.3, 2))
        end = min(count, at + length)
        sound[at:end] += (dice.uniform(0.2, 1) * swell * wave)[: end - at]
        at += length + int(SAMPLE_RATE * dice.exponential(0.08 if dice.random_sample() < 0.7 else 1.5))
    return sound


def _knocks(count: int, dice: Dice) -> Sound:
    sound = dice.standard_normal(count) * 0.01
    for _ in range(1 + int(count / SAMPLE_RATE * 4 * dice.random_sample())):
        at = int(dice.randint(max(1, count)))
        length = int(SAMPLE_RATE * (0.002 + 0.08 * dice.random_sample() ** 2))
        wave = dice.standard_normal(length) * np.exp(-5 * np.arange(length) / length)
        end = min(count, at + length)
        sound[at:end] += dice.random_sample() * wave[: end - at]
    return sound


def disturb(sound: FloatArray, options: Augmentation, dice: Dice, *, speech: bool) -> None:
    """Noise, a narrow band, a codec or none, in place; a window without speech is silence or noise of any level."""
    if not speech:
        if dice.random_sample() < 0.8:
            sound += make_noise(len(sound), dice) * np.float32(10 ** ((-75 + 65 * dice.random_sample()) / 20))
    elif dice.random_sample() < options.noise:
        add_noise(sound, between(options.ratio_db, dice), dice)
    if dice.random_sample() < options.band:
        narrow(sound, 50 + 250 * dice.random_sample(), 3400 + 3600 * dice.random_sample())
    np.clip(sound, -1, 1, out=sound)
    if dice.random_sample() < options.codec:
        telephone(sound)


def add_noise(sound: FloatArray, ratio_db: float, dice: Dice) -> None:
    """Noise so loud that the speech, where it is not silent, has `ratio_db` more power. In place."""
    active = np.abs(sound) > ACTIVE
    level = float(np.sqrt(np.mean(sound[active] ** 2))) if active.any() else 1e-3
    sound += make_noise(len(sound), dice) * np.float32(level * 10 ** (-ratio_db / 20))


def narrow(sound: FloatArray, low_hz: float, high_hz: float) -> None:
    """Only what a cheap microphone lets through: everything else 34 dB down. In place."""
    spectrum = np.fft.rfft(sound)
    hertz = np.fft.rfftfreq(len(sound), 1 / SAMPLE_RATE)
    spectrum[(hertz < low_hz) | (hertz > high_hz)] *= 0.02
    sound[:] = np.fft.irfft(spectrum, len(sound))


def telephone(sound: FloatArray) -> None:
    """The band of a telephone, and its 8 bits (mu-law, ITU-T G.711). In place; `sound` lies within full scale."""
    narrow(sound, 300, 3400)
    coded = np.sign(sound) * np.log1p(255 * np.minimum(np.abs(sound), 1)) / np.log(256)
    coded = np.round(coded * 127) / 127
    sound[:] = np.sign(coded) * np.expm1(np.abs(coded) * np.log(256)) / 255
