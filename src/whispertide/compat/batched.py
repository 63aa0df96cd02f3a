"""`BatchedInferencePipeline` as faster-whisper 1.2 has it: the same arguments, in the same order, with its defaults."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whispertide.compat.faster_whisper import FALLBACK, Audio, WhisperModel
from whispertide.compat.values import Segment, TranscriptionInfo, VadOptions
from whispertide.decoding.token_words import APPENDED, PREPENDED
from whispertide.options import Task


class BatchedInferencePipeline:
    """A model that transcribes a recording in windows that do not know of each other's text.

    Unlike there, windows are decoded one after another: the next one begins where the last one's words end, and the
    engine runs one window on all of its threads. So this is no faster than `WhisperModel`, and takes no more memory
    for a larger batch. Many recordings at once are the business of `whispertide batch` (`whispertide.batch`).
    """

    def __init__(self, model: WhisperModel) -> None:
        self.model = model

    def transcribe(
        self,
        audio: Audio,
        language: str | None = None,
        task: Task = "transcribe",
        log_progress: bool = False,
        beam_size: int = 5,
        best_of: int = 5,
        patience: float = 1,
        length_penalty: float = 1,
        repetition_penalty: float = 1,
        no_repeat_ngram_size: int = 0,
        temperature: float | Sequence[float] = FALLBACK,
        compression_ratio_threshold: float | None = 2.4,
        log_prob_threshold: float | None = -1.0,
        no_speech_threshold: float | None = 0.6,
        condition_on_previous_text: bool = True,
        prompt_reset_on_temperature: float = 0.5,
        initial_prompt: str | Sequence[int] | None = None,
        prefix: str | None = None,
        suppress_blank: bool = True,
        suppress_tokens: Sequence[int] | None = (-1,),
        without_timestamps: bool = True,
        max_initial_timestamp: float = 1.0,
        word_timestamps: bool = False,
        prepend_punctuations: str = PREPENDED,
        append_punctuations: str = APPENDED,
        multilingual: bool = False,
        vad_filter: bool = True,
        vad_parameters: Mapping[str, Any] | VadOptions | None = None,
        max_new_tokens: int | None = None,
        chunk_length: int | None = None,
        clip_timestamps: Sequence[Mapping[str, float]] | None = None,
        hallucination_silence_threshold: float | None = None,
        batch_size: int = 8,
        hotwords: str | None = None,
        language_detection_threshold: float | None = 0.5,
        language_detection_segments: int = 1,
    ) -> tuple[Iterator[Segment], TranscriptionInfo]:
        """Read a recording and find its language; its segments are decoded as they are asked for.

        As there, pauses are left out, a segment is all that is said in a window unless timestamps are asked for, and
        `condition_on_previous_text` has no effect: no window is told what was said before it. `batch_size` has no
        effect either. Arguments and errors are otherwise those of `WhisperModel.transcribe`.
        """
        return self.model.transcribe(
            audio,
            language=language,
            task=task,
            log_progress=log_progress,
            beam_size=beam_size,
            best_of=best_of,
            patience=patience,
            length_penalty=length_penalty,
            repetition_penalty=repetition_penalty,
            no_repeat_ngram_size=no_repeat_ngram_size,
            temperature=temperature,
            compression_ratio_threshold=compression_ratio_threshold,
            log_prob_threshold=log_prob_threshold,
            no_speech_threshold=no_speech_threshold,
            condition_on_previous_text=False,
            prompt_reset_on_temperature=prompt_reset_on_temperature,
            initial_prompt=initial_prompt,
            prefix=prefix,
            suppress_blank=suppress_blank,
            suppress_tokens=suppress_tokens,
            without_timestamps=without_timestamps,
            max_initial_timestamp=max_initial_timestamp,
            word_timestamps=word_timestamps,
            prepend_punctuations=prepend_punctuations,
            append_punctuations=append_punctuations,
            multilingual=multilingual,
            vad_filter=vad_filter,
            vad_parameters=vad_parameters,
            max_new_tokens=max_new_tokens,
            chunk_length=chunk_length,
            clip_timestamps=clip_timestamps or "0",
            hallucination_silence_threshold=hallucination_silence_threshold,
            hotwords=hotwords,
            language_detection_threshold=language_detection_threshold,
            language_detection_segments=language_detection_segments,
        )
