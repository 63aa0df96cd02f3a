"""The talks again, as a microphone would hear them: `rooms` are quiet ones, `noisy` is the world.

Each talk gets one condition by the dice (`conditions`). Between sentences there is the sound of the place, not digital
silence. Word times stay those of the talk.
"""

import sys
from pathlib import Path
from typing import Literal

import numpy as np

from whispertide.audio.file import load_audio
from whispertide.checkpoint.cache import cache_dir
from whispertide.types import SAMPLE_RATE, Span
from whispertide_lab.evaluation.corpora.conditions import Condition, degrade, noisy, recorded
from whispertide_lab.speech.apart import Apart
from whispertide_lab.speech.cached import CachedCorpus, Reference, cached_corpus, write_recording
from whispertide_lab.speech.noise import KINDS, Dice, Sound, rms, to_int16
from whispertide_lab.speech.talks import extent_arguments, open_talks, read_extent
from whispertide_lab.speech.utterance import Beginnings

VERSION = 1  # counts up whenever the same seed gives other sounds from the same talks

Kind = Literal["noisy", "rooms"]
_BABBLERS = 4


def open_noisy(
    ratio: str = "", *, quick: bool = False, seed: int = 0, beginnings: Beginnings | None = None
) -> CachedCorpus:
    """The noisy talks, at ratios of 5 to 20 dB or all at `ratio` (whole dB); makes what is not in the cache.

    Of `beginnings` each is a noisy talk of its own: its noise is not the beginning of that of the whole talk.
    Raises `CorpusError`.
    """
    return _opened("noisy", str(int(ratio)) if ratio else "", seed, quick, beginnings)


def open_rooms(*, quick: bool = False, seed: int = 0, beginnings: Beginnings | None = None) -> CachedCorpus:
    """The talks in quiet rooms, through microphones; makes what is not in the cache. Raises `CorpusError`."""
    return _opened("rooms", "", seed, quick, beginnings)


def _opened(kind: Kind, ratio: str, seed: int, quick: bool, beginnings: Beginnings | None) -> CachedCorpus:
    talks = open_talks(quick=quick, seed=seed, beginnings=beginnings)
    ratio_db = f"{ratio}dB" if ratio else ""
    name = talks.name.replace("talks", kind + ratio_db, 1)
    folder = cache_dir() / "corpora" / f"{name}-v{VERSION}.{talks.hash}"
    extent = extent_arguments(quick, beginnings)
    makers = {
        _name(kind, number): Apart(
            __name__, _name(kind, number), (str(folder), kind, ratio or "-", str(seed), str(number), *extent)
        )
        for number in range(len(talks.references))
    }
    return cached_corpus(name, f"{kind}{ratio_db} {VERSION} seed {seed} of {talks.hash}", folder, makers)


def _name(kind: Kind, number: int) -> str:
    return f"{kind}-{number:02d}"


def make_degraded(folder: Path, talks: CachedCorpus, name: str, number: int, done: Condition, dice: Dice) -> None:
    """Put talk `number` into its condition and write it into `folder`. Takes some 500 MB for a talk of 15 minutes."""
    reference = talks.references[number]
    speech = _talk(talks, reference)
    noise = _babble(talks, number, len(speech), dice) if done.noise == "babble" else None
    if noise is None:
        noise = KINDS[done.noise](len(speech), dice)
    heard = degrade(speech, noise, word_spans(reference), done, dice)
    words = [(text, start, end) for text, start, end in reference["words"]]
    write_recording(folder, name, to_int16(heard), words, reference["group"], str(done))


def _talk(talks: CachedCorpus, reference: Reference) -> Sound:
    return load_audio(talks.folder / f"{reference['id']}.flac").astype(np.float64)


def word_spans(reference: Reference) -> list[Span]:
    """Where the words of a talk lie."""
    return [Span(start, end) for _, start, end in reference["words"]]


def _babble(talks: CachedCorpus, number: int, count: int, dice: Dice) -> Sound:
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
    """FOLDER KIND RATIO SEED NUMBER [quick | COUNT SAMPLES]: make one; the talks are there already. RATIO may be -."""
    folder, kind, ratio, seed, number, *extent = arguments
    quick, beginnings = read_extent(extent)
    talks = open_talks(quick=quick, seed=int(seed), beginnings=beginnings)
    which = int(number)
    if kind == "rooms":
        done, name, stream = recorded(int(seed), which), _name("rooms", which), 4
    else:
        done, name, stream = noisy(int(seed), which, None if ratio == "-" else float(ratio)), _name("noisy", which), 2
    dice = np.random.RandomState([int(seed) % 2**32, which, VERSION, stream])
    make_degraded(Path(folder), talks, name, which, done, dice)


if __name__ == "__main__":
    main(sys.argv[1:])
