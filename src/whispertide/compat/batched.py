"""`BatchedInferencePipeline` as faster-whisper 1.2 has it: the same arguments, in the same order, with its defaults."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from whispertide.compat.arguments import as_text, lasting_prompt
from whispertide.compat.faster_whisper import FALLBACK, Audio, WhisperModel
from whispertide.compat.values import Segment, TranscriptionInfo, VadOptions
from whispertide.decoding.token_words import APPENDED, PREPENDED
from whispertide.options import Task

# What the pipeline takes there and does not use, as it reports it.
_UNUSED: Mapping[str, Any] = MappingProxyType(
    {
        "condition_on_previous_text": False,
        "prompt_reset_on_temperature": 0.5,
        "prefix": None,
        "hallucination_silence_threshold": None,
        "max_initial_timestamp": 1.0,
    }
)
_WINDOW_S, _PAUSE_MS = 30, 160


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

        As there, pauses are left out, a segment is all that is said in a window unless timestamps are asked for, and no
        window is told what was said before it, but each is shown the prompt. Of several temperatures only the first
        is used. So `condition_on_previous_text`, `prompt_reset_on_temperature`, `prefix`,
        `hallucination_silence_threshold` and `max_initial_timestamp` have no effect, as there; `batch_size` has none
        either. Arguments and errors are otherwise those of `WhisperModel.transcribe`.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "batch_size")}
        given |= {"clip_timestamps": clip_timestamps or "0", **_UNUSED}
        if not isinstance(temperature, int | float):
            given["temperature"] = temperature[:1]
        # Here the prompt is shown to every window, and there the words to be recognized are.
        shown = (lasting_prompt(hotwords), as_text(initial_prompt, self.model.transcriber.tokenizer))
        given |= {"initial_prompt": None, "hotwords": " ".join(filter(None, shown))}
        segments, info = self.model.transcribe(**given)
        info.transcription_options = replace(
            info.transcription_options,
            initial_prompt=initial_prompt,
            hotwords=hotwords,
            prefix=prefix,
            max_initial_timestamp=0.0,
        )
        if vad_filter:
            info.vad_options = _reported(info.vad_options, vad_parameters)
        return segments, info


def _reported(used: VadOptions | None, given: Mapping[str, Any] | VadOptions | None) -> VadOptions | None:
    """The settings of the voice filter as the pipeline reports them: it cuts into windows, and at shorter pauses."""
    if used is None or isinstance(given, VadOptions):
        return used
    pause = _PAUSE_MS if given is None else used.min_silence_duration_ms
    return replace(used, max_speech_duration_s=_WINDOW_S, min_silence_duration_ms=pause)
