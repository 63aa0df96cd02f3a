"""Windows as a live stream hears them, out of speech without transcripts: what is said in them, a teacher will tell.

A window begins and ends anywhere: in the middle of a word, in a pause, in the silence before or after speech. It is cut
out of a stretch of speech that is longer, so that two may follow each other: what was said in the first precedes the
second. Sounds change on their way as in all training (`augment`, `noise`): speeds, rooms, levels, noise, telephones. A
window is a function of the dice alone. No torch. Knows nothing of tokens or networks.
"""

from dataclasses import dataclass, field

import numpy as np

from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, FloatArray
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.augment import Augmentation, vary
from whispertide_lab.training.noise import disturb
from whispertide_lab.training.windows import Draw

_LONG_GAP = 0.2  # how often a pause is long enough that a window may hold nothing else than a word, or nothing
_GAP_S, _LONG_GAP_S = 0.35, (1.0, 4.0)
_AROUND_S = 0.5  # of a pause that belongs to a window which begins or ends with an utterance
_ENDED_S = 1.0  # of digital silence, as recipes append it to an utterance that is over (`silence_s`)
_HEARD_S = 0.15  # of an utterance that must be in a window, if anything is to be said in it
_QUIET_S = 0.3  # so far away a pause is looked for
_BLOCK = FRAME_SAMPLES


@dataclass(frozen=True, slots=True)
class ShortWindowOptions:
    """How windows are made; shares are probabilities.

    lengths     so many, from `shortest_s` to `longest_s`, by equal steps of their square roots: half of them are longer
                than 4.3 s, as a stream's windows are where people speak on
    silent      nothing is said in it: silence or noise of any kind
    follows     another window comes before it, whose text is its prompt
    ended       digital silence is its end, as after the last word of an utterance
    timestamps  the teacher writes them
    translate   of speech that is not English, where the checkpoint can
    prompt_tokens  of the text before it, at most, as `tide` has them
    """

    lengths: int = 24
    shortest_s: float = 0.5
    longest_s: float = 12.0
    silent: float = 0.06
    follows: float = 0.35
    ended: float = 0.15
    timestamps: float = 0.15
    translate: float = 0.1
    prompt_tokens: int = 60
    augmentation: Augmentation = field(default_factory=Augmentation)

    @property
    def counts(self) -> tuple[int, ...]:
        """Samples of windows: whole encoder frames."""
        lengths = np.square(np.linspace(self.shortest_s**0.5, self.longest_s**0.5, self.lengths))
        return tuple(round(length * SAMPLE_RATE / FRAME_SAMPLES) * FRAME_SAMPLES for length in lengths)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Sound [n] that windows are cut out of.

    spans     where somebody speaks, as far as is known
    language  of that, as somebody said; None: nobody did
    """

    samples: FloatArray
    spans: tuple[tuple[int, int], ...]
    language: str | None = None

    def is_spoken(self, start: int, end: int) -> bool:
        """Whether anybody speaks between these samples."""
        least = min(end - start, round(_HEARD_S * SAMPLE_RATE))
        return any(min(end, last) - max(start, first) >= least for first, last in self.spans)


def compose_stretch(draw: Draw, count: int, dice: Dice, options: ShortWindowOptions) -> Stretch:
    """`count` samples out of utterances drawn by the dice, all in one language, or without any."""
    if dice.random_sample() < options.silent:
        sound = np.zeros(count, np.float32)
        disturb(sound, options.augmentation, dice, speech=False)
        return Stretch(sound, ())
    sound, spans, language = _spoken(draw, count, dice, options)
    start = _start(sound, spans, count, dice)
    cut = sound[start : start + count].copy()
    disturb(cut, options.augmentation, dice, speech=True)
    ended = round(_ENDED_S * SAMPLE_RATE)
    if count > 2 * ended and dice.random_sample() < options.ended:
        cut[-ended:] = 0
        count -= ended
    moved = ((max(0, first - start), min(count, last - start)) for first, last in spans)
    return Stretch(cut, tuple((first, last) for first, last in moved if first < last), language)


def _spoken(
    draw: Draw, count: int, dice: Dice, options: ShortWindowOptions
) -> tuple[FloatArray, list[tuple[int, int]], str | None]:
    """Utterances one after the other with pauses around each, longer than `count`; where they are, their language."""
    parts: list[FloatArray] = []
    spans: list[tuple[int, int]] = []
    at, language = 0, None
    while at < count or not spans:
        said = draw(dice)
        language = said.language
        samples, _ = vary(said, options.augmentation, dice)
        gap = np.zeros(_gap(dice), np.float32)
        spans.append((at + len(gap), at + len(gap) + len(samples)))
        parts += [gap, samples]
        at = spans[-1][1]
    after = max(count - at, _gap(dice))
    return np.concatenate([*parts, np.zeros(after, np.float32)]), spans, language


def _gap(dice: Dice) -> int:
    """Samples of a pause."""
    low, high = _LONG_GAP_S
    long = dice.random_sample() < _LONG_GAP
    return int(SAMPLE_RATE * (low + (high - low) * dice.random_sample() if long else dice.exponential(_GAP_S)))


def _start(sound: FloatArray, spans: list[tuple[int, int]], count: int, dice: Dice) -> int:
    """Where a window of `count` samples begins."""
    latest, around = len(sound) - count, int(_AROUND_S * SAMPLE_RATE * dice.random_sample())
    first, last = spans[int(dice.randint(len(spans)))]
    kind = dice.random_sample()
    if kind < 0.25:  # with an utterance
        start = first - around
    elif kind < 0.5:  # up to the end of one
        start = last + around - count
    else:
        start = int(dice.randint(latest + 1))
        if kind < 0.75:
            start = _quiet(sound, start)
    return min(max(0, start), latest)


def _quiet(sound: FloatArray, at: int) -> int:
    """The quietest 20 ms near a sample."""
    reach = int(_QUIET_S * SAMPLE_RATE)
    low = max(0, at - reach)
    near = sound[low : at + reach]
    blocks = near[: len(near) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    return at if not len(blocks) else low + _BLOCK * int(np.square(blocks).sum(1).argmin())
