"""One round of streaming: what is planned, what came out, what is committed.

A *plan* says which audio to hear, how, and with what text around it; an executor turns it into a *result*; the policy
turns the result into a *commit*. All three are values: they can be recorded, replayed, sent to another thread or
another machine. Times are absolute samples. What it is computed with is the executor's (`resources`).

How a window is heard is a value of its own, a `Hearing`, which knows its two stages and what they give: a whole window
as Whisper transcribes a recording (`whole_window`), or in one decode that its attention watches (`single_pass`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from whispertide.decoding.draft import Reference
from whispertide.decoding.language import CERTAIN, ENOUGH, TURNING, DetectedLanguage
from whispertide.decoding.search import Cost, Guard, Stage
from whispertide.events import RoundStats
from whispertide.model.engine import Encoded, EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.resources import RoundResources
from whispertide.types import FRAME_SAMPLES, FloatArray, Span, Word

T = TypeVar("T")
Heard_co = TypeVar("Heard_co", covariant=True)


class Opened(Protocol):
    """The first stage's result, for the second stage of a round."""

    @property
    def encoded(self) -> Encoded:
        """The audio; with a state, where the next round's audio is encoded after it."""


class Hearing(Protocol):
    """A way to transcribe a window in two stages, which may run in two threads and overlap with other rounds."""

    def encode(
        self, resources: RoundResources, plan: "RoundPlan", audio: FloatArray, state: EncoderState | None
    ) -> Opened | None:
        """The first stage: `audio` ([len(plan.window)] samples) into the encoder, after what left `state`.

        None: there is too little to hear anything. Raises `GraphError` where the model fails.
        """

    def decode(
        self,
        resources: RoundResources,
        plan: "RoundPlan",
        opened: Any,
        options: DecodeOptions,
        guards: Sequence[Guard] = (),
    ) -> "RoundResult[Any]":
        """The second stage, of what the first one left. Raises `GraphError`."""


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """One round to run. `window.start` is a multiple of 320 samples (one encoder frame).

    hearing  how the window is heard
    prompt   text that was said before the window (Whisper's previous-text context)
    prefix   tokens forced at the start of the transcript of this window
    is_last  no audio follows in this utterance: margins and hold-backs are off
    level    declared steps by which quality is lowered in this round, because the machine is late
    spoken   what was confirmed before is in this language, where languages are detected
    provisional  its result only helps a later round: if it is still under way when the utterance ends, it is given up;
                 with `is_last`, it is the last round computed ahead, and given up where somebody spoke on
    """

    id: int
    window: Span
    hearing: Hearing
    prompt: str = ""
    prefix: tuple[int, ...] = ()
    reference: Reference | None = None
    is_last: bool = False
    level: int = 0
    spoken: str | None = None
    provisional: bool = False

    def __post_init__(self) -> None:
        if self.window.start % FRAME_SAMPLES:
            raise ValueError(f"expected a window that starts at a multiple of {FRAME_SAMPLES}; got {self.window.start}")

    def waits(self, found: DetectedLanguage) -> bool:
        """True if the round is left to the next one, because the language detected in its window is a guess: what is
        confirmed in the wrong one stays, and the utterance goes on in it. The last round of an utterance does not wait.
        """
        is_guess = (found.probability < CERTAIN and len(self.window) < ENOUGH) or self._is_no_sign(found)
        return is_guess and not self.is_last and found.language != self.spoken

    def guesses(self, found: DetectedLanguage) -> bool:
        """True if the round's text would be in a language that is a guess, with nothing `spoken` before to hold to."""
        is_guess = bool(found.shares) and found.probability < CERTAIN
        return is_guess and self.spoken not in found.shares and not self.waits(found)

    def language(self, found: DetectedLanguage) -> DetectedLanguage:
        """The language of the round's text: the one detected in its window if that is certain, else what was `spoken`
        before. People seldom change their language, and an accent, a name or a cough sounds like another one.
        """
        is_certain = found.probability >= CERTAIN and not self._is_no_sign(found)
        # Without a share it may not be spoken any more, or nobody listened.
        if self.spoken is None or self.spoken not in found.shares or is_certain or self.waits(found):
            return found
        return DetectedLanguage(self.spoken, found.shares[self.spoken], found.shares)

    def _is_no_sign(self, found: DetectedLanguage) -> bool:
        """True if the window is too short to be a sign of another language than the one `spoken` before."""
        # Without shares nobody listened: it is the one that was asked for.
        return self.spoken not in (None, found.language) and bool(found.shares) and len(self.window) < TURNING

    @property
    def ends_turn(self) -> bool:
        """True if the utterance is over with it, unless its policy goes on (`Commit.goes_on`)."""
        return self.is_last and not self.provisional


@dataclass(frozen=True, slots=True)
class RoundResult(Generic[Heard_co]):
    """The transcript of a round, and the cost of each graph stage.

    heard     the transcript of the plan's hearing; None: there was too little audio, also to know its language
    language  what a multilingual model wrote in; None where there is only English
    state     what the encoder carries to the next round of the utterance
    """

    plan: RoundPlan
    heard: Heard_co | None = None
    language: str | None = None
    language_probability: float = 1.0
    costs: tuple[Cost, ...] = ()
    stats: RoundStats = field(default_factory=RoundStats)
    state: EncoderState | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """A policy's verdict: words to append for good, the guess after them, and the first sample still needed.

    level    counts the declared steps by which quality was lowered in this round, because the machine is late
    goes_on  the window was moved to hear the rest by itself, so that a last round is followed by another
    guess    all of the guess, where `hypothesis` is what is shown of it; None: that is all
    closing  an unlikely mark after a last round's words: confirmed if nobody speaks on in the same turn, or what is
             said then begins as after such a mark
    """

    confirmed: tuple[Word, ...]
    hypothesis: tuple[Word, ...]
    keep_from: int
    level: int = 0
    goes_on: bool = False
    guess: tuple[Word, ...] | None = None
    closing: Word | None = None


def stats_of(costs: Sequence[Cost], tokens: int) -> RoundStats:
    """The cost of a round, stage by stage, for `tokens` of text."""
    seconds: dict[Stage, float] = {"encode": 0.0, "decode": 0.0, "align": 0.0}
    features_s, runs = 0.0, 0
    for cost in costs:
        seconds[cost.stage] += cost.seconds
        features_s += cost.features_s
        runs += cost.steps.runs
    return RoundStats(
        encode_s=seconds["encode"],
        decode_s=seconds["decode"],
        align_s=seconds["align"],
        features_s=features_s,
        decoder_runs=runs,
        tokens=tokens,
    )


def result_of(
    resources: RoundResources,
    plan: RoundPlan,
    heard: T | None,
    language: DetectedLanguage,
    costs: Sequence[Cost],
    tokens: int,
) -> RoundResult[T]:
    """The outcome of a round that took `costs`, with `tokens` of text. An English-only model says nothing of the
    language.
    """
    return RoundResult(
        plan,
        heard,
        language=language.language if resources.model.tokenizer.is_multilingual else None,
        language_probability=language.probability,
        costs=tuple(costs),
        stats=stats_of(costs, tokens),
    )
