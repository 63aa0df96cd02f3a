"""One round of streaming: what is planned, what came out, what is committed.

A *plan* says which audio to decode and with what text around it; an executor turns it into a *result*; the policy
turns the result into a *commit*. All three are values: they can be recorded, replayed, sent to another thread or
another machine. Times are absolute samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from whispertide.decoding.longform import Cost, Stage
from whispertide.decoding.reference import Reference
from whispertide.decoding.search import StopReason
from whispertide.decoding.token_words import TokenWord, WordTimes
from whispertide.decoding.watch import Halt, Watch
from whispertide.events import RoundStats
from whispertide.types import FRAME_SAMPLES, Span, Word

Purpose = Literal["full", "pilot"]


@dataclass(frozen=True, slots=True)
class Listening:
    """How a round is decoded in one pass, without timestamps, watched by its own attention (`single_pass`).

    watch           guards of the attention
    least           samples: a shorter window is not decoded unless it is the last
    silence         samples of silence after the last window, so that its text may end
    must_speak      the decode may not begin with its end (SimulStreaming)
    real_end        whether end of text ends it; else the second-best token is taken (NPUsper's code)
    no_speech       a window whose no-speech probability is higher is taken for silence
    loop_guard      end a decode that repeats itself
    same_token      so many copies of one token in a row end a decode too, and are dropped; 0: no number does
    max_tokens      the most that is decoded
    context_tokens  the most that is shown of the text before the window, the user's prompt included
    static_prompt   the user's prompt always stays in front of that; else it scrolls away with what is said
    times           how words are timed; `heads_first`: the heads are averaged before anything else (NPUsper)
    detect_end      ask the word-truncation detector, if there is one, about the last word
    retry           if the decode halts just there again, hear the window once more, padded to 30 s and unwatched
    again           if attention shifts backward, hear the window once more, watched by these alone: padded to 30 s, or
                    bare where it was padded; None: what stands before the shift is all that was heard
    unheard_from    earlier rounds have heard the audio up to this sample; where a guard of the attention stops more
                    than `UNHEARD` before the end of the window, it is decoded again unwatched; None: never
    rescue          if the mean log-probability is lower, try again with `rescue_beam` hypotheses; None: never
    unrolled        search greedily in static graphs of several steps each, as far as these hold the text
    keep_attention  put the attention into the result
    """

    watch: tuple[Watch, ...] = ()
    least: int = 0
    silence: int = 0
    must_speak: bool = False
    real_end: bool = True
    no_speech: float = 1.0
    loop_guard: bool = True
    same_token: int = 0
    max_tokens: int = 224
    context_tokens: int = 223
    static_prompt: bool = True
    times: WordTimes = "dtw"
    heads_first: bool = False
    detect_end: bool = False
    retry: Halt | None = None
    again: tuple[Watch, ...] | None = None
    unheard_from: int | None = None
    rescue: float | None = None
    rescue_beam: int = 5
    unrolled: bool = False
    keep_attention: bool = False


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """One round to run. `window.start` is a multiple of 320 samples (one encoder frame).

    prompt   text that was said before the window (Whisper's previous-text context)
    prefix   tokens forced at the start of the transcript of this window
    is_last  no audio follows in this utterance: margins and hold-backs are off
    level    declared steps by which quality is lowered in this round, because the machine is late
    reread   where the window is one segment without an end, what is after its last word is a window of its own
    listen   None: hear the window as Whisper transcribes a recording; else in one pass, as this says
    """

    id: int
    window: Span
    purpose: Purpose = "full"
    prompt: str = ""
    prefix: tuple[int, ...] = ()
    reference: Reference | None = None
    is_last: bool = False
    level: int = 0
    reread: bool = True
    listen: Listening | None = None

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
class Listened:
    """What one pass over a window heard.

    words       after the forced prefix, in order
    firm        how many of them the guards let stand; the others are a guess
    halt        what ended the decode, if a guard of the attention did
    last_frame  what the last token attended to, in frames from the window's start; None if nobody looked
    frames      frames with real audio
    word_ended  whether the last firm word is known to have ended (True) or to go on (False)
    retried     whether the window was heard once more, padded to 30 s
    """

    words: tuple[TokenWord, ...] = ()
    firm: int = 0
    halt: Halt | None = None
    last_frame: int | None = None
    frames: int = 0
    word_ended: bool | None = None
    retried: bool = False


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What a round heard, and what each graph stage of it cost.

    `language` is what a multilingual model wrote in; None where there is only English. `listened` is what a plan that
    listens asks for; `attention` then is [heads, queries, frames] if it asked for that too.
    """

    plan: RoundPlan
    segments: tuple[Heard, ...]
    tokens: tuple[int, ...] = ()
    stop: StopReason = "end_of_text"
    listened: Listened | None = None
    attention: Any = field(default=None, compare=False, repr=False)
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
    """A policy's verdict: words to append for good, the guess after them, and the first sample still needed.

    `level` counts the declared steps by which quality was lowered in this round, because the machine is late.
    """

    confirmed: tuple[Word, ...]
    hypothesis: tuple[Word, ...]
    keep_from: int
    level: int = 0


def stats_of(costs: Sequence[Cost], tokens: int) -> RoundStats:
    """What a round cost, stage by stage, for `tokens` of text."""

    def total(stage: Stage) -> float:
        return sum(cost.seconds for cost in costs if cost.stage == stage)

    return RoundStats(
        encode_s=total("encode"),
        decode_s=total("decode"),
        align_s=total("align"),
        decoder_runs=sum(cost.steps.runs for cost in costs),
        tokens=tokens,
    )
