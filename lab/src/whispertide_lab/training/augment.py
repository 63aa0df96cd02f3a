"""What happens to clean speech on its way to a microphone: speed, pauses, rooms, levels.

Everything in float32 numpy, quick enough to be done anew for each window. The times of the words follow the sound.
What lies over a whole window comes from `noise`. Knows nothing of windows or tokens.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from whispertide.audio.buffer import to_float
from whispertide.options import check_range
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.speech.noise import Dice, between
from whispertide_lab.training.shards import Utterance


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """One word and where it is, in samples."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Augmentation:
    """How often each is done (a probability), and how far it goes. None of it is `Augmentation.none()`."""

    speed: float = 0.5
    speed_range: tuple[float, float] = (0.9, 1.12)
    pause: float = 0.1
    pause_s: tuple[float, float] = (0.2, 1.5)
    room: float = 0.2
    noise: float = 0.4
    ratio_db: tuple[float, float] = (5.0, 40.0)
    band: float = 0.1
    codec: float = 0.05
    level_db: tuple[float, float] = (-30.0, 0.0)  # of the loudest sample

    def __post_init__(self) -> None:
        for name in ("speed", "pause", "room", "noise", "band", "codec"):
            check_range(f"augmentation.{name}", getattr(self, name), 0.0, 1.0)

    @classmethod
    def none(cls) -> "Augmentation":
        """Clean speech, its loudest sample at -6 dB: for validation."""
        return cls(speed=0, pause=0, room=0, noise=0, band=0, codec=0, level_db=(-6.0, -6.0))

    def settled(self, dice: Dice) -> "Augmentation":
        """What happens to all that one person says in one place: the speed, the level, and whether it is a room."""
        speed, level = between(self.speed_range, dice), _level(self.level_db, dice)
        return replace(
            self,
            speed=float(dice.random_sample() < self.speed),
            speed_range=(speed, speed),
            room=float(dice.random_sample() < self.room),
            level_db=(level, level),
        )


def vary(said: Utterance, options: Augmentation, dice: Dice) -> tuple[FloatArray, list[SpokenWord]]:
    """An utterance at a speed, with pauses, in a room and at a level of its own: samples, words and their spans.

    Where the times of the words are not known, they are spread evenly over the utterance by their letters.
    """
    samples = to_float(said.samples)
    texts = said.text.split()
    spans = said.words or _spread(texts, len(samples))
    words = [SpokenWord(text, start, end) for text, (start, end) in zip(texts, spans, strict=True)]
    if dice.random_sample() < options.speed:
        samples, words = change_speed(samples, words, between(options.speed_range, dice))
    if said.words is not None and said.exact and len(words) > 1 and dice.random_sample() < options.pause:
        count = int(SAMPLE_RATE * between(options.pause_s, dice))
        samples, words = insert_pause(samples, words, int(dice.randint(1, len(words))), count)
    if dice.random_sample() < options.room:
        samples = reverberate(samples, dice)
    set_level(samples, _level(options.level_db, dice))
    return samples, [SpokenWord(word.text, word.start, min(word.end, len(samples))) for word in words]


def _level(level_db: tuple[float, float], dice: Dice) -> float:
    low, high = level_db
    return float(low + (high - low) * dice.random_sample() ** 0.5)


def _spread(texts: list[str], count: int) -> tuple[tuple[int, int], ...]:
    if not texts:
        return ()
    ends = np.cumsum([len(text) + 1 for text in texts])
    edges = [0, *(ends * count // max(1, ends[-1])).tolist()]
    return tuple(pairwise(edges))


def change_speed(samples: FloatArray, words: list[SpokenWord], speed: float) -> tuple[FloatArray, list[SpokenWord]]:
    """Played `speed` times as fast, pitch and all (Ko et al. 2015, "Audio augmentation")."""
    places = np.arange(int(len(samples) / speed), dtype=np.float32) * np.float32(speed)
    played = np.interp(places, np.arange(len(samples)), samples).astype(np.float32)
    return played, [SpokenWord(word.text, int(word.start / speed), int(word.end / speed)) for word in words]


def insert_pause(
    samples: FloatArray, words: list[SpokenWord], before: int, count: int
) -> tuple[FloatArray, list[SpokenWord]]:
    """`count` samples of silence in front of word `before`; the edges fade within 5 ms, so that nothing clicks."""
    at, fade = words[before].start, SAMPLE_RATE // 200
    ramp = np.linspace(0, 1, fade, dtype=np.float32)
    left, right = samples[:at].copy(), samples[at:].copy()
    left[-fade:] *= ramp[::-1][max(0, fade - len(left)) :]
    right[:fade] *= ramp[: len(right)]
    moved = [SpokenWord(word.text, word.start + count, word.end + count) for word in words[before:]]
    kept = [SpokenWord(word.text, word.start, min(word.end, at)) for word in words[:before]]
    return np.concatenate([left, np.zeros(count, np.float32), right]), kept + moved


def set_level(samples: FloatArray, level_db: float) -> None:
    """Scale in place: the loudest sample is at `level_db` below full scale. Silence stays silence."""
    peak = max(float(np.abs(samples).max(initial=0.0)), 1e-4)
    samples *= np.float32(10 ** (level_db / 20) / peak)


def reverberate(samples: FloatArray, dice: Dice) -> FloatArray:
    """In a room: the direct sound, then noise that dies away within 0.1 to 0.6 s; not delayed, not longer."""
    count = int(SAMPLE_RATE * (0.1 + 0.5 * dice.random_sample()))
    tail = dice.standard_normal(count).astype(np.float32)
    tail *= np.float32(10) ** (np.float32(-3 / count) * np.arange(count, dtype=np.float32))
    tail[: SAMPLE_RATE // 200] = 0
    tail *= np.float32(10 ** (-(12 * dice.random_sample() - 1) / 20) / np.sqrt((tail**2).sum()))
    tail[0] = 1
    size = _quick_size(len(samples) + count)
    heard = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(tail, size), size)
    return heard[: len(samples)].astype(np.float32)


def _quick_size(count: int) -> int:
    """The next length that the Fourier transform is quick for: 2^a, 3 2^a or 5 2^a."""
    power = 1 << (count - 1).bit_length()
    return next(size for size in (power * 5 // 8, power * 3 // 4, power) if size >= count)
