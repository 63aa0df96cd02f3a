"""Sounds without words, rooms and level changes, in numpy: what the noisy and the non-speech corpora are made of.

All in double precision from numpy's RandomState, whose stream never changes; rounded to 16 bits only at the end, so
that the last bits of the arithmetic do not show. Sounds are 16 kHz mono float64 [n], at most +-1. Knows nothing of
corpora.
"""

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from whispertide.types import SAMPLE_RATE
from whispertide_lab.speech.voices import Int16Array

Sound = npt.NDArray[np.float64]
Dice = np.random.RandomState

_LOW_HZ = 20.0  # shaped noise has nothing below
_BLOCK = 30 * SAMPLE_RATE  # of shaped noise: made by one transform, so that its end fits its beginning


def colored(count: int, dice: Dice, exponent: float, *, low_hz: float = _LOW_HZ, high_hz: float = 8000.0) -> Sound:
    """Noise whose power falls with frequency ** exponent (0 white, 1 pink, 2 brown) between two edges; RMS 0.1."""
    size = min(max(count, 2), _BLOCK)
    spectrum = np.fft.rfft(dice.standard_normal(size))
    hertz = np.fft.rfftfreq(size, 1 / SAMPLE_RATE)
    shape = np.zeros_like(hertz)
    band = (hertz >= low_hz) & (hertz <= high_hz)
    shape[band] = hertz[band] ** (-exponent / 2)
    block = np.fft.irfft(spectrum * shape, size)
    return np.resize(block * (0.1 / max(rms(block), 1e-12)), count)


def between(limits: tuple[float, float], dice: Dice) -> float:
    """Anything from the first limit to the second, each as likely as the others."""
    return float(limits[0] + (limits[1] - limits[0]) * dice.random_sample())


def rms(sound: Sound) -> float:
    """Root mean square; 0 for no samples."""
    return float(np.sqrt(np.mean(sound**2))) if sound.size else 0.0


def to_int16(sound: Sound) -> Int16Array:
    """Rounded to 16 bits; what is beyond +-1 is cut."""
    return np.clip(np.rint(sound * 32767), -32768, 32767).astype(np.int16)


def decibels(value: float) -> float:
    """Decibels -> factor of the amplitude."""
    return float(10 ** (value / 20))


def room(dice: Dice, decay_s: float, direct_db: float) -> Sound:
    """Impulse response of a room: the direct sound at sample 0, then noise that falls by 60 dB in `decay_s`.

    The direct sound has `direct_db` decibels more energy than the rest (Moorer 1979: late reverberation as decaying
    noise). Because it comes first and undelayed, word times stay what they are.
    """
    count = round(decay_s * SAMPLE_RATE)
    tail = dice.standard_normal(count) * 10 ** (-3 * np.arange(count) / count)
    tail[: SAMPLE_RATE // 200] = 0.0  # the first reflection comes 5 ms late
    tail *= decibels(-direct_db) / float(np.sqrt(np.sum(tail**2)))
    tail[0] = 1.0
    return tail


def microphone(dice: Dice) -> Sound:
    """Impulse response of a cheap microphone: little below 60 to 200 Hz, more around 2 to 5 kHz, less above 5 to 8 kHz.

    Of minimum phase (Oppenheim, Schafer, "Discrete-Time Signal Processing", by the cepstrum), so that words stay where
    they are. 64 ms.
    """
    size = SAMPLE_RATE * 64 // 1000
    hertz = np.maximum(np.fft.rfftfreq(size, 1 / SAMPLE_RATE), 1.0)
    ranges = ((60, 200), (5000, 8000), (2000, 5000), (0, 6))
    low_hz, high_hz, peak_hz, peak_db = (between(limits, dice) for limits in ranges)
    gain = 1 / np.sqrt(1 + (low_hz / hertz) ** 4) / np.sqrt(1 + (hertz / high_hz) ** 4)
    gain *= 10 ** (peak_db / 20 * np.exp(-(np.log2(hertz / peak_hz) ** 2)))
    cepstrum = np.fft.irfft(np.log(np.maximum(gain, 1e-3)), size)
    cepstrum[1 : size // 2] *= 2
    cepstrum[size // 2 + 1 :] = 0
    return np.fft.irfft(np.exp(np.fft.rfft(cepstrum)), size)


def convolve(sound: Sound, response: Sound) -> Sound:
    """`sound` heard through `response`, as long as `sound`; by overlap-add, so that memory stays small."""
    size = 1 << (16 * SAMPLE_RATE + len(response)).bit_length()
    step = size - len(response) + 1
    spectrum = np.fft.rfft(response, size)
    heard = np.zeros(len(sound) + size)
    for at in range(0, len(sound), step):
        heard[at : at + size] += np.fft.irfft(np.fft.rfft(sound[at : at + step], size) * spectrum, size)
    return heard[: len(sound)]


def wandering_level(count: int, dice: Dice, range_db: float) -> Sound:
    """Gain factors [count] that move between -range_db and +range_db, to a new goal every 5 to 15 seconds."""
    times, goals = [0.0], [0.0]
    while times[-1] < count:
        times.append(times[-1] + (5 + 10 * dice.random_sample()) * SAMPLE_RATE)
        goals.append((2 * dice.random_sample() - 1) * range_db)
    gains: Sound = 10 ** (np.interp(np.arange(count), times, goals) / 20)
    return gains


def _time(count: int) -> Sound:
    return np.arange(count) / SAMPLE_RATE


def _pulse(at: int, wave: Sound, into: Sound) -> None:
    end = min(len(into), at + len(wave))
    into[at:end] += wave[: end - at]


def silence(count: int, dice: Dice) -> Sound:
    """Digital silence."""
    return np.zeros(count)


def hiss(count: int, dice: Dice) -> Sound:
    """What a quiet input gives: noise in the last bit or two."""
    return dice.standard_normal(count) * 1.5 / 32767


def white(count: int, dice: Dice) -> Sound:
    """White noise."""
    return colored(count, dice, 0)


def pink(count: int, dice: Dice) -> Sound:
    """Pink noise: power falls with frequency."""
    return colored(count, dice, 1)


def brown(count: int, dice: Dice) -> Sound:
    """Brown noise: power falls with frequency squared."""
    return colored(count, dice, 2)


def tone(count: int, dice: Dice) -> Sound:
    """A steady sine between 110 and 3,500 Hz."""
    hertz = 110 * (3500 / 110) ** dice.random_sample()
    wave: Sound = 0.2 * np.sin(2 * np.pi * hertz * _time(count))
    return wave


def sweep(count: int, dice: Dice) -> Sound:
    """Sines that glide from 60 Hz to 7 kHz and back, once in 4 to 12 seconds."""
    period = 4 + 8 * dice.random_sample()
    place = np.abs((_time(count) / period + dice.random_sample()) % 2 - 1)
    hertz = 60 * (7000 / 60) ** place
    return 0.2 * np.sin(2 * np.pi * np.cumsum(hertz) / SAMPLE_RATE)


def hum(count: int, dice: Dice) -> Sound:
    """Mains hum of 50 or 60 Hz with overtones and a little noise."""
    base = (50.0, 60.0)[dice.randint(2)]
    time = _time(count)
    sound = sum(np.sin(2 * np.pi * base * k * time + 6.3 * dice.random_sample()) / k**1.5 for k in range(1, 13))
    return np.asarray(0.08 * sound) + 0.05 * pink(count, dice)


def clicks(count: int, dice: Dice) -> Sound:
    """Single clicks and taps, some in quick runs, as of keys and switches."""
    sound = np.zeros(count)
    at = 0
    while (at := at + int(SAMPLE_RATE * (0.05 + 1.5 * dice.random_sample() ** 3))) < count:
        length = int(SAMPLE_RATE * (0.001 + 0.02 * dice.random_sample()))
        wave = dice.standard_normal(length) * np.exp(-5 * np.arange(length) / length)
        _pulse(at, 0.3 * dice.random_sample() * wave, sound)
    return sound


def _note(hertz: float, length: int, decay: float) -> Sound:
    time = _time(length)
    wave = sum(np.sin(2 * np.pi * hertz * k * time) / k**1.7 for k in range(1, 7) if hertz * k < SAMPLE_RATE / 2)
    return np.asarray(wave) * np.exp(-decay * time) * np.minimum(1, time / 0.01) * np.minimum(1, time[::-1] / 0.02)


_SCALE = (0, 2, 4, 5, 7, 9, 11)


def chords(count: int, dice: Dice) -> Sound:
    """Slow chords of a major scale, as of an organ or a piano."""
    sound = np.zeros(count)
    at = 0
    while at < count:
        length = int(SAMPLE_RATE * (0.6 + 1.4 * dice.random_sample()))
        root = dice.randint(7)
        for step in (0, 2, 4):
            place = root + step
            pitch = 48 + 12 * (place // 7) + _SCALE[place % 7]
            _pulse(at, 0.07 * _note(440 * 2 ** ((pitch - 69) / 12), length, 0.8), sound)
        at += length
    return sound


def arpeggio(count: int, dice: Dice) -> Sound:
    """Quick plucked notes of a scale over a bass and a beat."""
    sound = np.zeros(count)
    beat = int(SAMPLE_RATE * (0.12 + 0.15 * dice.random_sample()))
    drum = colored(beat, dice, 0.5) * np.exp(-12 * np.arange(beat) / beat)
    place = 7
    for number, at in enumerate(range(0, count, beat)):
        place = min(21, max(0, place + dice.randint(-3, 4)))
        pitch = 55 + 12 * (place // 7) + _SCALE[place % 7]
        _pulse(at, 0.12 * _note(440 * 2 ** ((pitch - 69) / 12), 2 * beat, 6.0), sound)
        if number % 4 == 0:
            _pulse(at, 0.12 * _note(440 * 2 ** ((pitch - 24 - 69) / 12), 4 * beat, 3.0), sound)
        if number % 2 == 1:
            _pulse(at, drum, sound)
    return sound


def beeps(count: int, dice: Dice) -> Sound:
    """A device that beeps: short equal tones at equal distances, sometimes two pitches."""
    sound = np.zeros(count)
    length = int(SAMPLE_RATE * (0.08 + 0.3 * dice.random_sample()))
    distance = length * (2 + dice.randint(5))
    pitches = 600 + 1400 * dice.random_sample(1 + dice.randint(2))
    window = np.minimum(1, np.minimum(np.arange(length), np.arange(length)[::-1]) / 80)
    for number, at in enumerate(range(0, count, distance)):
        _pulse(at, 0.2 * window * np.sin(2 * np.pi * pitches[number % len(pitches)] * _time(length)), sound)
    return sound


def rain(count: int, dice: Dice) -> Sound:
    """Rain: bright noise and many drops."""
    sound = 0.4 * colored(count, dice, 0.3, low_hz=400)
    for at in dice.randint(0, count, count // 400):
        length = 30 + int(200 * dice.random_sample())
        drop = dice.standard_normal(length) * np.exp(-6 * np.arange(length) / length)
        _pulse(int(at), 0.25 * dice.random_sample() ** 4 * drop, sound)
    return sound


def wind(count: int, dice: Dice) -> Sound:
    """Wind: dark noise in gusts, and a whistle that rises with them."""
    gusts = wandering_level(count, dice, 12.0) ** 0.5 * (1 + 0.3 * np.sin(2 * np.pi * 0.21 * _time(count)))
    whistle = np.sin(2 * np.pi * np.cumsum(250 + 120 * gusts) / SAMPLE_RATE) * 0.01 * gusts**2
    return 0.8 * colored(count, dice, 1.6, high_hz=1500) * gusts + whistle


def engine(count: int, dice: Dice) -> Sound:
    """An engine: a rough low tone of many overtones, and the noise of its exhaust in the same rhythm."""
    speed = 22 + 30 * dice.random_sample()
    phase = 2 * np.pi * np.cumsum(speed * wandering_level(count, dice, 2.0)) / SAMPLE_RATE
    sound = sum(np.sin(k * phase + 6.3 * dice.random_sample()) / k for k in range(1, 30))
    return 0.05 * np.asarray(sound) + 0.5 * pink(count, dice) * (0.6 + 0.4 * np.sin(phase))


def birds(count: int, dice: Dice) -> Sound:
    """Chirps that glide between 2 and 6 kHz, over a quiet background."""
    sound = 0.03 * pink(count, dice)
    at = 0
    while (at := at + int(SAMPLE_RATE * (0.1 + 1.2 * dice.random_sample() ** 2))) < count:
        length = int(SAMPLE_RATE * (0.04 + 0.18 * dice.random_sample()))
        first, last = 2000 + 4000 * dice.random_sample(2)
        wave = np.sin(2 * np.pi * np.cumsum(np.linspace(first, last, length)) / SAMPLE_RATE)
        _pulse(at, 0.15 * dice.random_sample() * np.sin(np.pi * np.arange(length) / length) * wave, sound)
    return sound


# A sound of so many samples; every kind at its natural level, well below full scale.
KINDS: MappingProxyType[str, Callable[[int, Dice], Sound]] = MappingProxyType(
    {
        make.__name__: make
        for make in (
            silence, white, chords, hum, rain, tone, clicks, engine,
            hiss, pink, arpeggio, sweep, wind, beeps, brown, birds,
        )
    }
)  # fmt: skip
