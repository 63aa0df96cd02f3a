"""What faster-whisper's `transcribe` gives and takes, by its names: times are seconds, `seek` mel frames of 10 ms.

Source: the data classes of faster-whisper 1.2 (transcribe.py and vad.py).
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from whispertide.types import HOP_LENGTH, OfflineSegment, seconds


@dataclass
class _Listed:
    """What was a named tuple there once."""

    def _asdict(self) -> dict[str, Any]:
        """The fields by name, with what they hold as plain values too; deprecated there as well."""
        name = type(self).__name__
        message = f"{name}._asdict() is deprecated in faster-whisper; use dataclasses.asdict({name.lower()})"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return asdict(self)


@dataclass
class Word(_Listed):
    """A spoken word; `word` has its leading space."""

    start: float
    end: float
    word: str
    probability: float


@dataclass
class Segment(_Listed):
    """A piece of transcript. Numbers begin at 1; `words` is None unless they are asked for."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: list[Word] | None
    temperature: float | None

    @classmethod
    def of(cls, segment: OfflineSegment, *, word_timestamps: bool) -> "Segment":
        """Convert one of ours."""
        words = [Word(word.start_s, word.end_s, word.text, word.probability) for word in segment.words]
        return cls(
            id=segment.id + 1,
            seek=segment.window // HOP_LENGTH,
            start=seconds(segment.span.start),
            end=seconds(segment.span.end),
            text=segment.text,
            tokens=list(segment.tokens),
            avg_logprob=segment.avg_logprob,
            compression_ratio=segment.compression_ratio,
            no_speech_prob=segment.no_speech_prob,
            words=words if word_timestamps else None,
            temperature=segment.temperature,
        )


@dataclass
class TranscriptionOptions:
    """How a recording was decoded, as the caller asked for it; `compat.arguments` says which have an effect."""

    beam_size: int
    best_of: int
    patience: float
    length_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    log_prob_threshold: float | None
    no_speech_threshold: float | None
    compression_ratio_threshold: float | None
    condition_on_previous_text: bool
    prompt_reset_on_temperature: float
    temperatures: Sequence[float]
    initial_prompt: str | Sequence[int] | None
    prefix: str | None
    suppress_blank: bool
    suppress_tokens: Sequence[int] | None
    without_timestamps: bool
    max_initial_timestamp: float
    word_timestamps: bool
    prepend_punctuations: str
    append_punctuations: str
    multilingual: bool
    max_new_tokens: int | None
    clip_timestamps: str | Sequence[float]
    hallucination_silence_threshold: float | None
    hotwords: str | None

    @classmethod
    def of(cls, arguments: Mapping[str, Any], **others: Any) -> "TranscriptionOptions":
        """Those of `transcribe`'s arguments that are options, by their names, but for the `others`."""
        given = {**arguments, **others}
        return cls(**{item.name: given[item.name] for item in fields(cls)})


@dataclass
class VadOptions:
    """Settings of their voice filter. The gate here adapts by itself and takes none; they are kept for `info`."""

    threshold: float = 0.5
    neg_threshold: float | None = None
    min_speech_duration_ms: int = 0
    max_speech_duration_s: float = float("inf")
    min_silence_duration_ms: int = 2000
    speech_pad_ms: int = 400


@dataclass
class TranscriptionInfo:
    """What is known of a recording before its first segment. `duration_after_vad` is without the pauses that the voice
    gate leaves out; `all_language_probs` has the likeliest language first, and is None where none was listened for.
    """

    language: str
    language_probability: float
    duration: float
    duration_after_vad: float
    all_language_probs: list[tuple[str, float]] | None
    transcription_options: TranscriptionOptions
    vad_options: VadOptions | None
