"""A model that is told what was said: it hears the words of a window as a good Whisper would, with all its bad habits.

Word times jitter by 50 ms, case and punctuation change from round to round, a word cut by the end of the window comes
out as something else each time, a word cut by its front may leave a fragment, segments end wherever they like. All of
it depends on the seed and the window alone, so that the same round gives the same result.
"""

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whispertide.audio.vad import GateOptions, SpeechGate
from whispertide.methods.agreement.whole_window import HeardSegment, HeardSegments
from whispertide.options import DecodeOptions
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import SAMPLE_RATE, FloatArray, Span, Word

JITTER = SAMPLE_RATE // 20
BLOCK = 512
_PATTERN = 977  # prime: samples tell where they belong
_SAMPLES = np.arange(_PATTERN, dtype=np.float32) / np.float32(_PATTERN)


def audio_between(start: int, end: int) -> FloatArray:
    """The samples `start`..`end` of every stream here; each value tells its own index modulo 977."""
    first = start % _PATTERN
    return np.tile(_SAMPLES, (first + end - start) // _PATTERN + 1)[first : first + end - start]


@dataclass
class Oracle:
    """The executor. `words` are the truth; `agreeable` False: nothing is ever heard the same way twice."""

    words: Sequence[Word]
    seed: int = 0
    jitter: int = JITTER
    agreeable: bool = True
    plans: list[RoundPlan] = field(default_factory=list)
    options: DecodeOptions | None = None

    def __post_init__(self) -> None:
        self._starts = [word.start for word in self.words]

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        window = plan.window
        assert len(audio) == len(window)
        expected = audio_between(window.start, min(window.start + 2, window.end))
        np.testing.assert_array_equal(audio[:2], expected, "the session handed out other audio than planned")
        if plan.reference is not None:
            told = plan.reference.words
            assert told
            assert [word.start for word in told] == sorted(word.start for word in told)
            assert all(word.end <= window.end for word in told), "only what was heard can be told"
        self.plans.append(plan)
        self.options = options
        rng = random.Random(f"{self.seed} {window.start} {window.end} {plan.is_last}")
        heard = [word for word in self._hear(window, rng) if word.end > word.start]
        return RoundResult(plan, HeardSegments(tuple(self._segments(heard, window, rng))))

    def _hear(self, window: Span, rng: random.Random) -> list[Word]:
        heard: list[Word] = []
        floor = window.start
        first = max(0, bisect_left(self._starts, window.start) - 1)
        for word in self.words[first:]:
            if word.start >= window.end:
                break
            text = self._text(word, window, rng)
            if text is None:
                continue
            start = self._near(word.start, rng, floor, window.end)
            end = self._near(word.end, rng, start, window.end)
            heard.append(Word(text, start, end, 0.9))
            floor = start
        return heard

    def _text(self, word: Word, window: Span, rng: random.Random) -> str | None:
        if word.start < window.start:  # cut by the front: a fragment, or nothing
            return f" frag{window.start}" if word.end > window.start + 1600 and rng.random() < 0.3 else None
        if word.end > window.end:  # cut by the end: different each time
            return f" cut{window.end}" if rng.random() < 0.7 else None
        text = word.text
        if rng.random() < 0.3:
            text = text.upper()
        if rng.random() < 0.3:
            text += rng.choice([",", ".", "!"])
        return text if self.agreeable else f"{text}#{rng.randrange(10**6)}"

    def _near(self, time: int, rng: random.Random, least: int, most: int) -> int:
        return min(max(time + rng.randint(-self.jitter, self.jitter), least), most)

    def _segments(self, heard: list[Word], window: Span, rng: random.Random) -> list[HeardSegment]:
        segments: list[HeardSegment] = []
        while heard:
            count = rng.randint(1, 12)
            words, heard = tuple(heard[:count]), heard[count:]
            end = heard[0].start if heard and rng.random() < 0.5 else words[-1].end
            segments.append(HeardSegment(Span(words[0].start, max(end, words[0].start)), words))
        return segments


def plain(text: str) -> str:
    """The word without the oracle's decoration."""
    return text.split("#")[0].strip(" ,.!").lower()


@dataclass
class TruthDetector:
    """A voice detector that is told where the words are; its state is the number of blocks it has seen."""

    words: Sequence[Word]

    def __post_init__(self) -> None:
        self._blocks = {
            block for word in self.words for block in range(word.start // BLOCK, (word.end - 1) // BLOCK + 1)
        }

    def step(self, block: FloatArray, state: int | None) -> tuple[float, int]:
        at = state or 0
        return (0.9 if at in self._blocks else 0.05), at + 1


def make_gate(words: Sequence[Word], options: GateOptions | None = None) -> SpeechGate:
    """The real gate, hearing exactly `words`."""
    return SpeechGate(options, TruthDetector(words))


def speech(*items: tuple[str, float, float]) -> tuple[Word, ...]:
    """(text, start in seconds, end in seconds) -> words."""
    return tuple(Word(" " + text, round(start * SAMPLE_RATE), round(end * SAMPLE_RATE)) for text, start, end in items)
