"""Where rounds are computed. `SerialExecutor` runs one after the other on the caller's thread, and so does
`single_pass.SinglePassExecutor`; `make_executor` chooses.

An executor knows the model and the framing; it knows nothing of policies, of other rounds or of sessions, so any number
of sessions can share it (one call at a time).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whispertide.checkpoint.hub import path
from whispertide.decoding.language import choose_language
from whispertide.decoding.longform import Cost, Features, Frame, OfflineSegment, Stage, Transcription
from whispertide.decoding.search import Guard
from whispertide.decoding.truncation import FILE_NAME, TruncationDetector
from whispertide.decoding.word_end import WordEndDetector
from whispertide.errors import CheckpointNotFoundError, WhispertideError
from whispertide.events import RoundStats
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import get_framing
from whispertide.streaming.policy import Executor
from whispertide.streaming.recipe import Recipe
from whispertide.streaming.round import Heard, RoundPlan, RoundResult
from whispertide.streaming.single_pass import SinglePassExecutor
from whispertide.types import N_FRAMES, FloatArray, Span, Word

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel


ExecutorKey = tuple[str, str, bool, bool]


def make_executor(model: "WhisperModel", recipe: Recipe, detector: WordEndDetector | None = None) -> Executor:
    """What computes the rounds of `recipe`; recipes of the same `executor_key` may share it.

    `detector` None: where the recipe wants one it is loaded from beside the checkpoint. Raises
    `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is another model's. A recipe with
    `search=unrolled` has its static graphs built now, if they are not in the cache; `GraphError` where they cannot be.
    """
    if recipe.policy == "local-agreement":
        return SerialExecutor(model, get_framing(recipe.framing))
    if detector is None and _detects(recipe):
        detector = _load_detector(model)
    executor = SinglePassExecutor(model, get_framing(recipe.framing), detector)
    if recipe.search == "unrolled":
        executor.open_unrolled()
    return executor


def executor_key(recipe: Recipe) -> ExecutorKey:
    """All of a recipe that an executor depends on."""
    kind = "whole" if recipe.policy == "local-agreement" else "single"
    return kind, recipe.framing, _detects(recipe), recipe.search == "unrolled"


def _detects(recipe: Recipe) -> bool:
    return recipe.policy == "align-att" and recipe.truncate == "detector"


def _load_detector(model: "WhisperModel") -> TruncationDetector:
    folder = model.checkpoint.tensors.files[0].parent  # where `whispertide train truncation` puts it
    try:
        return TruncationDetector.load(
            folder / FILE_NAME, width=model.dims.n_audio_state, content_hash=model.content_hash
        )
    except CheckpointNotFoundError as error:
        raise CheckpointNotFoundError(
            f"expected a word-truncation detector of {model.name} for truncate=detector; there is none in {folder}: "
            f"train it with `whispertide train truncation {_command_name(model)}`, or choose truncate=last-word"
        ) from error


def _command_name(model: "WhisperModel") -> str:
    """What the command line calls the model: its name, or for the user's own files their path."""
    weights = model.checkpoint.tensors.files[0]
    try:
        place = path(model.name)
    except WhispertideError:
        place = None
    if place in (weights, weights.parent):
        return model.name
    return str(weights if weights.suffix == ".pt" else weights.parent)


class SerialExecutor:
    """Hears each window whole: Whisper's transcription of it, with word times, in as many decodes as it takes."""

    def __init__(self, model: "WhisperModel", frame: Frame) -> None:
        self.model = model
        self.frame = frame

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult:
        """Hear `audio` ([len(plan.window)] samples). Raises `GraphError` where the model fails."""
        features = Features.of([audio], self.model.dims.n_mels)
        if not features.frames:  # less than 10 ms
            return RoundResult(plan, ())
        language = choose_language(
            self.model,
            lambda: self.frame(self.model, features.window(0, min(features.frames, N_FRAMES))),
            options.language,
        )
        transcription = Transcription(
            self.model,
            features,
            options,
            language.language,
            seek=0,
            end=features.frames,
            frame=self.frame,
            context=self._context(plan, options),
            guards=guards,
        )
        segments: list[OfflineSegment] = []
        while not transcription.done:
            segments += transcription.next_window()
        tokens = tuple(token for segment in segments for token in segment.tokens)
        return RoundResult(
            plan,
            segments=tuple(_heard(segment, plan.window) for segment in segments),
            tokens=tokens,
            language=language.language if self.model.dims.is_multilingual else None,
            language_probability=language.probability,
            costs=tuple(transcription.costs),
            stats=_stats(transcription.costs, len(tokens)),
        )

    def _context(self, plan: RoundPlan, options: DecodeOptions) -> list[int]:
        """The user's own prompt, then what was said before the window, as tokens."""
        said = plan.prompt if options.condition_on_previous_text else ""
        text = " ".join(part for part in (options.prompt.strip(), said.strip()) if part)
        return self.model.tokenizer.encode(" " + text) if text else []


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


def _stats(costs: Sequence[Cost], tokens: int) -> RoundStats:
    def total(stage: Stage) -> float:
        return sum(cost.seconds for cost in costs if cost.stage == stage)

    return RoundStats(
        encode_s=total("encode"),
        decode_s=total("decode"),
        align_s=total("align"),
        decoder_runs=sum(cost.runs for cost in costs if cost.stage != "encode"),
        tokens=tokens,
    )
