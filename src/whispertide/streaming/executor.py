"""Where rounds are computed. `SerialExecutor` runs one after the other on the caller's thread, and so does
`single_pass.SinglePassExecutor`; `pipelined` runs the two stages of either on threads of their own. `make_executor`
chooses.

An executor knows the model and the framing; it knows nothing of policies, of other rounds or of sessions, so any number
of sessions can share it (one call at a time).
"""

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Self

import numpy as np

from whispertide.decoding.language import choose_language
from whispertide.decoding.longform import Features, Frame, OfflineSegment, Transcription
from whispertide.decoding.search import Guard
from whispertide.decoding.truncation import TruncationDetector
from whispertide.decoding.word_end import WordEndDetector
from whispertide.options import DecodeOptions
from whispertide.streaming.align_att import AlignAtt
from whispertide.streaming.allocation import Allocation, split_evenly
from whispertide.streaming.framing import Framing, Hush
from whispertide.streaming.hush import HushWord, suffix_for
from whispertide.streaming.pipelined import Exchange, PipelinedExecutor
from whispertide.streaming.policy import Executor
from whispertide.streaming.recipe import Recipe
from whispertide.streaming.round import Heard, RoundPlan, RoundResult, stats_of
from whispertide.streaming.single_pass import SinglePassExecutor
from whispertide.streaming.stages import Opening
from whispertide.types import N_FRAMES, FloatArray, Span, Word

if TYPE_CHECKING:
    from whispertide.model.engine import Encoded
    from whispertide.model.whisper import WhisperModel


ExecutorKey = tuple[bool, Framing, bool, bool]


def make_executor(
    model: "WhisperModel",
    recipe: Recipe,
    detector: WordEndDetector | None = None,
    hush: HushWord | None = None,
    allocation: Allocation | None = None,
) -> Executor:
    """What computes the rounds of `recipe`; recipes of the same `executor_key` may share it.

    `detector` or `hush` None: where the recipe wants one it is loaded from next to the checkpoint. Raises
    `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is damaged or a detector another
    model's; `OptionError` where `hush` has another length than the recipe says. A recipe with `search=unrolled` has its
    static graphs built now, if they are not in the cache; `GraphError` where they cannot be.

    `allocation` says where the stages compute (`allocation.allocate` finds it); None: as `model` does, and a pipeline
    shares its threads out evenly. Graphs for other places than the model's are opened now.
    """
    if allocation is None and recipe.executor.kind == "pipelined":
        allocation = split_evenly(model.options)
    stages = _stages(model, recipe, detector, hush, allocation)
    if allocation is None or allocation.decoder is None:
        return stages
    return PipelinedExecutor(stages, Exchange(stages.encoder, allocation.exchange) if allocation.exchange else None)


def _stages(
    model: "WhisperModel",
    recipe: Recipe,
    detector: WordEndDetector | None,
    hush: HushWord | None,
    allocation: Allocation | None,
) -> "SerialExecutor | SinglePassExecutor":
    encoder = None
    if allocation is not None:
        encoder, model = _views(model, allocation)
    frame = recipe.framing
    suffix = suffix_for(model, frame.hush_s, hush) if isinstance(frame, Hush) else None
    if recipe.policy.overlaps:
        return SerialExecutor(model, frame, suffix, encoder)
    if detector is None and _detects(recipe):
        detector = TruncationDetector.beside(model.checkpoint)
    executor = SinglePassExecutor(model, frame, detector, suffix=suffix, encoder=encoder)
    if recipe.search.kind == "unrolled":
        executor.open_unrolled()
    return executor


def _views(model: "WhisperModel", allocation: Allocation) -> "tuple[WhisperModel, WhisperModel]":
    """The model for the encoder's place and for the decoder's; serially that is one."""
    encoder = model.view(allocation.encoder.engine(model.options))
    decoder = encoder if allocation.decoder is None else model.view(allocation.decoder.engine(model.options))
    decoder.decoder(encoder.encode(np.zeros((model.dims.n_mels, 2), np.float32)))  # opens the graphs
    return encoder, decoder


def executor_key(recipe: Recipe) -> ExecutorKey:
    """All of a recipe that an executor depends on."""
    return recipe.policy.overlaps, recipe.framing, _detects(recipe), recipe.search.kind == "unrolled"


def _detects(recipe: Recipe) -> bool:
    return isinstance(recipe.policy, AlignAtt) and recipe.policy.truncate == "detector"


class SerialExecutor:
    """Hears each window whole: Whisper's transcription of it, with word times, in as many decodes as it takes.

    `suffix` are the samples of a hush word, if one goes after every window. `encoder` runs the first stage, if that is
    not to be `model`.
    """

    def __init__(
        self,
        model: "WhisperModel",
        frame: Frame,
        suffix: FloatArray | None = None,
        encoder: "WhisperModel | None" = None,
    ) -> None:
        self.model = model
        self.encoder = encoder or model
        self.frame = frame
        self.suffix = suffix

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions) -> RoundResult:
        """Hear `audio` ([len(plan.window)] samples). Raises `GraphError` where the model fails."""
        return self.decode(plan, self.encode(plan, audio), options)

    def encode(self, plan: RoundPlan, audio: FloatArray) -> Opening | None:
        """The first stage of `run`: the first window, and usually the only one. None: there is less than 10 ms."""
        features = Features.of([audio], self.encoder.dims.n_mels, self.suffix)
        if not features.frames:
            return None
        return Opening.of(features, min(features.frames, N_FRAMES), lambda mel: self.frame(self.encoder, mel))

    def decoding_with(self, model: "WhisperModel") -> Self:
        """The same executor, but `model` decodes."""
        other = copy(self)
        other.model = model
        return other

    def decode(
        self, plan: RoundPlan, opening: Opening | None, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult:
        """The second stage of `run`."""
        if opening is None:
            return RoundResult(plan, ())
        language = choose_language(self.model, lambda: opening.encoded, options.language)
        transcription = Transcription(
            self.model,
            opening.features,
            options,
            language.language,
            seek=0,
            end=opening.features.frames,
            frame=_opened(opening, self.frame),
            context=self._context(plan, options),
            reread=plan.reread,
            guards=guards,
            reference=plan.reference and plan.reference.since(plan.window.start),
        )
        segments: list[OfflineSegment] = []
        while not transcription.done:
            segments += transcription.next_window()
        tokens = tuple(token for segment in segments for token in segment.tokens)
        costs = (opening.cost, *transcription.costs[1:])
        return RoundResult(
            plan,
            segments=tuple(_heard(segment, plan.window) for segment in segments),
            tokens=tokens,
            language=language.language if self.model.dims.is_multilingual else None,
            language_probability=language.probability,
            costs=costs,
            stats=stats_of(costs, len(tokens)),
        )

    def _context(self, plan: RoundPlan, options: DecodeOptions) -> list[int]:
        """The user's own prompt, then what was said before the window, as tokens."""
        said = plan.prompt if options.condition_on_previous_text is not False else ""
        text = " ".join(part for part in (options.prompt.strip(), said.strip()) if part)
        return self.model.tokenizer.encode(" " + text) if text else []


def _opened(opening: Opening, frame: Frame) -> Frame:
    """`frame`, but the first window is encoded already."""
    there = [opening.encoded]

    def encode(model: "WhisperModel", mel: FloatArray, *, taps: Sequence[int] = ()) -> "Encoded":
        return there.pop() if there else frame(model, mel, taps=taps)

    return encode


def _heard(segment: OfflineSegment, window: Span) -> Heard:
    """A segment of the window's own time in absolute samples, kept inside the window."""

    def absolute(sample: int) -> int:
        return min(window.start + sample, window.end)

    return Heard(
        span=Span(absolute(segment.span.start), absolute(segment.span.end)),
        words=tuple(
            Word(word.text, absolute(word.start), absolute(word.end), word.probability) for word in segment.words
        ),
        no_speech_prob=segment.no_speech_prob,
        avg_logprob=segment.avg_logprob,
        compression_ratio=segment.compression_ratio,
        tokens=segment.tokens,
    )
