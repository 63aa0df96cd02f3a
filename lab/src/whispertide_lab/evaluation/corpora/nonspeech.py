"""An hour without a word: silence, noise, tones, machines, weather, music-like sounds. Any word heard is invented.

60 recordings of one minute; the kinds of `noise.KINDS` come round in turn, at levels from loud to faint. The
reference of each is empty. Synthetic throughout: no breath, cough, laughter or crowd, which real recordings have.
"""

from functools import partial
from pathlib import Path

import numpy as np

from whispertide.checkpoint.cache import cache_dir
from whispertide.types import to_samples
from whispertide_lab.speech.cached import CachedCorpus, cached_corpus, write_recording
from whispertide_lab.speech.noise import KINDS, decibels, to_int16
from whispertide_lab.speech.utterance import Beginnings

VERSION = 1  # counts up whenever the same seed gives other sounds
RECORDINGS = 60
SECONDS = 60
QUICK_RECORDINGS = 8
QUICK_SECONDS = 15

_LEVELS_DB = (0.0, -10.0, -20.0, -30.0)  # against the natural level of a kind


def open_nonspeech(*, quick: bool = False, seed: int = 0, beginnings: Beginnings | None = None) -> CachedCorpus:
    """The corpus of sounds without words; makes it first where it is not in the cache. Raises `CorpusError`.

    Of `beginnings` the recordings are made whole, and no others; all where these are too short.
    """
    count, length = (QUICK_RECORDINGS, QUICK_SECONDS) if quick else (RECORDINGS, SECONDS)
    name = f"nonspeech-seed{seed}" + ("-quick" if quick else "")
    folder = cache_dir() / "corpora" / f"{name}-v{VERSION}"
    kinds = [tuple(KINDS)[number % len(KINDS)] for number in range(count)]
    some = beginnings is not None and beginnings.samples <= to_samples(length)
    numbers = beginnings.places(kinds) if beginnings is not None and some else range(count)
    makers = {
        f"sound-{number:02d}-{kinds[number]}": partial(_make, folder, number, kinds[number], length, seed)
        for number in numbers
    }
    return cached_corpus(name, f"nonspeech {VERSION} seed {seed}", folder, makers)


def _make(folder: Path, number: int, kind: str, length: int, seed: int) -> None:
    dice = np.random.RandomState([seed % 2**32, number, VERSION])
    level = 0.0 if kind == "hiss" else _LEVELS_DB[number // len(KINDS) % len(_LEVELS_DB)]
    sound = KINDS[kind](to_samples(length), dice) * decibels(level)
    write_recording(folder, f"sound-{number:02d}-{kind}", to_int16(sound), (), kind, f"{level:g} dB")
