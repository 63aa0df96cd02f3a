"""The few types that every layer shares.

Time is an integer sample index at 16 kHz, counted from the first sample a session ever received.
Seconds exist only at the edges (command line, file formats, wire protocols): see `seconds` and `to_samples`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
Announce = Callable[[str], None]  # told in a sentence what is about to be downloaded or built

# Whisper's audio constants (openai/whisper, audio.py); everything else is derived from them.
SAMPLE_RATE = 16_000
N_FFT = 400
HOP_LENGTH = 160
CHUNK_SECONDS = 30
N_SAMPLES = CHUNK_SECONDS * SAMPLE_RATE  # 480,000 samples in a window
N_FRAMES = N_SAMPLES // HOP_LENGTH  # 3,000 mel frames in a window
FRAME_SAMPLES = 2 * HOP_LENGTH  # 320 samples = 20 ms per encoder frame (the second convolution has stride 2)

BUCKET_SECONDS = (3, 4, 5, 6, CHUNK_SECONDS)  # the only lengths of windows that static graphs have (NPUsper)


def seconds(samples: int) -> float:
    """Convert a sample index or count at 16 kHz to seconds."""
    return samples / SAMPLE_RATE


def to_samples(secs: float) -> int:
    """Convert seconds to the nearest sample index or count at 16 kHz."""
    return round(secs * SAMPLE_RATE)


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open stretch of audio, in samples: `start` is inside, `end` is not."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.end < self.start:
            raise ValueError(f"a span needs 0 <= start <= end, got {self.start}..{self.end}")

    def __len__(self) -> int:
        return self.end - self.start


class Timed:
    """A value with a position in the audio, in samples; here in seconds, for edges."""

    __slots__ = ()
    start: int
    end: int

    @property
    def start_s(self) -> float:
        return seconds(self.start)

    @property
    def end_s(self) -> float:
        return seconds(self.end)


@dataclass(frozen=True, slots=True)
class Word(Timed):
    """One spoken word with its place in the audio.

    `text` carries its own leading space where the language writes one, so that joining the texts of a
    transcript gives the transcript. `start` and `end` are absolute samples. `probability` is the mean
    probability of the word's tokens, 0 to 1. `speaker` is the number of its voice, from 1; None: nobody asked, or
    nobody knows.
    """

    text: str
    start: int
    end: int
    probability: float = 1.0
    speaker: int | None = None

    def lies_after(self, sample: int) -> bool:
        """True if most of the word lies after a sample."""
        return self.start + self.end > 2 * sample


_UNSPACED = "\u0e00"  # from here on there are scripts without spaces: Thai, Lao, Khmer, Chinese, Japanese


def goes_on(text: str) -> bool:
    """True if a text is the rest of a written word: no space before it, in a script that has spaces."""
    return not text[:1].isspace() and text[:1] < _UNSPACED


def speaker_name(number: int) -> str:
    """A voice as it is written where nobody has named it: "Speaker 1"."""
    return f"Speaker {number}"


def spoken_by(words: Iterable[Word], speaker: int) -> tuple[Word, ...]:
    """The words as a speaker's of this number."""
    return tuple(replace(word, speaker=speaker) for word in words)


def join_words(words: "tuple[Word, ...] | list[Word]") -> str:
    """Join `words` to a text, as it would be printed."""
    return "".join(word.text for word in words).strip()


def clip_times(words: Iterable[Word], start: int, end: int) -> tuple[Word, ...]:
    """Clip word times so that they rise from `start` and do not pass `end`; a word may become empty, never negative."""
    placed: list[Word] = []
    for word in words:
        # Not before the word before it, and inside the audio; what is confirmed may reach a little beyond that.
        begin = min(max(word.start, start), max(end, start))
        start = min(max(word.end, begin), max(end, start))
        placed.append(word if (begin, start) == (word.start, word.end) else replace(word, start=begin, end=start))
    return tuple(placed)


def align_down(sample: int) -> int:
    """Round down to a sample at which a window may start (a multiple of 320)."""
    return sample - sample % FRAME_SAMPLES


@dataclass(frozen=True, slots=True)
class OfflineSegment:
    """A stretch of transcript: `text` as written (with its leading space), tokens with timestamps, words if asked for.

    `span` and the words' times are absolute samples within the recording. The figures are those of its window, which
    begins at sample `window`.
    """

    id: int
    span: Span
    text: str
    tokens: tuple[int, ...]
    words: tuple[Word, ...]
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    temperature: float
    language: str
    language_probability: float = 1.0  # of the language, where it was detected
    window: int = 0
