"""What is done to a talk: a room, a microphone, a level that wanders, noise. In double precision.

Word times stay those of the talk, because the direct sound is not delayed; so latency may be claimed of what comes out.
Knows nothing of corpora.
"""

from dataclasses import dataclass

import numpy as np

from whispertide.types import Span
from whispertide_lab.speech.noise import (
    Dice,
    Sound,
    between,
    convolve,
    decibels,
    microphone,
    rms,
    room,
    wandering_level,
)

NOISES = ("white", "babble", "pink", "rain", "babble", "engine", "wind", "hum")
TONES = ("brown", "pink", "hum", "hiss")  # of a room in which nobody speaks

_RATIOS_DB = (20.0, 15.0, 10.0, 5.0)
_QUIET_DB = (30.0, 45.0)
_DECAY_S = (0.2, 0.7)
_DIRECT_DB = (0.0, 9.0)
_WANDER_DB = (0.0, 6.0)
_LOUDNESS_DB = (-36.0, -20.0)
_PEAK = 0.99


@dataclass(frozen=True, slots=True)
class Condition:
    """What is done to a talk.

    noise         a kind of `speech.noise`, or babble
    ratio_db      speech to noise, over the words alone
    decay_s       of the room; 0 means none
    direct_db     the direct sound against the room's
    wander_db     the most that the level moves either way
    loudness_db   RMS of the words, against full scale
    microphone    its response is drawn; else it is flat
    """

    noise: str
    ratio_db: float
    decay_s: float
    direct_db: float
    wander_db: float
    loudness_db: float
    microphone: bool = False

    def __str__(self) -> str:
        rooms = f"room {self.decay_s:.2f} s" if self.decay_s else "no room"
        level = f"level {self.loudness_db:.0f} dB +-{self.wander_db:.0f}"
        return f"{self.noise} {self.ratio_db:g} dB, {rooms}, {level}{', microphone' if self.microphone else ''}"


def noisy(seed: int, number: int, ratio_db: float | None = None) -> Condition:
    """That of noisy talk `number`. Neighbours, one voice known and one held out, share noise and ratio; all come round.

    With `ratio_db` all have that one, and the rest stays what it is.
    """
    dice = np.random.RandomState([seed % 2**32, number, 1, 1])
    usual = _RATIOS_DB[(number // 2 + number // 2 // len(NOISES)) % len(_RATIOS_DB)]
    return Condition(
        noise=NOISES[number // 2 % len(NOISES)],
        ratio_db=usual if ratio_db is None else ratio_db,
        decay_s=between(_DECAY_S, dice) if number % 3 else 0.0,
        direct_db=between(_DIRECT_DB, dice),
        wander_db=between(_WANDER_DB, dice),
        loudness_db=between(_LOUDNESS_DB, dice),
    )


def recorded(seed: int, number: int) -> Condition:
    """That of talk `number` in a quiet room: every talk has a room, a microphone, and the sound of the empty room."""
    dice = np.random.RandomState([seed % 2**32, number, 1, 3])
    return Condition(
        noise=TONES[number // 2 % len(TONES)],
        ratio_db=between(_QUIET_DB, dice),
        decay_s=between(_DECAY_S, dice),
        direct_db=between(_DIRECT_DB, dice),
        wander_db=between(_WANDER_DB, dice),
        loudness_db=between(_LOUDNESS_DB, dice),
        microphone=True,
    )


def degrade(speech: Sound, noise: Sound, words: list[Span], done: Condition, dice: Dice) -> Sound:
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
    if done.microphone:
        mixed = convolve(mixed, microphone(dice))
        level = max(rms(mixed[inside]), 1e-9)
    mixed *= decibels(done.loudness_db) / level
    return mixed * min(1.0, _PEAK / max(float(np.max(np.abs(mixed))), 1e-9))
