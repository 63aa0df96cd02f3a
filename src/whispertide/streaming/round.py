"""One round of streaming: what is planned, what came out, what is committed.

A *plan* says which audio to hear, how, and with what text around it; an executor turns it into a *result*; the policy
turns the result into a *commit*. All three are values: they can be recorded, replayed, sent to another thread or
another machine. Times are absolute samples. What it is computed with is the executor's `Equipment`: a model, a framing,
and what goes with them.

How a window is heard is a value of its own, a `Hearing`, which knows its two stages and what they give: a whole window
as Whisper transcribes a recording (`whole_window`), or in one decode that its attention watches (`single_pass`).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from whispertide.decoding.draft import Drafter, Reference
from whispertide.decoding.language import DetectedLanguage, choose_language, detect_language
from whispertide.decoding.longform import Cost, Stage
from whispertide.decoding.rules import Rules, build_rules, suppressed_tokens
from whispertide.decoding.search import Guard
from whispertide.decoding.token_words import TokenKinds, TokenWord
from whispertide.decoding.word_end import WordEndDetector
from whispertide.events import RoundStats
from whispertide.features import Features
from whispertide.graphs.chunks import layout_for, unrolled_decoder
from whispertide.graphs.store import GraphFiles
from whispertide.model.engine import Encoded, EncoderState
from whispertide.model.static import StaticEngine
from whispertide.options import DecodeOptions, Task
from whispertide.streaming.choice import Choice, setting
from whispertide.streaming.framing import Framing
from whispertide.streaming.offload import OffloadModel
from whispertide.streaming.repetition import BEFORE, without_loops, without_unlikely
from whispertide.types import CHUNK_SECONDS, FRAME_SAMPLES, FloatArray, Span, Word, align_down, to_samples

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EncodedWindow:
    """What the first stage leaves to the second: the features of the round, and its first window encoded.

    `hushed` says whether a hush word is after that window.
    """

    features: Features
    encoded: "Encoded"
    cost: Cost
    hushed: bool


@dataclass(slots=True)
class Equipment:
    """What the rounds of any number of sessions are computed with, one at a time; it knows nothing of any of them.

    model     decodes, and where there is no `encoder` also encodes
    frame     how a window becomes encoder input
    suffix    the samples of a hush word, if one goes after every window
    detector  tells whether the last word was spoken to its end
    offramp   tells how likely the text of a pilot is not good enough
    drafter   drafts ahead of greedy searches where a round has nothing to go by
    unrolled  static graphs of the decoder; None: built, or found in the cache, when a plan first asks for them
    encoder   runs the first stage, if that is not to be `model`
    """

    model: "WhisperModel"
    frame: Framing
    suffix: FloatArray | None = None
    detector: WordEndDetector | None = None
    unrolled: StaticEngine | None = None
    encoder: "WhisperModel | None" = None
    drafter: Drafter | None = None
    offramp: OffloadModel | None = None
    kinds: Callable[[str | None], TokenKinds] = field(init=False, repr=False)  # words from punctuation in a language
    start: Callable[[str | None, Task], tuple[int, ...]] = field(init=False, repr=False)  # what begins a transcript
    _rules: Callable[[tuple[int, ...] | None, bool], Rules] = field(init=False, repr=False)
    _languages: dict[str | None, DetectedLanguage] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        tokenizer = self.model.tokenizer
        # Caches of its own in place of cached methods, which would keep every equipment alive.
        self.kinds = lru_cache(maxsize=8)(lambda language: TokenKinds(tokenizer, language))
        self.start = lru_cache(maxsize=8)(lambda language, task: tokenizer.sot_sequence(language, task, False))
        self._rules = lru_cache(maxsize=8)(self._make_rules)

    def language(self, encoded: "Encoded", options: DecodeOptions, plan: "RoundPlan") -> DetectedLanguage:
        """The language of a round: what is wanted, English where there is no other, else what is heard in `encoded`,
        in view of what was spoken before.

        Raises `UnknownLanguageError` for a wanted language that the checkpoint cannot write.
        """
        # Never kept: what is heard may be another language in the next round.
        if options.language is None and self.model.tokenizer.is_multilingual:
            found = detect_language(self.model, encoded)
            return found if self.waits(plan, found) else found.after(plan.spoken)
        if options.language not in self._languages:
            self._languages[options.language] = choose_language(self.model, lambda: encoded, options.language)
        return self._languages[options.language]

    def waits(self, plan: "RoundPlan", language: DetectedLanguage) -> bool:
        """Whether a round is left to the next one, because its language is a guess: what is confirmed in the wrong one
        stays, and the utterance goes on in it. The last round of an utterance does not wait.
        """
        return not plan.is_last and language.language != plan.spoken and language.may_change(len(plan.window))

    def result(
        self, plan: "RoundPlan", heard: T | None, language: DetectedLanguage, costs: Sequence[Cost], tokens: int
    ) -> "RoundResult[T]":
        """What a round found for `costs`, with `tokens` of text. An English-only model says nothing of the language."""
        return RoundResult(
            plan,
            heard,
            language=language.language if self.model.tokenizer.is_multilingual else None,
            language_probability=language.probability,
            costs=tuple(costs),
            stats=stats_of(costs, tokens),
        )

    @property
    def encodes(self) -> "WhisperModel":
        """What runs the first stage."""
        return self.encoder or self.model

    def open(
        self,
        features: Features,
        frames: int,
        state: "EncoderState | None",
        taps: Sequence[int] = (),
        frame: Framing | None = None,
        *,
        began: float,
    ) -> EncodedWindow:
        """Encode the first `frames` mel frames of a round, after what left `state`, and note what that took since the
        features `began`; `frame`: in another framing.
        """
        mel = features.followed(0, frames)
        features_s = time.perf_counter() - began
        encoded = (frame or self.frame).after(self.encodes, mel, state, taps=taps)
        cost = Cost("encode", time.perf_counter() - began, encoded.computed, features_s=features_s)
        # Only a hush word makes the features longer than the window.
        return EncodedWindow(features, encoded, cost, hushed=mel.shape[1] > frames)

    def open_unrolled(self) -> StaticEngine:
        """The static graphs of the model's decoder. Raises `GraphError` where they cannot be built."""
        if self.unrolled is None:
            checkpoint = self.model.checkpoint
            manifest = GraphFiles(checkpoint, "fp32")[unrolled_decoder(layout_for(checkpoint))]
            self.unrolled = StaticEngine(manifest.parent, checkpoint, self.model.options)
        return self.unrolled

    def rules(self, options: DecodeOptions, must_speak: bool) -> Rules:
        """Text only: no timestamps, languages or other special tokens."""
        return self._rules(options.suppress_tokens, must_speak)

    def _make_rules(self, suppress: tuple[int, ...] | None, must_speak: bool) -> Rules:
        tokenizer = self.model.tokenizer
        never = suppressed_tokens(tokenizer, suppress, self.model.generation.suppress_tokens)
        special = range(tokenizer.eot + 1, self.model.dims.n_vocab)
        # Whisper's rule against a blank beginning forbids the end of text as the first token, too.
        options = DecodeOptions(
            timestamps=False, suppress_blank=must_speak, suppress_tokens=tuple(sorted({*never, *special}))
        )
        return build_rules(self.model, options)


Heard_co = TypeVar("Heard_co", covariant=True)


class Opened(Protocol):
    """What the first stage of a round leaves to the second."""

    @property
    def encoded(self) -> Encoded:
        """The audio; with a state, where the next round's audio is encoded after it."""


class Hearing(Protocol):
    """How a window is heard, in two stages, which may run in two threads and overlap with those of other rounds."""

    def encode(
        self, equipment: Equipment, plan: "RoundPlan", audio: FloatArray, state: EncoderState | None
    ) -> Opened | None:
        """The first stage: `audio` ([len(plan.window)] samples) into the encoder, after what left `state`.

        None: there is too little to hear anything. Raises `GraphError` where the model fails.
        """

    def decode(
        self,
        equipment: Equipment,
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

    @property
    def ends_turn(self) -> bool:
        """Whether the utterance is over with it, unless its policy goes on (`Commit.goes_on`)."""
        return self.is_last and not self.provisional


@dataclass(frozen=True, slots=True)
class RoundResult(Generic[Heard_co]):
    """What a round heard, and what each graph stage of it cost.

    heard     what the plan's hearing gives; None: there was too little audio, also to know its language
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


class Begun(Protocol):
    """A state that says where the next window begins."""

    @property
    def start(self) -> int:
        """The sample."""


def drop_below_setting() -> float:
    """The setting of a policy that says which unlikely words are not written."""
    return setting(
        0.0,
        "words are not written where they, the two before and the two after are less likely on average, and the last "
        "twelve are unlikely: in noise most of these were not said (0 = all are written)",
        least=0,
        most=1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded(Choice):
    """Settings of a policy whose windows never outgrow `hard_cap_s`, and what most of these policies are."""

    streams: ClassVar[bool] = False
    overlaps: ClassVar[bool] = False
    forces: ClassVar[bool] = True

    hard_cap_s: float = setting(
        28.0,
        "windows never get longer; then words are confirmed whether they are certain or not",
        least=4,
        most=CHUNK_SECONDS,
    )
    no_speech: float = setting(0.9, "what is heard with a higher no-speech probability is dropped", least=0, most=1)
    loop_guard: bool = setting(True, "cut down repetition loops before they are confirmed, and in the guess")
    drop_below: float = drop_below_setting()

    @property
    def usual_s(self) -> float:
        """How long windows usually get at most: as long as they can."""
        return self.hard_cap_s

    @property
    def hard_cap(self) -> int:
        """The longest window, in samples."""
        return to_samples(self.hard_cap_s)

    def limit(self, state: Begun) -> int:
        """The end of a window of `hard_cap` samples."""
        return state.start + self.hard_cap

    def without_loops(self, said: Sequence[Word], words: Sequence[TokenWord]) -> list[TokenWord]:
        """The words after those that were said, loops cut down if that is asked for."""
        return without_loops(said, words) if self.loop_guard else list(words)


def commit(confirmed: Iterable[TokenWord], guess: Iterable[TokenWord], state: Begun, end: int) -> Commit:
    """After a window up to `end`: audio is needed from the start of the next one on, or from there."""
    shown = tuple(word.word for word in guess)
    return Commit(tuple(word.word for word in confirmed), shown, min(state.start, align_down(end)))


def written(verdict: Commit, chances: Sequence[float], said: int, below: float) -> tuple[Commit, tuple[float, ...]]:
    """A policy's verdict without unlikely words, and the probabilities of the last words that it confirmed.

    `chances` are those of the words before, the last `said` of which are of the same utterance.
    """
    rest = verdict.hypothesis if verdict.guess is None else verdict.guess
    kept = without_unlikely(verdict.confirmed, below, before=chances, said=said, after=rest)
    now = (*chances, *(word.probability for word in verdict.confirmed))[-BEFORE:]
    shown = without_unlikely(verdict.hypothesis, below, before=now, said=said + len(verdict.confirmed))
    return replace(verdict, confirmed=kept, hypothesis=shown), now


def stats_of(costs: Sequence[Cost], tokens: int) -> RoundStats:
    """What a round cost, stage by stage, for `tokens` of text."""

    def total(stage: Stage) -> float:
        return sum(cost.seconds for cost in costs if cost.stage == stage)

    return RoundStats(
        encode_s=total("encode"),
        decode_s=total("decode"),
        align_s=total("align"),
        features_s=sum(cost.features_s for cost in costs),
        decoder_runs=sum(cost.steps.runs for cost in costs),
        tokens=tokens,
    )
