"""One round of streaming: what is planned, what came out, what is committed.

A *plan* says which audio to decode and with what text around it; an executor turns it into a *result*; the policy
turns the result into a *commit*. All three are values: they can be recorded, replayed, sent to another thread or
another machine. Times are absolute samples.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from whispertide.decoding.longform import Cost
from whispertide.decoding.search import StopReason
from whispertide.events import RoundStats
from whispertide.types import FRAME_SAMPLES, Span, Word

Purpose = Literal["full", "pilot"]


@dataclass(frozen=True, slots=True)
class Reference:
    """What an earlier round heard in this stretch of audio: pruning and verification start from it."""

    tokens: tuple[int, ...]
    span: Span
    ctc_state: Any = None


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """One round to run. `window.start` is a multiple of 320 samples (one encoder frame).

    prompt   text that was said before the window (Whisper's previous-text context)
    prefix   tokens forced at the start of the transcript of this window
    is_last  no audio follows in this utterance: margins and hold-backs are off
    """

    id: int
    window: Span
    purpose: Purpose = "full"
    prompt: str = ""
    prefix: tuple[int, ...] = ()
    reference: Reference | None = None
    is_last: bool = False

    def __post_init__(self) -> None:
        if self.window.start % FRAME_SAMPLES:
            raise ValueError(f"expected a window that starts at a multiple of {FRAME_SAMPLES}; got {self.window.start}")


@dataclass(frozen=True, slots=True)
class Heard:
    """One segment of a result: words with absolute times, and Whisper's confidence in it."""

    span: Span
    words: tuple[Word, ...]
    no_speech_prob: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 1.0
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What a round heard, and what each graph stage of it cost.

    `language` is what a multilingual model wrote in; None where there is only English. `attention` is
    [heads, tokens, frames] where the policy asked for it.
    """

    plan: RoundPlan
    segments: tuple[Heard, ...]
    tokens: tuple[int, ...] = ()
    stop: StopReason = "end_of_text"
    attention: Any = None
    language: str | None = None
    language_probability: float = 1.0
    costs: tuple[Cost, ...] = ()
    stats: RoundStats = field(default_factory=RoundStats)

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of all segments."""
        return tuple(word for segment in self.segments for word in segment.words)


@dataclass(frozen=True, slots=True)
class Commit:
    """A policy's verdict: words to append for good, the guess behind them, and the first sample still needed."""

    confirmed: tuple[Word, ...]
    hypothesis: tuple[Word, ...]
    keep_from: int
