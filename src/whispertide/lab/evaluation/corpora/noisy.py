"""The talks again, as a microphone in the world would hear them: noise, reverberation, a level that wanders.

Each talk gets one condition by the dice: a kind of noise or the babble of other talks, a ratio of speech to noise, a
room or none, a range of level changes and a loudness. Word times stay those of the talk, because the direct sound is
not delayed; so latency may be claimed here as well.
"""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from whispertide.audio.file import load_audio
from whispertide.checkpoint.cache import cache_dir
from whispertide.lab.speech.cached import CachedCorpus, Reference, cached_corpus, make_apart, write_recording
from whispertide.lab.speech.noise import (
    KINDS,
    Sound,
    convolve,
    decibels,
    rms,
    room,
    to_int16,
    wandering_level,
)
from whispertide.lab.speech.talks import extent_arguments, open_talks, read_extent
from whispertide.lab.speech.utterance import Beginnings
from whispertide.types import SAMPLE_RATE, Span

VERSION = 1  # counts up whenever the same seed gives other sounds from the same talks
NOISES = ("white", "babble", "pink", "rain", "babble", "engine", "wind", "hum")

_RATIOS_DB = (20.0, 15.0, 10.0, 5.0)  # speech to noise, over the words alone
_DECAY_S = (0.2, 0.7)
_DIRECT_DB = (0.0, 9.0)
_WANDER_DB = (0.0, 6.0)
_LOUDNESS_DB = (-36.0, -20.0)  # RMS of the words, against full scale
_BABBLERS = 4
_PEAK = 0.99


@dataclass(frozen=True, slots=True)
class Condition:
    """What is done to a talk; `decay_s` 0 means no room."""

    noise: str
    ratio_db: float
    decay_s: float
    direct_db: float
    wander_db: float
    loudness_db: float

    def __str__(self) -> str:
        rooms = f"room {self.decay_s:.2f} s" if self.decay_s else "no room"
        return f"{self.noise} {self.ratio_db:g} dB, {rooms}, level {self.loudness_db:.0f} dB +-{self.wander_db:.0f}"


def condition(seed: int, number: int) -> Condition:
    """That of talk `number`. Neighbours, one voice known and one held out, share noise and ratio; all come round."""
    dice = np.random.RandomState([seed % 2**32, number, VERSION, 1])

    def between(limits: tuple[float, float]) -> float:
        return float(limits[0] + (limits[1] - limits[0]) * dice.random_sample())

    return Condition(
        noise=NOISES[number // 2 % len(NOISES)],
        ratio_db=_RATIOS_DB[(number // 2 + number // 2 // len(NOISES)) % len(_RATIOS_DB)],
        decay_s=between(_DECAY_S) if number % 3 else 0.0,
        direct_db=between(_DIRECT_DB),
        wander_db=between(_WANDER_DB),
        loudness_db=between(_LOUDNESS_DB),
    )


def open_noisy(*, quick: bool = False, seed: int = 0, beginnings: Beginnings | None = None) -> CachedCorpus:
    """The noisy talks; makes them, and the talks, where they are not in the cache. Raises `CorpusError`.

    Of `beginnings` each is a noisy talk of its own: its noise is not the beginning of that of the whole talk.
    """
    talks = open_talks(quick=quick, seed=seed, beginnings=beginnings)
    name = talks.name.replace("talks", "noisy", 1)
    folder = cache_dir() / "corpora" / f"{name}-v{VERSION}.{talks.hash}"
    extent = extent_arguments(quick, beginnings)
    makers = {
        _name(number): partial(make_apart, __name__, _name(number), [str(folder), str(seed), str(number), *extent])
        for number in range(len(talks.references))
    }
    return cached_corpus(name, f"noisy {VERSION} seed {seed} of {talks.hash}", folder, makers)


def _name(number: int) -> str:
    return f"noisy-{number:02d}"


def make_noisy(folder: Path, talks: CachedCorpus, number: int, seed: int) -> None:
    """Put talk `number` into its condition and write it into `folder`. Takes some 500 MB for a talk of 15 minutes."""
    reference = talks.references[number]
    spoken = condition(seed, number)
    dice = np.random.RandomState([seed % 2**32, number, VERSION, 2])
    speech = _talk(talks, reference)
    noise = _babble(talks, number, len(speech), dice) if spoken.noise == "babble" else None
    if noise is None:
        noise = KINDS[spoken.noise](len(speech), dice)
    heard = degrade(speech, noise, word_spans(reference), spoken, dice)
    words = [(text, start, end) for text, start, end in reference["words"]]
    write_recording(folder, _name(number), to_int16(heard), words, reference["group"], str(spoken))


def _talk(talks: CachedCorpus, reference: Reference) -> Sound:
    return load_audio(talks.folder / f"{reference['id']}.flac").astype(np.float64)


def word_spans(reference: Reference) -> list[Span]:
    """Where the words of a talk lie."""
    return [Span(start, end) for _, start, end in reference["words"]]


def degrade(speech: Sound, noise: Sound, words: list[Span], done: Condition, dice: np.random.RandomState) -> Sound:
    """`speech` in the given condition, with `noise` [n] of any level; at most +-0.99."""
    heard = speech
    if done.decay_s:
        heard = convolve(heard, room(dice, done.decay_s, done.direct_db))
    heard = heard * wandering_level(len(heard), dice, done.wander_db)
    inside = np.zeros(len(heard), bool)
    for span in words:
        inside[span.start : span.end] = True
    level = max(rms(heard[inside]), 1e-9)
    mixed = heard + noise * (level / decibels(done.ratio_db) / max(rms(noise), 1e-9))
    mixed *= decibels(done.loudness_db) / level
    return mixed * min(1.0, _PEAK / max(float(np.max(np.abs(mixed))), 1e-9))


def _babble(talks: CachedCorpus, number: int, count: int, dice: np.random.RandomState) -> Sound:
    """Some of the other talks at once, each from a place by the dice on, at equal loudness."""
    others = [other for at, other in enumerate(talks.references) if at != number]
    chosen = dice.permutation(len(others))[:_BABBLERS]
    mixed = np.zeros(count)
    for which in chosen:
        voice = _talk(talks, others[which])
        offset = int(dice.randint(max(1, len(voice) - SAMPLE_RATE)))
        voice = np.resize(np.roll(voice, -offset), count)
        mixed += voice / max(rms(voice), 1e-9)
    return mixed


def main(arguments: list[str]) -> None:
    """FOLDER SEED NUMBER [quick | COUNT SAMPLES]: make one noisy talk; the talks are there already."""
    folder, seed, number, *extent = arguments
    quick, beginnings = read_extent(extent)
    talks = open_talks(quick=quick, seed=int(seed), beginnings=beginnings)
    make_noisy(Path(folder), talks, int(number), int(seed))


if __name__ == "__main__":
    main(sys.argv[1:])
